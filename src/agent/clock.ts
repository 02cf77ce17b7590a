// The agent's clock: wall time that never goes backwards. The machine's wall clock can be set, and can
// stand still while the machine sleeps; slots must neither come twice nor wait for hours because of it.
import { uptime } from 'node:os'
import type { Instant } from '../contract/job.ts'

/** A wall clock that became known to differ from ours by more than drift. */
export interface ClockJump {
  /** Positive: the wall clock went forward (set, or the machine slept), and we follow at once. */
  byMs: number
  /** We went back with it: somebody else's clock that is followed was set back far. */
  wentBack?: true
}

export interface Clock {
  /** Milliseconds since the epoch; never less than before, but after a jump with `wentBack`. */
  now(): Instant
  /** Milliseconds of a clock that only measures time and is never set. */
  monotonicMs(): number
  /**
   * Compares with the clock that is followed and corrects; call it about every second. Returns a jump, once
   * for each. A clock set back is not followed but waited for: we run 1 % slower until it fits.
   */
  observe(): ClockJump | undefined
  /** The clock that is followed minus ours, as last observed. Milliseconds. */
  offsetMs(): number
  /**
   * Somebody else's clock, which shows `instant` at this moment, is followed from now on, and this machine's
   * wall clock no longer: whoever sets that moves nothing. The first time ours is set to it at once.
   */
  follow(instant: Instant): void
}

/** The clocks of the machine, to be replaced in tests. */
export interface MachineClocks {
  wallMs(): number
  monotonicMs(): number
  /** Since the machine was started, sleep included, which the monotonic clock leaves out. */
  uptimeMs(): number
}

/** Differences up to here are drift and are slewed away. */
const JUMP_MS = 500
/** How much faster or slower we run at most while slewing. */
const SLEW_MAX = 0.01
/** Small differences are slewed away over about this time, so that we do not swing around the goal. */
const SLEW_OVER_MS = 10_000

/** Somebody else's clock is waited for up to here when it is set back; further back we go with it. */
const WAIT_BACK_MS_MAX = 5000

const machine: MachineClocks = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  uptimeMs: () => uptime() * 1000,
}

/** Makes a clock that is anchored at the wall clock of this moment. */
export function createClock(clocks: MachineClocks = machine): Clock {
  let anchorWall = clocks.wallMs()
  let anchorMonotonic = clocks.monotonicMs()
  let rate = 1
  let followed: ReturnType<typeof followedFrom> | undefined
  let offsetMs = 0
  let setBackReported = false

  const now = (): Instant => anchorWall + (clocks.monotonicMs() - anchorMonotonic) * rate

  const anchor = (instant: Instant, newRate: number) => {
    anchorWall = instant
    anchorMonotonic = clocks.monotonicMs()
    rate = newRate
  }

  const jump = (by: ClockJump): ClockJump => {
    anchor(now() + by.byMs, 1)
    offsetMs = 0
    setBackReported = false
    return by
  }

  return {
    now,
    monotonicMs: () => clocks.monotonicMs(),
    offsetMs: () => offsetMs,
    follow(instant) {
      if (followed === undefined) anchor(instant, 1)
      followed = followedFrom(instant, clocks)
    },
    observe() {
      const ours = now()
      offsetMs = (followed?.() ?? clocks.wallMs()) - ours
      if (offsetMs > JUMP_MS) return jump({ byMs: offsetMs })
      if (followed !== undefined && offsetMs < -WAIT_BACK_MS_MAX) {
        return jump({ byMs: offsetMs, wentBack: true })
      }
      anchor(ours, 1 + Math.max(-SLEW_MAX, Math.min(SLEW_MAX, offsetMs / SLEW_OVER_MS)))
      if (offsetMs >= -JUMP_MS) {
        setBackReported = false
        return undefined
      }
      if (setBackReported) return undefined
      setBackReported = true
      return { byMs: offsetMs }
    },
  }
}

/** A clock that shows `instant` now and goes on while the machine sleeps. */
function followedFrom(instant: Instant, clocks: MachineClocks): () => Instant {
  const [monotonicMs, uptimeMs] = [clocks.monotonicMs(), clocks.uptimeMs()]
  return () => {
    const passedMs = clocks.monotonicMs() - monotonicMs
    const sleptMs = clocks.uptimeMs() - uptimeMs - passedMs
    // The time since the start is told coarsely.
    return instant + passedMs + (sleptMs > JUMP_MS ? sleptMs : 0)
  }
}
