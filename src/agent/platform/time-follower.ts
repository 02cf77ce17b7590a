// Sets the agent's clock by the answers of the platform.
import type { Log } from '../../process/log.ts'
import { UNCERTAINTY_MS_MAX, type Clock } from '../schedule/clock.ts'
import { createPlatformTime, type TimeSample } from './time.ts'

export interface PlatformTimeFollower {
  /** Measures with one call, and has the clock follow what is known best. */
  add(sample: TimeSample): void
  /** Whether the next answer should come at once, because the platform's time is known badly. */
  isVague(): boolean
  /** The platform's clock minus this machine's, as last measured. Milliseconds. */
  readonly aheadMs: number
}

/** A difference of clocks that is logged. */
const REPORTED_AHEAD_MS_MIN = 5000
/** Calls in a row that are made at once to measure better; a slow line may never do. */
const VAGUE_CALLS_MAX = 3

/** Makes a follower for one clock. */
export function createPlatformTimeFollower(
  clock: Clock,
  log: Log,
  monotonicMs: () => number = () => performance.now(),
): PlatformTimeFollower {
  const time = createPlatformTime()
  let vagueCalls = 0
  let isLogged = false
  const follower = {
    aheadMs: 0,
    isVague: () => vagueCalls > 0 && vagueCalls <= VAGUE_CALLS_MAX,
    add(sample: TimeSample) {
      time.add(sample)
      const nowMs = monotonicMs()
      const now = time.at(nowMs)
      if (now === undefined) return
      const uncertaintyMs = time.uncertaintyMs(nowMs)
      vagueCalls = uncertaintyMs > UNCERTAINTY_MS_MAX ? vagueCalls + 1 : 0
      clock.follow(now, uncertaintyMs)
      follower.aheadMs = now - Date.now()
      const aheadMs = Math.round(follower.aheadMs)
      if (isLogged || Math.abs(aheadMs) < REPORTED_AHEAD_MS_MIN + uncertaintyMs) return
      isLogged = true
      log.warn({ aheadMs }, 'this machine’s clock is wrong; the platform’s is used in its place')
    },
  }
  return follower
}
