// Slot ledger of an agent on a monitors file, on disk, for its next start: slots that came due and have no line
// yet, and the newest one that came due. One record is appended before the first line about a slot, another one
// right after it. A killed process loses none; what lies between the two writes is reported again: at most one slot
// on a pipe, the lines of one write on a socket. The file is not synced: a power failure may lose the last records.
import { createHash } from 'node:crypto'
import { closeSync, mkdirSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Instant } from '../../contract/job.ts'
import type { Result } from '../../contract/result.ts'
import { everyMs as everyMsOf, type Timing } from '../../contract/timetable.ts'
import type { LineWriter } from '../../process/line-writer.ts'
import { makeFolder } from '../../process/make-folder.ts'
import type { ResultSink } from '../sink.ts'

/** Agents that run the same file below one DATA_DIR. */
const LEDGERS_MAX = 256
/** Growth after which the file is compacted, once it has also reached four times its compacted size. */
const COMPACT_BYTES_MIN = 1024 * 1024
const FILE = 'slots'
/** Time between attempts to write a ledger that could not be written. */
const RETRY_MS = 15_000

/** Slots of a monitor. */
interface Entry {
  /** Interval of its slots. Milliseconds. */
  everyMs: number
  /** The newest slot that came due; undefined when the monitor is no longer watched. */
  until: Instant | undefined
  /** Slots that came due and have no line. */
  open: Set<Instant>
}

type Line = ['d' | 'p', string, number, Instant] | ['t', string, Instant] | ['g', string]

/** Opens the first free ledger of this monitors file. Rejects with the system's error when there is none. */
export async function openSlotLedger(
  dataDir: string,
  monitorsFile: string,
  onProblem: (error: unknown) => void,
): Promise<SlotLedger> {
  const { lockFolder } = await import('../../sandbox/locked-folder.ts')
  const root = join(dataDir, 'slots')
  // As the agents' folders: runs of other users pass through DATA_DIR.
  await makeFolder(dataDir, 0o711)
  await makeFolder(root, 0o700)
  const key = createHash('sha256').update(resolve(monitorsFile)).digest('hex').slice(0, 12)
  for (let n = 1; n <= LEDGERS_MAX; n++) {
    const folder = join(root, `${key}.${n}`)
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const release = lockFolder(folder)
    if (release !== undefined) return new SlotLedger(join(folder, FILE), release, onProblem)
  }
  throw new Error(`${LEDGERS_MAX} agents run ${monitorsFile} in ${root}`)
}

/** The sink of an agent without a platform: logs results, and accounts for their lines, which `writer` writes. */
export function loggingSink(
  logResult: (result: Result) => void,
  ledger: SlotLedger | undefined,
  writer: Pick<LineWriter, 'onWritten'>,
): ResultSink {
  return {
    async deliver(result: Result) {
      ledger?.flush()
      logResult(result)
      const { monitorId, slot, onDemand } = result
      if (onDemand === undefined) writer.onWritten(() => ledger?.reported(monitorId, slot))
    },
  }
}

/** The ledger. Its methods never throw; when the disk fails, `onProblem` is called, and writing is retried later. */
export class SlotLedger {
  readonly #path: string
  readonly #release: () => void
  readonly #onProblem: (error: unknown) => void
  readonly #entries: Map<string, Entry>
  #fd: number | undefined
  #waiting = ''
  #hasResumed = false
  #bytes = 0
  #compactedBytes = 0
  #retryAtMs = 0
  #flushSoon: NodeJS.Immediate | undefined

  constructor(path: string, release: () => void, onProblem: (error: unknown) => void) {
    this.#path = path
    this.#release = release
    this.#onProblem = onProblem
    this.#entries = read(path)
    this.#compact()
  }

  /** A slot came due. */
  due(id: string, everyMs: number, slot: Instant): void {
    this.#add(['d', id, everyMs, slot])
  }

  /** The line of a slot has been written. */
  reported(id: string, slot: Instant): void {
    if (this.#entries.get(id)?.open.has(slot) !== true) return
    this.#add(['t', id, slot])
    this.flush()
  }

  /**
   * These monitors are watched from now on, all others are forgotten. The first call gives, by id, the newest slot
   * that came due in an earlier process. It calls `onOpen` with the slots that an earlier process left without a
   * line, the oldest first.
   */
  resume<T extends { monitor: Timing }>(
    watches: readonly T[],
    onOpen: (watch: T, slot: Instant) => void,
  ): Map<string, Instant> {
    const earlier = new Map<string, Instant>()
    const ids = new Set(watches.map(({ monitor }) => monitor.id))
    // Slots that pass until they return are not theirs.
    for (const [id, { until }] of this.#entries) {
      if (until !== undefined && !ids.has(id)) this.#add(['g', id])
    }
    if (this.#hasResumed) return earlier
    this.#hasResumed = true
    for (const watch of watches) {
      const { monitor } = watch
      const left = this.#entries.get(monitor.id)
      if (left === undefined) continue
      const { everyMs, until, open } = left
      for (const slot of [...open].toSorted((a, b) => a - b)) onOpen(watch, slot)
      // Another interval has other slots.
      if (until !== undefined && everyMs === everyMsOf(monitor)) earlier.set(monitor.id, until)
    }
    return earlier
  }

  /** To be called before a line is written. */
  flush(): void {
    clearImmediate(this.#flushSoon)
    this.#flushSoon = undefined
    if (this.#fd === undefined && performance.now() > this.#retryAtMs) return this.#compact()
    if (this.#waiting === '' || this.#fd === undefined) return
    const text = this.#waiting
    this.#waiting = ''
    try {
      this.#bytes += append(this.#fd, text)
      if (this.#bytes > Math.max(COMPACT_BYTES_MIN, 4 * this.#compactedBytes)) this.#compact()
    } catch (error) {
      this.#fail(error)
    }
  }

  close(): void {
    this.#retryAtMs = Infinity
    this.flush()
    this.#closeFile()
    this.#release()
  }

  #add(line: Line): void {
    apply(this.#entries, line)
    if (this.#fd !== undefined) this.#waiting += `${JSON.stringify(line)}\n`
    this.#flushSoon ??= setImmediate(() => this.flush())
  }

  /** Rewrites the file with the current entries alone. */
  #compact(): void {
    const draft = `${this.#path}.new`
    try {
      const fd = openSync(draft, 'w', 0o600)
      this.#closeFile()
      this.#fd = fd
      this.#bytes = this.#compactedBytes = append(fd, textOf(this.#entries))
      renameSync(draft, this.#path)
    } catch (error) {
      this.#fail(error)
    }
  }

  /** A ledger with a gap would report slots again: the next attempt writes all of it. */
  #fail(error: unknown): void {
    this.#closeFile()
    this.#waiting = ''
    this.#retryAtMs = performance.now() + RETRY_MS
    this.#onProblem(error)
  }

  #closeFile(): void {
    if (this.#fd !== undefined) closeSync(this.#fd)
    this.#fd = undefined
  }
}

function append(fd: number, text: string): number {
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at)
  return bytes.length
}

function apply(entries: Map<string, Entry>, line: Line): void {
  const [what, id] = line
  const before = entries.get(id)
  if (what === 'd' || what === 'p') {
    const [, , everyMs, slot] = line
    const entry = before ?? { everyMs, until: undefined, open: new Set() }
    entries.set(id, Object.assign(entry, { everyMs, until: slot }))
    if (what === 'd') entry.open.add(slot)
    return
  }
  if (before === undefined) return
  if (what === 't') before.open.delete(line[2])
  else before.until = undefined
  if (before.until === undefined && before.open.size === 0) entries.delete(id)
}

function textOf(entries: ReadonlyMap<string, Entry>): string {
  const lines: Line[] = []
  for (const [id, { everyMs, until, open }] of entries) {
    for (const slot of open) lines.push(['d', id, everyMs, slot])
    lines.push(until === undefined ? ['g', id] : ['p', id, everyMs, until])
  }
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('')
}

/** Reads the ledger; an unreadable line was truncated by a killed process or a full disk. */
function read(path: string): Map<string, Entry> {
  const entries = new Map<string, Entry>()
  let text = ''
  try {
    text = readFileSync(path, 'utf8')
  } catch {
    return entries
  }
  for (const line of text.split('\n')) {
    try {
      if (line !== '') apply(entries, JSON.parse(line) as Line)
    } catch {
      continue
    }
  }
  return entries
}
