// The agent's clock: wall time that never goes backwards. The machine's wall clock can be set, and can
// stand still while the machine sleeps; slots must neither come twice nor wait for hours because of it.
import type { Instant } from '../contract/job.ts'

/** A wall clock that became known to differ from ours by more than drift. */
export interface ClockJump {
  /** Positive: the wall clock went forward (set, or the machine slept), and we follow at once. */
  byMs: number
}

export interface Clock {
  /** Milliseconds since the epoch; never less than before. */
  now(): Instant
  /** Milliseconds of a clock that only measures time and is never set. */
  monotonicMs(): number
  /**
   * Compares with the wall clock and corrects; call it about every second. Returns a jump, once for
   * each. A wall clock set back is not followed but waited for: we run 1 % slower until it fits.
   */
  observe(): ClockJump | undefined
  /** Wall clock minus ours, as last observed. Milliseconds. */
  offsetMs(): number
  /** Makes this the clock of somebody whose wall clock is ahead of ours by so much. */
  follow(aheadMs: number): void
}

/** The clocks of the machine, to be replaced in tests. */
export interface MachineClocks {
  wallMs(): number
  monotonicMs(): number
}

/** Differences up to here are drift and are slewed away. */
const JUMP_MS = 500
/** How much faster or slower we run at most while slewing. */
const SLEW_MAX = 0.01
/** Small differences are slewed away over about this time, so that we do not swing around the goal. */
const SLEW_OVER_MS = 10_000

const machine: MachineClocks = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
}

/** Makes a clock that is anchored at the wall clock of this moment. */
export function createClock(clocks: MachineClocks = machine): Clock {
  let anchorWall = clocks.wallMs()
  let anchorMonotonic = clocks.monotonicMs()
  let rate = 1
  let aheadMs = 0
  let offsetMs = 0
  let setBackReported = false

  const now = (): Instant => anchorWall + (clocks.monotonicMs() - anchorMonotonic) * rate

  const anchor = (instant: Instant, newRate: number) => {
    anchorWall = instant
    anchorMonotonic = clocks.monotonicMs()
    rate = newRate
  }

  return {
    now,
    monotonicMs: () => clocks.monotonicMs(),
    offsetMs: () => offsetMs,
    follow(ahead) {
      aheadMs = ahead
    },
    observe() {
      const ours = now()
      offsetMs = clocks.wallMs() + aheadMs - ours
      if (offsetMs > JUMP_MS) {
        const byMs = offsetMs
        anchor(ours + byMs, 1)
        offsetMs = 0
        setBackReported = false
        return { byMs }
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
