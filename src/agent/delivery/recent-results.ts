// The newest results, in memory, so that they go out first and need not be read back. Older ones are on disk, or,
// without a disk, wait in memory within a bound.
import type { StoredResults } from './stored-results.ts'
import type { Spool } from './spool/spool.ts'

/** How much is cached in memory. */
export interface RecentBounds {
  results: number
  bytes: number
  /** Of results without a copy on disk. */
  strandedBytes: number
}

export const RECENT_BOUNDS: RecentBounds = {
  results: 4000,
  bytes: 8 * 1024 * 1024,
  strandedBytes: 16 * 1024 * 1024,
}

/** The bounds of a batch. */
export interface BatchBounds {
  results: number
  bytes: number
}

export class RecentResults {
  results = 0
  isUrgent = false
  #bytes = 0
  #recent: StoredResults[] = []
  #stranded: StoredResults[] = []
  #strandedBytes = 0
  readonly #spool: () => Spool
  readonly #bounds: RecentBounds

  constructor(spool: () => Spool, bounds: RecentBounds) {
    this.#spool = spool
    this.#bounds = bounds
  }

  /** Adds results; removes the oldest ones beyond the bounds. */
  push(stored: StoredResults): void {
    this.#recent.push(stored)
    this.results += stored.entries.length
    this.#bytes += stored.bytes
    this.isUrgent ||= stored.isUrgent
    while (this.results > this.#bounds.results || this.#bytes > this.#bounds.bytes) {
      const oldest = this.#shift()
      if (oldest !== undefined && !this.#spool().giveBack(oldest)) this.#strand(oldest)
    }
  }

  /** The oldest of them, a batch at most. */
  take(bounds: BatchBounds): StoredResults[] {
    const batch = takeSome(this.#recent, bounds)
    for (const stored of batch) this.#count(stored)
    this.isUrgent = this.#recent.some((stored) => stored.isUrgent)
    return batch
  }

  /** The oldest of those without a copy on disk. */
  takeStranded(bounds: BatchBounds): StoredResults[] {
    const batch = takeSome(this.#stranded, bounds)
    for (const stored of batch) this.#strandedBytes -= stored.bytes
    return batch
  }

  hasStranded(): boolean {
    return this.#stranded.length > 0
  }

  /** When the oldest came; Infinity when there is none. */
  oldestAt(): number {
    return Math.min(this.#recent[0]?.at ?? Infinity, this.#stranded[0]?.at ?? Infinity)
  }

  /** The disk works again: writes results without a copy there. */
  async rescue(): Promise<void> {
    for (const stored of this.#recent.filter(({ segment }) => segment === undefined)) {
      // Removed meanwhile: its delivery is under way.
      if (!this.#recent.includes(stored)) continue
      if (!(await this.#spool().rescue(stored))) return
    }
    for (;;) {
      const [stored] = this.takeStranded({ results: 1, bytes: 0 })
      if (stored === undefined) return
      const isSafe = await this.#spool().rescue(stored)
      if (isSafe && this.#spool().giveBack(stored)) continue
      this.#strand(stored)
      return
    }
  }

  /** The process ends: results without a copy on disk are lost. */
  giveUp(stored: readonly StoredResults[]): void {
    for (const one of stored) if (!this.#spool().giveBack(one)) this.#spool().drop(one)
  }

  /** Removes and returns all results. */
  empty(): StoredResults[] {
    const all = [...this.#stranded, ...this.#recent]
    this.#stranded = []
    this.#recent = []
    this.results = this.#bytes = this.#strandedBytes = 0
    return all
  }

  #strand(stored: StoredResults): void {
    this.#stranded.push(stored)
    this.#strandedBytes += stored.bytes
    while (this.#strandedBytes > this.#bounds.strandedBytes) {
      const oldest = this.#stranded.shift()
      if (oldest === undefined) return
      this.#strandedBytes -= oldest.bytes
      this.#spool().drop(oldest)
    }
  }

  #shift(): StoredResults | undefined {
    const stored = this.#recent.shift()
    if (stored !== undefined) this.#count(stored)
    return stored
  }

  #count(stored: StoredResults): void {
    this.results -= stored.entries.length
    this.#bytes -= stored.bytes
  }
}

/** Removes from the front what fits into a batch, at least one. */
function takeSome(from: StoredResults[], bounds: BatchBounds): StoredResults[] {
  let results = 0
  let bytes = 0
  let taken = 0
  for (const stored of from) {
    results += stored.entries.length
    bytes += stored.bytes
    if (taken > 0 && (results > bounds.results || bytes > bounds.bytes)) break
    taken++
  }
  return from.splice(0, taken)
}
