// A timetable whose time a test moves: timers and clocks together.
import { afterEach, beforeEach, vi } from 'vitest'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import { createRunningTimetable, rangeOf } from '../../../src/agent/schedule/running-timetable.ts'
import { slotsBetween, type Timing } from '../../../src/contract/timetable.ts'
import type { Assignment } from '../../../src/agent/source.ts'
import { fakeClocks } from '../fake-clock.ts'

/** The timing of a monitor. */
export const every = (seconds: number, id = 'a') => ({ id, frequency: 0, frequencyOffset: seconds })

/** Makes a timetable with its events; the timers of the whole file are moved. */
export function movedTimetable() {
  const clocks = fakeClocks()
  const clock = createClock(clocks)
  const due: { id: string; slot: number; plannedAt: number; at: number }[] = []
  const skipped: { id: string; count: number; reason: string }[] = []
  const jumps: number[] = []
  const timetable = createRunningTimetable<string>(clock, {
    onDue: (id, slot, plannedAt) => due.push({ id, slot, plannedAt, at: clock.now() }),
    onSkipped: (id, slots, from, to, reason) =>
      skipped.push({ id, count: slotsBetween(slots, from, to), reason }),
    onClockJump: ({ byMs }) => jumps.push(byMs),
  })
  const run = (ms: number) => {
    for (let passed = 0; passed < ms; passed++) {
      clocks.pass(1)
      vi.advanceTimersByTime(1)
    }
  }
  /** Sets the subjects by their timing, or by slots that a platform assigns. */
  const set = (subjects: readonly (readonly [Timing | (Assignment & { id: string }), string])[]) =>
    timetable.set(
      subjects.map(([timing, subject]) => [
        timing.id,
        'slots' in timing
          ? { ...timing, until: timing.until ?? Infinity }
          : rangeOf(timing, undefined),
        subject,
      ]),
    )
  return { clocks, clock, timetable: { ...timetable, set }, due, skipped, jumps, run }
}

/** Has the timers of a file moved by its tests. */
export function moveTimers(): void {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
  afterEach(() => void vi.useRealTimers())
}
