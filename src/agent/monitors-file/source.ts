// The monitors file as a source: follows it on disk and brings each new set of monitors. A bad new file
// is refused, and what was there before goes on.
import { watch, type FSWatcher } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Monitor, Variable } from '../../contract/monitor.ts'
import type { AnyMonitorType } from '../../monitors/monitor.ts'
import { formatProblem, type Problem } from './problems.ts'
import { readMonitorsFile, type LoadedFile, type ReadFile } from './file.ts'
import type { Change, MonitorSource, Snapshot } from '../source.ts'

/** What a file source needs. */
export interface FileSourceOptions {
  path: string
  env: Readonly<Record<string, string | undefined>>
  types: ReadonlyMap<string, AnyMonitorType>
  /** Known to the file besides its own. */
  variables?: readonly Variable[]
  /** The location's name, from the one that the file gives, if any. */
  location(named: string | undefined): string
  /** Told of what is odd about a file that is taken all the same. */
  onWarnings?(warnings: readonly Problem[]): void
  /** How often the file is looked at where the system tells nothing, as on network file systems. */
  pollMs?: number
}

/** A source that can be told to read its file again, as on SIGHUP. */
export interface FileSource extends MonitorSource {
  follow(stop: AbortSignal): AsyncIterable<Change>
  /** Reads the file for the first time; `follow` then begins with what came of it. */
  read(): Promise<ReadFile>
  /** Reads the file again now, changed or not, and yields what came of it. */
  reload(): void
}

/** Silence after the last sign of change before the file is read: writers write in steps. */
const SETTLE_MS = 100
const POLL_MS = 10_000

/** A source over one monitors file. It is followed once at a time. */
export function createFileSource(options: FileSourceOptions): FileSource {
  const wake = createWake()
  let first: SeenFile | undefined
  return {
    async read() {
      first = await readWhole(options)
      return first.read
    },
    reload: () => wake.now('reload'),
    async *follow(stop) {
      let seen = first ?? (await readWhole(options))
      // What is not needed again must not stay in memory beside what replaces it.
      first = undefined
      let last: Snapshot | undefined
      const unwatch = watchFolder(options, wake)
      try {
        for (;;) {
          if (stop.aborted) return
          const change = await changeFrom(seen.read, last, options)
          if (change.kind === 'monitors') last = change.snapshot
          yield change
          await nextVersion(wake, seen, stop)
          if (stop.aborted) return
          seen = await readWhole(options)
        }
      } finally {
        unwatch()
      }
    },
  }
}

/** A file that was read, and which version of it that was. */
interface SeenFile {
  read: ReadFile
  signature: string
}

/** Resolves once the files are no longer those that were seen, or a reload is asked for. */
async function nextVersion(wake: Wake, seen: SeenFile, stop: AbortSignal): Promise<void> {
  const differs = async () => (await signatureOf(seen.read.files)) !== seen.signature
  // What changed while the file was read, or before anybody watched, is a change too.
  if (await differs()) wake.soon()
  for (;;) {
    const why = await wake.next(stop)
    if (why !== 'look' || (await differs())) return
  }
}

async function readWhole({ path, env, types, variables }: FileSourceOptions): Promise<SeenFile> {
  const before = await signatureOf([path])
  const read = await readMonitorsFile(path, env, types, variables)
  // The file itself stands first; those that it names are known only now.
  const named = read.files.slice(1)
  const signature = [before, ...(named.length === 0 ? [] : [await signatureOf(named)])].join(' ')
  return { read, signature }
}

async function changeFrom(
  read: ReadFile,
  last: Snapshot | undefined,
  options: FileSourceOptions,
): Promise<Change> {
  if (!read.ok) return { kind: 'refused', reason: read.problems.map(formatProblem).join('\n') }
  const { file } = read
  if (file.warnings.length > 0) options.onWarnings?.(file.warnings)
  const snapshot = snapshotOf(file, options.location(file.location))
  if (last !== undefined) await keepUnchanged(snapshot.monitors as Monitor[], last.monitors)
  return { kind: 'monitors', snapshot }
}

/** What a file says, for a location. */
export function snapshotOf(file: LoadedFile, location: string): Snapshot {
  const { variables, monitors, proxyUrl } = file
  return { location, variables, monitors, ...(proxyUrl === undefined ? {} : { proxyUrl }) }
}

const COMPARED_AT_ONCE = 200

/** Puts the object from before in place of each definition that has not changed. */
async function keepUnchanged(monitors: Monitor[], before: readonly Monitor[]): Promise<void> {
  const byId = new Map(before.map((one) => [one.id, one]))
  for (const [index, monitor] of monitors.entries()) {
    const known = byId.get(monitor.id)
    if (known !== undefined && isDeepStrictEqual(known, monitor)) monitors[index] = known
    if (index % COMPARED_AT_ONCE === 0) await nextTurn()
  }
}

/** Which version of the files is there: changes with content, rename, and a symbolic link's target. */
async function signatureOf(files: readonly string[]): Promise<string> {
  const facts = await Promise.all(
    files.map(async (file) => {
      try {
        const { dev, ino, size, mtimeNs, ctimeNs } = await stat(file, { bigint: true })
        return `${dev}.${ino}.${size}.${mtimeNs}.${ctimeNs}`
      } catch (error) {
        return String((error as NodeJS.ErrnoException).code)
      }
    }),
  )
  return facts.join(' ')
}

/**
 * Watches the folder and not the file: editors and ConfigMaps put a new file, or a new link, in its
 * place. Where watching is impossible the slow look is all.
 */
function watchFolder({ path, pollMs = POLL_MS }: FileSourceOptions, wake: Wake): () => void {
  const poll = setInterval(() => wake.now('look'), pollMs)
  const watcher = watcherOf(dirname(resolve(path)), wake)
  return () => {
    clearInterval(poll)
    watcher?.close()
    wake.calm()
  }
}

function watcherOf(folder: string, wake: Wake): FSWatcher | undefined {
  try {
    const watcher = watch(folder, () => wake.soon())
    return watcher.on('error', () => watcher.close())
  } catch {
    return undefined
  }
}

type Why = 'look' | 'reload' | 'stop'

interface Wake {
  /** Wakes whoever waits, or the next who does. */
  now(why: Why): void
  /** Wakes after a silence. */
  soon(): void
  /** Takes back `soon`. */
  calm(): void
  next(stop: AbortSignal): Promise<Why>
}

function createWake(): Wake {
  let pending: Why | undefined
  let waiting: ((why: Why) => void) | undefined
  let settle: NodeJS.Timeout | undefined
  const now = (why: Why) => {
    if (waiting === undefined) pending = pending === 'reload' ? pending : why
    else waiting(why)
  }
  return {
    now,
    soon() {
      clearTimeout(settle)
      settle = setTimeout(() => now('look'), SETTLE_MS)
    },
    calm: () => clearTimeout(settle),
    async next(stop) {
      if (stop.aborted) return 'stop'
      if (pending !== undefined) {
        const why = pending
        pending = undefined
        return why
      }
      return new Promise((resolveWait) => {
        const stopped = () => finish('stop')
        const finish = (why: Why) => {
          stop.removeEventListener('abort', stopped)
          waiting = undefined
          resolveWait(why)
        }
        stop.addEventListener('abort', stopped)
        waiting = finish
      })
    },
  }
}
