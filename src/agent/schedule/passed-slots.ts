// Slots that passed while nobody could start them: which of them get a row, the rest being only counted.
import type { Instant } from '../../contract/job.ts'
import { slotAtOrAfter, slotsBetween, type Slots } from '../../contract/timetable.ts'
import type { SkipReason } from './skip-reason.ts'

/** Slots of one monitor, [from, to). */
export interface PassedSlots {
  slots: Slots
  from: Instant
  to: Instant
  reason: SkipReason | 'restarted'
}

/** Rows for slots of one monitor that were skipped at a time; all are counted. */
export const SKIPPED_ROWS_MAX = 10
/** Rows for slots that passed while an agent on a monitors file was not there; all are counted. */
export const RESTARTED_ROWS_MAX = 100

/** How many there are, and the newest of them, which get rows. */
export function rowsOf({ slots, from, to, reason }: PassedSlots): {
  count: number
  rows: Instant[]
} {
  const count = slotsBetween(slots, from, to)
  const rows = Math.min(count, reason === 'restarted' ? RESTARTED_ROWS_MAX : SKIPPED_ROWS_MAX)
  const first = slotAtOrAfter(slots, to) - rows * slots.everyMs
  return { count, rows: Array.from({ length: rows }, (_, row) => first + row * slots.everyMs) }
}
