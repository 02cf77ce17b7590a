// The newest results, in memory, so that they go out first and need not be read back; what is pushed out of
// it lies on disk, or, where there is no disk, waits in memory within a bound.
import type { Kept } from './stored-results.ts'
import type { Spool } from './spool/spool.ts'

/** How much is kept in memory. */
export interface RecentBounds {
  results: number
  bytes: number
  /** Of what lies nowhere else. */
  strandedBytes: number
}

export const RECENT_BOUNDS: RecentBounds = {
  results: 4000,
  bytes: 8 * 1024 * 1024,
  strandedBytes: 16 * 1024 * 1024,
}

/** A batch has no more than this. */
export interface BatchBounds {
  results: number
  bytes: number
}

export class RecentResults {
  results = 0
  isUrgent = false
  #bytes = 0
  #kept: Kept[] = []
  #stranded: Kept[] = []
  #strandedBytes = 0
  readonly #spool: () => Spool
  readonly #bounds: RecentBounds

  constructor(spool: () => Spool, bounds: RecentBounds) {
    this.#spool = spool
    this.#bounds = bounds
  }

  /** Takes a frame; what is too much leaves at the other end. */
  push(kept: Kept): void {
    this.#kept.push(kept)
    this.results += kept.entries.length
    this.#bytes += kept.bytes
    this.isUrgent ||= kept.isUrgent
    while (this.results > this.#bounds.results || this.#bytes > this.#bounds.bytes) {
      const oldest = this.#shift()
      if (oldest !== undefined && !this.#spool().giveBack(oldest)) this.#strand(oldest)
    }
  }

  /** The oldest of them, a batch at most. */
  take(bounds: BatchBounds): Kept[] {
    const batch = takeSome(this.#kept, bounds)
    for (const kept of batch) this.#count(kept)
    this.isUrgent = this.#kept.some((kept) => kept.isUrgent)
    return batch
  }

  /** Of those that lie nowhere else, the oldest. */
  takeStranded(bounds: BatchBounds): Kept[] {
    const batch = takeSome(this.#stranded, bounds)
    for (const kept of batch) this.#strandedBytes -= kept.bytes
    return batch
  }

  hasStranded(): boolean {
    return this.#stranded.length > 0
  }

  /** When the oldest came; Infinity when there is none. */
  oldestAt(): number {
    return Math.min(this.#kept[0]?.at ?? Infinity, this.#stranded[0]?.at ?? Infinity)
  }

  /** The disk works again: what lies nowhere else is written to it. */
  async rescue(): Promise<void> {
    for (const kept of this.#kept.filter(({ segment }) => segment === undefined)) {
      // What was taken meanwhile is on its way.
      if (!this.#kept.includes(kept)) continue
      if (!(await this.#spool().rescue(kept))) return
    }
    for (;;) {
      const [kept] = this.takeStranded({ results: 1, bytes: 0 })
      if (kept === undefined) return
      const isSafe = await this.#spool().rescue(kept)
      if (isSafe && this.#spool().giveBack(kept)) continue
      this.#strand(kept)
      return
    }
  }

  /** The process ends: what lies nowhere else is lost. */
  giveUp(kept: readonly Kept[]): void {
    for (const one of kept) if (!this.#spool().giveBack(one)) this.#spool().drop(one)
  }

  /** All that is here, taken out. */
  empty(): Kept[] {
    const all = [...this.#stranded, ...this.#kept]
    this.#stranded = []
    this.#kept = []
    this.results = this.#bytes = this.#strandedBytes = 0
    return all
  }

  #strand(kept: Kept): void {
    this.#stranded.push(kept)
    this.#strandedBytes += kept.bytes
    while (this.#strandedBytes > this.#bounds.strandedBytes) {
      const oldest = this.#stranded.shift()
      if (oldest === undefined) return
      this.#strandedBytes -= oldest.bytes
      this.#spool().drop(oldest)
    }
  }

  #shift(): Kept | undefined {
    const kept = this.#kept.shift()
    if (kept !== undefined) this.#count(kept)
    return kept
  }

  #count(kept: Kept): void {
    this.results -= kept.entries.length
    this.#bytes -= kept.bytes
  }
}

/** Takes from the front what fits into a batch, one at least. */
function takeSome(from: Kept[], bounds: BatchBounds): Kept[] {
  let results = 0
  let bytes = 0
  let taken = 0
  for (const kept of from) {
    results += kept.entries.length
    bytes += kept.bytes
    if (taken > 0 && (results > bounds.results || bytes > bounds.bytes)) break
    taken++
  }
  return from.splice(0, taken)
}
