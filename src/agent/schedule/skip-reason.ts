// Reason of skipped slots: the machine or the process was suspended, the thread was busy, or only the clock was set.
import type { Instant } from '../../contract/job.ts'
import type { Clock } from './clock.ts'

/** A reason of `missed` for slots that were skipped. */
export type SkipReason = 'suspended' | 'overloaded' | 'clock-set'

/** Reading the time of the thread costs more than a look at the timetable. */
const BUSY_APART_MS = 100

/** Sleep of the machine shows as a leap of the clock: without one, the uptime is not read anew. */
const LEAP_MS_MIN = 100

/** A thread that waits for its disk stands still for less. */
const STOOD_MS_MIN = 500

/** What is known of one moment. */
interface Look {
  now: Instant
  monotonicMs: number
  sleptMs: number
  /** Of the thread, and when it was read. */
  busyMs: number
  busyReadMs: number
}

/** Looks at the clocks whenever the timetable does. */
export class SkipReasons {
  readonly #clock: Clock
  #last: Look

  constructor(clock: Clock) {
    this.#clock = clock
    const monotonicMs = clock.monotonicMs()
    this.#last = {
      now: clock.now(),
      monotonicMs,
      sleptMs: clock.sleptMs(),
      busyMs: clock.busyMs(),
      busyReadMs: monotonicMs,
    }
  }

  /**
   * Reads the clocks for one look at the timetable, at `now`. The returned function names the reason of the slots that
   * this look skips. Its first call decides, so that the slot that was due longest ago has to come first.
   */
  look(now: Instant): (dueAt: Instant) => SkipReason {
    const clock = this.#clock
    const last = this.#last
    const monotonicMs = clock.monotonicMs()
    // How far the clock went ahead of the monotonic time of the thread.
    const leapMs = now - last.now - (monotonicMs - last.monotonicMs)
    const isRead = monotonicMs - last.busyReadMs >= BUSY_APART_MS
    this.#last = {
      now,
      monotonicMs,
      sleptMs: leapMs > LEAP_MS_MIN ? clock.sleptMs() : last.sleptMs,
      busyMs: isRead ? clock.busyMs() : last.busyMs,
      busyReadMs: isRead ? monotonicMs : last.busyReadMs,
    }
    const reasonOf = (dueAt: Instant) => {
      const lateMs = now - dueAt
      if (leapMs > lateMs / 2)
        return clock.sleptMs() - last.sleptMs > leapMs / 2 ? 'suspended' : 'clock-set'
      // A thread that is stopped neither runs nor waits for a processor.
      const stoodMs = lateMs - leapMs - (clock.busyMs() - last.busyMs)
      return stoodMs > Math.max(lateMs / 2, STOOD_MS_MIN) ? 'suspended' : 'overloaded'
    }
    let reason: SkipReason | undefined
    return (dueAt) => (reason ??= reasonOf(dueAt))
  }
}
