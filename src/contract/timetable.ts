// Slots: the instants at which a monitor is due. Pure arithmetic on the definition, so that every
// agent and the platform compute the same instants without talking to each other.
import { createHash } from 'node:crypto'
import type { Instant } from './job.ts'

/** Fields of a monitor that determine its slots. */
export interface Timing {
  id: string
  /** Minutes; 0 means `frequencyOffset` seconds. */
  frequency: number
  frequencyOffset?: number | undefined
}

/** Shortest interval between two slots. */
export const EVERY_MS_MIN = 1000

/** Milliseconds from one slot to the next. */
export function everyMs(timing: Timing): number {
  if (timing.frequency > 0) return timing.frequency * 60_000
  return Math.max(EVERY_MS_MIN, (timing.frequencyOffset ?? 0) * 1000)
}

/**
 * Offset of a monitor's slots in its interval: evenly spread over all ids, the same on every machine and
 * permanently. Whole milliseconds in [0, everyMs).
 */
export function offsetMs(timing: Timing): number {
  // 48 bits of SHA-256: uniform for any id, and exact in a double.
  const hash = createHash('sha256').update(timing.id).digest().readUIntBE(0, 6)
  return Math.floor((hash / 2 ** 48) * everyMs(timing))
}

/** Slots of one monitor: slot(n) = n × every + offset. */
export interface Slots {
  everyMs: number
  offsetMs: number
}

/** The slots of a monitor; compute once and cache, `offsetMs` hashes. */
export function slotsOf(timing: Timing): Slots {
  return { everyMs: everyMs(timing), offsetMs: offsetMs(timing) }
}

/**
 * The slots that fall to one of several locations which take turns: slot(n) is that of location n mod
 * `locations`. They are slots again, further apart.
 */
export function turnsOf(slots: Slots, location: number, locations: number): Slots {
  return {
    everyMs: slots.everyMs * locations,
    offsetMs: slots.offsetMs + location * slots.everyMs,
  }
}

/** The first slot at or after `instant`. */
export function slotAtOrAfter(slots: Slots, instant: Instant): Instant {
  const n = Math.ceil((instant - slots.offsetMs) / slots.everyMs)
  return n * slots.everyMs + slots.offsetMs
}

/** The last slot at or before `instant`. */
export function slotAtOrBefore(slots: Slots, instant: Instant): Instant {
  const n = Math.floor((instant - slots.offsetMs) / slots.everyMs)
  return n * slots.everyMs + slots.offsetMs
}

/** How many slots lie in [from, to). */
export function slotsBetween(slots: Slots, from: Instant, to: Instant): number {
  if (to <= from) return 0
  return Math.round((slotAtOrAfter(slots, to) - slotAtOrAfter(slots, from)) / slots.everyMs)
}
