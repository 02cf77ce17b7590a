// Monitors file as a source: follows the file on disk and yields each new set of monitors. An invalid new file is
// refused, and the monitors before it stay in force.
import { addAbortListener } from 'node:events'
import { watch, type FSWatcher } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Monitor, Variable } from '../../contract/monitor.ts'
import type { AnyMonitorType } from '../../monitors/monitor.ts'
import { formatProblem, type Problem } from './problems.ts'
import { readMonitorsFile, type LoadedFile, type ReadFile } from './file.ts'
import type { Change, MonitorSource, Snapshot } from '../source.ts'

export interface FileSourceOptions {
  path: string
  env: Readonly<Record<string, string | undefined>>
  types: ReadonlyMap<string, AnyMonitorType>
  /** Known to the file in addition to its own. */
  variables?: readonly Variable[]
  /** Used if the file names no location. */
  location: string
  /** Receives the warnings about an accepted file. */
  onWarnings?(warnings: readonly Problem[]): void
  /** How often the file is checked where the system reports no changes, as on network file systems. */
  pollMs?: number
}

/** A source that can reload its file, as on SIGHUP. */
export interface FileSource extends MonitorSource {
  follow(stop: AbortSignal): AsyncIterable<Change>
  /** Reads the file for the first time; `follow` then begins with the outcome. */
  read(): Promise<ReadFile>
  /** Reads the file again now, changed or not, and yields the outcome. */
  reload(): void
}

/** Writers write in steps: a changed file is read once it has been unchanged for this long. */
const SETTLE_MS = 100
const POLL_MS = 10_000

/** A source over one monitors file. It is followed once at a time. */
export function createFileSource(options: FileSourceOptions): FileSource {
  let first: FileVersion | undefined
  let isForced = false
  let woken = Promise.withResolvers<void>()
  const wake = () => woken.resolve()

  /** Resolves once the files differ from that version and have settled, a reload is requested, or on `stop`. */
  const nextVersion = async ({ read, signature }: FileVersion, stop: AbortSignal) => {
    let before = signature
    const isOver = () => isForced || stop.aborted
    while (!isOver()) {
      // A change while the file was read, or before the watch began, counts too.
      const now = await signatureOf(read.files)
      if (now === signature) await woken.promise
      else if (now === before) return
      before = now
      woken = Promise.withResolvers()
      await sleep(SETTLE_MS, undefined, { signal: stop }).catch(() => undefined)
    }
  }

  return {
    async read() {
      first = await readWhole(options)
      return first.read
    },
    reload() {
      isForced = true
      wake()
    },
    async *follow(stop) {
      let version = first ?? (await readWhole(options))
      // The first version must not stay in memory next to its replacement.
      first = undefined
      let last: Snapshot | undefined
      const unwatch = watchFolder(options, wake)
      using _listener = addAbortListener(stop, wake)
      try {
        while (!stop.aborted) {
          const change = await changeFrom(version.read, last, options)
          if (change.kind === 'monitors') last = change.snapshot
          yield change
          await nextVersion(version, stop)
          isForced = false
          if (!stop.aborted) version = await readWhole(options)
        }
      } finally {
        unwatch()
      }
    },
  }
}

/** A file that was read, with the signature of all files that it was made of. */
interface FileVersion {
  read: ReadFile
  signature: string
}

async function readWhole({ path, env, types, variables }: FileSourceOptions): Promise<FileVersion> {
  const before = await signatureOf([path])
  const read = await readMonitorsFile(path, env, types, variables)
  // The file itself stands first; those that it names are known only now.
  const [, ...named] = read.files
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
  const snapshot = snapshotOf(file, options.location)
  if (last !== undefined) await reuseUnchanged(snapshot.monitors as Monitor[], last.monitors)
  return { kind: 'monitors', snapshot }
}

/** Snapshot of a file; `otherwise` is its location if it names none. */
export function snapshotOf(file: LoadedFile, otherwise: string): Snapshot {
  const { location = otherwise, variables, monitors, proxyUrl } = file
  return { location, variables, monitors, ...(proxyUrl === undefined ? {} : { proxyUrl }) }
}

const COMPARED_AT_ONCE = 200

/** Reuses the earlier object of each unchanged definition. */
async function reuseUnchanged(monitors: Monitor[], before: readonly Monitor[]): Promise<void> {
  const byId = new Map(before.map((one) => [one.id, one]))
  for (const [index, monitor] of monitors.entries()) {
    const known = byId.get(monitor.id)
    if (known !== undefined && isDeepStrictEqual(known, monitor)) monitors[index] = known
    if (index % COMPARED_AT_ONCE === 0) await nextTurn()
  }
}

/** Signature of the files' version: changes with content, rename, and a symbolic link's target. */
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
 * place. Where watching is impossible only polling remains.
 */
function watchFolder({ path, pollMs = POLL_MS }: FileSourceOptions, wake: () => void): () => void {
  const poll = setInterval(wake, pollMs)
  const watcher = watcherOf(dirname(resolve(path)), wake)
  return () => {
    clearInterval(poll)
    watcher?.close()
  }
}

function watcherOf(folder: string, wake: () => void): FSWatcher | undefined {
  try {
    const watcher = watch(folder, wake)
    return watcher.on('error', () => watcher.close())
  } catch {
    return undefined
  }
}
