// The platform's time, measured as in NTP (RFC 5905, section 8): from the instants at which a request was sent and
// received, and its answer was sent and received. Measured against the monotonic clock, which cannot be set.
import type { Instant } from '../../contract/job.ts'
import type { Log } from '../../process/log.ts'
import { DRIFT, UNCERTAINTY_MS_MAX, type Clock } from '../schedule/clock.ts'

/** The four instants of one call. */
export interface TimeSample {
  /** On the monotonic clock. Milliseconds. */
  sentAtMs: number
  answeredAtMs: number
  /** On the platform's clock. */
  receivedAt: Instant
  replySentAt: Instant
}

export interface PlatformTime {
  /** Adds a sample; false when it is implausible and was ignored. */
  add(sample: TimeSample): boolean
  /** The platform's time at an instant of the monotonic clock; undefined before the first sample. */
  at(monotonicMs: number): Instant | undefined
  /** Its error, at most. Milliseconds. */
  uncertaintyMs(monotonicMs: number): number
}

interface Estimate {
  /** Platform's clock minus monotonic clock. */
  offsetMs: number
  uncertaintyMs: number
  takenAtMs: number
}

/** Samples of slower calls are useless. */
const DELAY_MS_MAX = 20_000
/** Clocks show whole milliseconds, each rounded. */
const ROUNDING_MS = 2

/** Keeps the most certain sample; each becomes less certain at the same pace as it ages. */
export function createPlatformTime(): PlatformTime {
  let best: Estimate | undefined

  const doubt = (one: Estimate, monotonicMs: number) =>
    one.uncertaintyMs + Math.max(0, monotonicMs - one.takenAtMs) * DRIFT

  return {
    add({ sentAtMs, answeredAtMs, receivedAt, replySentAt }) {
      const delayMs = answeredAtMs - sentAtMs - (replySentAt - receivedAt)
      if (delayMs < -ROUNDING_MS || delayMs > DELAY_MS_MAX) return false
      const sample: Estimate = {
        offsetMs: (receivedAt - sentAtMs + (replySentAt - answeredAtMs)) / 2,
        uncertaintyMs: Math.max(0, delayMs) / 2 + ROUNDING_MS,
        takenAtMs: answeredAtMs,
      }
      const bestMs = best === undefined ? Infinity : doubt(best, answeredAtMs)
      const movedMs = Math.abs(sample.offsetMs - (best?.offsetMs ?? 0))
      // They differ by more than both errors: the platform's clock was set.
      const isSet = movedMs > sample.uncertaintyMs + bestMs
      if (isSet || sample.uncertaintyMs <= bestMs) best = sample
      return true
    },
    at: (monotonicMs) => (best === undefined ? undefined : best.offsetMs + monotonicMs),
    uncertaintyMs: (monotonicMs) =>
      best === undefined ? Number.POSITIVE_INFINITY : doubt(best, monotonicMs),
  }
}

/** Sets the agent’s clock by the answers of the platform. */
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
