// A job: one slot of one monitor, to be run now, or a run on demand.
import type { Monitor } from './monitor.ts'

/** Milliseconds since the Unix epoch. */
export type Instant = number

/** Identifies a run on demand. */
export type RunId = string

export interface Job {
  monitor: Monitor
  slot: Instant
  onDemand?: RunId
}
