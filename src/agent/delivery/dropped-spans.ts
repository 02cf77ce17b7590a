// Results that were lost for want of room, as one span of slots for each monitor: the platform is told of them,
// so that it does not look for an agent that was lost. Kept on disk, since a restart may come first.
import { PROTOCOL_BOUNDS, type DroppedSpan } from '../../contract/protocol/agent-protocol.ts'
import { LIMITS } from '../../contract/versions.ts'
import type { AgentFolder } from './spool/agent-folder.ts'
import { openFrame, readFrames } from './spool/frame.ts'
import type { SpoolSegment } from './spool/segment.ts'

interface Span {
  from: number
  to: number
  /** How many results of it were lost. */
  results: number
}

/** Where spans are kept. */
export type SpanKeeping = Pick<AgentFolder, 'keep' | 'kept'>

const NAME = 'dropped'
/** Results whose slots are told in one batch; the platform fills in a bounded number. */
const RESULTS_PER_BATCH = PROTOCOL_BOUNDS.droppedSlotsPerBatchMax / 10
/** Lines of a spool that are read in one turn of the event loop. */
const LINES_PER_TURN = 1000
/** How `wireText` begins; a run on demand is no slot. */
const LINE = /^\{"monitorId":"([0-9a-f-]{36})","slot":(\d{1,16}),(?!"onDemand")/

export class DroppedSpans {
  readonly #folder: SpanKeeping
  readonly #spans = new Map<string, Span>()
  #isTelling = false
  #writing: Promise<void> | undefined
  #isStale = false

  constructor(folder: SpanKeeping) {
    this.#folder = folder
  }

  /** Reads what an earlier process kept. Never rejects. */
  async load(): Promise<void> {
    try {
      const bytes = await this.#folder.kept(NAME)
      if (bytes === undefined) return
      const kept = JSON.parse(bytes.toString()) as (DroppedSpan & Span)[]
      for (const { monitorId, from, to, results } of kept) this.#widen(monitorId, from, to, results)
    } catch {
      return
    }
  }

  /** Lines of results that are lost. */
  add(entries: readonly string[]): void {
    this.#note(entries)
    this.#keep()
  }

  /** What only lies in a file of the spool that is about to be removed. Never rejects. */
  async addSegment(segment: SpoolSegment): Promise<void> {
    try {
      let lines = 0
      for (const frame of readFrames(await segment.read())) {
        if (!segment.isWaiting(frame.number)) continue
        const entries = openFrame(frame, segment.cipherOf(frame.salt)) ?? []
        this.#note(entries)
        lines += entries.length
        if (lines < LINES_PER_TURN) continue
        lines = 0
        await new Promise((resolve) => setImmediate(resolve))
      }
    } catch {
      // The spans are a favour to whoever reads reasons; the file has to go.
    }
    this.#keep()
  }

  /** What to tell the platform next, with the call back for when it knows; undefined: nothing, for now. */
  next(): { spans: DroppedSpan[]; settled: (isTold: boolean) => void } | undefined {
    if (this.#isTelling || this.#spans.size === 0) return undefined
    const spans: DroppedSpan[] = []
    let left = RESULTS_PER_BATCH
    for (const [monitorId, { from, to, results }] of this.#spans) {
      if (left <= 0 || spans.length === PROTOCOL_BOUNDS.droppedPerBatchMax) break
      // Slots lie at even distances, so that a part of the time has that part of the results.
      const part = Math.min(1, left / results)
      spans.push({ monitorId, from, to: from + Math.floor((to - from) * part) })
      left -= results
    }
    this.#isTelling = true
    const settled = (isTold: boolean) => {
      this.#isTelling = false
      if (isTold) this.#forget(spans)
    }
    return { spans, settled }
  }

  /** Resolves when what is known is on disk, or cannot be. */
  async flush(): Promise<void> {
    while (this.#writing !== undefined) await this.#writing
  }

  #note(entries: readonly string[]): void {
    for (const line of entries) {
      const [, monitorId, slot] = LINE.exec(line) ?? []
      if (monitorId !== undefined) this.#widen(monitorId, Number(slot), Number(slot), 1)
    }
  }

  #widen(monitorId: string, from: number, to: number, results: number): void {
    const span = this.#spans.get(monitorId)
    if (span !== undefined) {
      span.from = Math.min(span.from, from)
      span.to = Math.max(span.to, to)
      span.results += results
    } else if (this.#spans.size < LIMITS.monitorsMax) {
      this.#spans.set(monitorId, { from, to, results })
    }
  }

  #forget(told: readonly DroppedSpan[]): void {
    for (const { monitorId, from, to } of told) {
      const span = this.#spans.get(monitorId)
      // Widened to the front meanwhile: all of it is told again.
      if (span?.from !== from) continue
      const rest = span.to === from ? 0 : (span.to - to) / (span.to - from)
      span.results = Math.ceil(span.results * rest)
      span.from = to + 1
      if (span.from > span.to) this.#spans.delete(monitorId)
    }
    this.#keep()
  }

  /** One write at a time; what changes meanwhile is written after it. */
  #keep(): void {
    this.#isStale = true
    this.#writing ??= this.#write().finally(() => (this.#writing = undefined))
  }

  async #write(): Promise<void> {
    while (this.#isStale) {
      this.#isStale = false
      const all = [...this.#spans].map(([monitorId, span]) => ({ monitorId, ...span }))
      // Where the disk does not take it, it is in memory.
      await this.#folder.keep(NAME, Buffer.from(JSON.stringify(all))).catch(() => undefined)
    }
  }
}
