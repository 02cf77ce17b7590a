// Slots that passed without being started: the newest ones get a row, the others are only counted. And what a result
// holds where nothing ran.
import type { Instant } from '../../contract/job.ts'
import type { Monitor } from '../../contract/monitor.ts'
import type { Result } from '../../contract/result.ts'
import { slotAtOrAfter, slotsBetween, type Slots } from '../../contract/timetable.ts'
import type { SkipReason } from './skip-reason.ts'

/** Slots of one monitor, [from, to). */
export interface PassedSlots {
  slots: Slots
  from: Instant
  to: Instant
  reason: SkipReason | 'restarted'
}

/** Rows for slots of one monitor that were skipped together; all are counted. */
export const SKIPPED_ROWS_MAX = 10
/** Rows for slots that passed while an agent on a monitors file was not running; all are counted. */
const RESTARTED_ROWS_MAX = 100

/** Number of slots, and the newest of them, which get rows. */
export interface SkippedSlots extends Pick<PassedSlots, 'reason'> {
  count: number
  rows: Instant[]
}

/** Counts the slots and picks those that get rows. */
export function rowsOf({ slots, from, to, reason }: PassedSlots): SkippedSlots {
  const count = slotsBetween(slots, from, to)
  const shown = Math.min(count, reason === 'restarted' ? RESTARTED_ROWS_MAX : SKIPPED_ROWS_MAX)
  const first = slotAtOrAfter(slots, to) - shown * slots.everyMs
  const rows = Array.from({ length: shown }, (_, row) => first + row * slots.everyMs)
  return { reason, count, rows }
}

/** The result of a slot, or of a run on demand, in which nothing ran. */
export function emptyResult(
  monitor: Monitor,
  place: { location: string; slot: Instant; nowMs: Instant },
): Omit<Result, 'verdict'> {
  return {
    monitorId: monitor.id,
    monitorName: monitor.name,
    checkType: monitor.checkType,
    location: place.location,
    slot: place.slot,
    startedAt: Math.round(place.nowMs),
    durationMs: 0,
    attempts: [],
    observed: {},
    failures: [],
    artifacts: [],
  }
}
