// Results on their way through the spool.
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
