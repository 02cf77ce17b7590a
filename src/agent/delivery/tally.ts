// Counts of results and artifacts: every produced one is delivered, waits, was refused or was lost.
import type { Log } from '../../process/log.ts'

/** Counts; a plain object, so that it costs nothing where there are many. */
export interface DeliveryTally {
  /** Results that were handed over. */
  produced: number
  /** Acknowledged by the platform, those that it knew already included. */
  delivered: number
  /** By code: refused by the platform, or given up because it refuses their batch. */
  refused: Map<string, number>
  /** Batches by what came of them: the action, or the code of the error. */
  batches: Map<string, number>
  bytesSent: number
  artifacts: Map<string, number>
}

/** An empty tally. */
export function createTally(): DeliveryTally {
  return {
    produced: 0,
    delivered: 0,
    refused: new Map(),
    batches: new Map(),
    bytesSent: 0,
    artifacts: new Map(),
  }
}

/** Adds to a count. */
export function count(counts: Map<string, number>, key: string, by = 1): void {
  // Codes of later platforms are counted separately, up to a bound.
  const known = counts.has(key) || counts.size < 50 ? key : 'other'
  counts.set(known, (counts.get(known) ?? 0) + by)
}

/** How often the same complaint is logged. */
const COMPLAINT_MS = 60_000

/** Logs a complaint; `key` identifies its kind. */
export type Complain = (key: string, facts: Record<string, unknown>, message: string) => void

/** Makes a logger of complaints: each key at most once a minute, with how many there were. */
export function createComplaints(log: Log): Complain {
  const last = new Map<string, { at: number; unsaid: number }>()
  return (key, facts, message) => {
    const now = performance.now()
    const known = last.get(key) ?? { at: -Infinity, unsaid: 0 }
    if (last.size < 100 || last.has(key)) last.set(key, known)
    known.unsaid++
    if (now - known.at < COMPLAINT_MS) return
    log.warn({ ...facts, times: known.unsaid }, message)
    known.at = now
    known.unsaid = 0
  }
}
