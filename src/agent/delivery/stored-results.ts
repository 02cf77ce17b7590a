// Results on their way through the spool, gathered so that one write stores many of them.
import type { SpoolSegment } from './spool/segment.ts'

/** Results that came close together; they are delivered, and forgotten, as one. */
export interface StoredResults {
  /** A line of JSON for each result. */
  entries: readonly string[]
  bytes: number
  /** When the first came. Milliseconds since the Unix epoch. */
  at: number
  /** A caller waits for one of them. */
  isUrgent: boolean
  /** Its place on disk; undefined: only in memory. */
  segment: SpoolSegment | undefined
  number: number
  safe: PromiseWithResolvers<void>
}

/** Why results were lost: none of them is lost in another way. */
export type Loss = 'full' | 'damaged' | 'memory'

/** Results that came close together. */
export interface Gathered {
  /** A line of JSON for each. */
  entries: string[]
  chars: number
  /** When the first came. Milliseconds since the Unix epoch. */
  at: number
  /** A caller waits for one of them. */
  isUrgent: boolean
  /** Settled by the spool. */
  safe: PromiseWithResolvers<void>
}

/** Gathers entries. */
export interface Gathering {
  /** Resolves when the entry is safe. */
  add(entry: string, isUrgent: boolean): Promise<void>
  /** Hands over the entries so far. */
  finish(): void
}

const CHARS_MAX = 64 * 1024
const RESULTS_MAX = 500
const GATHER_MS = 20

/** Makes a gathering that hands over what came within 20 ms, 64 KiB or 500 results, or is urgent. */
export function createGathering(onGathered: (gathered: Gathered) => void): Gathering {
  let present: Gathered | undefined
  let timer: NodeJS.Timeout | undefined
  const finish = () => {
    clearTimeout(timer)
    const gathered = present
    present = undefined
    if (gathered !== undefined) onGathered(gathered)
  }
  const begin = (): Gathered => {
    timer = setTimeout(finish, GATHER_MS)
    const safe = Promise.withResolvers<void>()
    // The caller that added an entry handles it.
    safe.promise.catch(() => undefined)
    return { entries: [], chars: 0, at: Date.now(), isUrgent: false, safe }
  }
  return {
    add(entry, isUrgent) {
      present ??= begin()
      const { safe, entries } = present
      entries.push(entry)
      present.chars += entry.length
      present.isUrgent ||= isUrgent
      if (isUrgent || present.chars >= CHARS_MAX || entries.length >= RESULTS_MAX) finish()
      return safe.promise
    },
    finish,
  }
}
