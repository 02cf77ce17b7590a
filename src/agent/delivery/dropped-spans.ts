// Results that were lost for want of room, as one span of slots for each monitor. They are reported to the
// platform, so that it does not assume a lost agent. Stored on disk, since a restart may come first.
import { PROTOCOL_BOUNDS, type DroppedSpan } from '../../contract/protocol/agent-protocol.ts'
import { LIMITS } from '../../contract/versions.ts'
import type { AgentFolder } from './spool/agent-folder.ts'

interface Span {
  from: number
  to: number
  /** How many results of it were lost. */
  results: number
}

/** Where spans are stored. */
export type SpanStore = Pick<AgentFolder, 'store' | 'read'>

const NAME = 'dropped'
/** Results whose slots one batch reports; the platform fills in a bounded number. */
const RESULTS_PER_BATCH = PROTOCOL_BOUNDS.droppedSlotsPerBatchMax / 10
/** How `wireText` begins; a run on demand is no slot. */
const LINE = /^\{"monitorId":"([0-9a-f-]{36})","slot":(\d{1,16}),(?!"onDemand")/

export class DroppedSpans {
  readonly #folder: SpanStore
  readonly #spans = new Map<string, Span>()
  #isReporting = false
  #writing: Promise<void> | undefined
  #isStale = false

  constructor(folder: SpanStore) {
    this.#folder = folder
  }

  /** Reads the spans of an earlier process. Never rejects. */
  async load(): Promise<void> {
    try {
      const bytes = await this.#folder.read(NAME)
      if (bytes === undefined) return
      const stored = JSON.parse(bytes.toString()) as (DroppedSpan & Span)[]
      for (const { monitorId, from, to, results } of stored)
        this.#widen(monitorId, from, to, results)
    } catch {
      return
    }
  }

  /** Adds lines of lost results. */
  add(entries: readonly string[]): void {
    for (const line of entries) {
      const [, monitorId, slot] = LINE.exec(line) ?? []
      if (monitorId !== undefined) this.#widen(monitorId, Number(slot), Number(slot), 1)
    }
    this.#save()
  }

  /** The next spans to report, with a callback for the outcome; undefined: none for now. */
  next(): { spans: DroppedSpan[]; settled: (isReported: boolean) => void } | undefined {
    if (this.#isReporting || this.#spans.size === 0) return undefined
    const spans: DroppedSpan[] = []
    let left = RESULTS_PER_BATCH
    for (const [monitorId, { from, to, results }] of this.#spans) {
      if (left <= 0 || spans.length === PROTOCOL_BOUNDS.droppedPerBatchMax) break
      // Slots lie at even distances, so that a part of the time has that part of the results.
      const part = Math.min(1, left / results)
      spans.push({ monitorId, from, to: from + Math.floor((to - from) * part) })
      left -= results
    }
    this.#isReporting = true
    const settled = (isReported: boolean) => {
      this.#isReporting = false
      if (isReported) this.#forget(spans)
    }
    return { spans, settled }
  }

  /** Resolves when the spans are on disk, or cannot be stored. */
  async flush(): Promise<void> {
    while (this.#writing !== undefined) await this.#writing
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

  #forget(reported: readonly DroppedSpan[]): void {
    for (const { monitorId, from, to } of reported) {
      const span = this.#spans.get(monitorId)
      // Widened to the front meanwhile: all of it is reported again.
      if (span?.from !== from) continue
      const rest = span.to === from ? 0 : (span.to - to) / (span.to - from)
      span.results = Math.ceil(span.results * rest)
      span.from = to + 1
      if (span.from > span.to) this.#spans.delete(monitorId)
    }
    this.#save()
  }

  /** One write at a time; later changes are written after it. */
  #save(): void {
    this.#isStale = true
    this.#writing ??= this.#write().finally(() => (this.#writing = undefined))
  }

  async #write(): Promise<void> {
    while (this.#isStale) {
      this.#isStale = false
      const all = [...this.#spans].map(([monitorId, span]) => ({ monitorId, ...span }))
      // When the write fails, the spans stay in memory.
      await this.#folder.store(NAME, Buffer.from(JSON.stringify(all))).catch(() => undefined)
    }
  }
}
