// The platform's time, as NTP finds it (RFC 5905, section 8): from when a request was sent and came, and when
// its answer was sent and came. Measured against the monotonic clock, which nobody can set.
import type { Instant } from '../contract/job.ts'

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
  /** Takes a sample; false when it makes no sense and was left out. */
  add(sample: TimeSample): boolean
  /** The platform's time at an instant of the monotonic clock; undefined before the first sample. */
  at(monotonicMs: number): Instant | undefined
  /** How far off that may be, at most. Milliseconds. */
  uncertaintyMs(monotonicMs: number): number
}

interface Estimate {
  /** Platform's clock minus monotonic clock. */
  offsetMs: number
  uncertaintyMs: number
  takenAtMs: number
}

const SAMPLES_MAX = 8
/** How fast two clocks may drift apart; ordinary ones stay below. */
const DRIFT = 50e-6
/** Calls that took longer on their way say nothing useful. */
const DELAY_MS_MAX = 20_000
/** Clocks tell whole milliseconds, each rounded. */
const ROUNDING_MS = 2

/** Collects samples; the one whose call was shortest counts. */
export function createPlatformTime(): PlatformTime {
  let estimates: Estimate[] = []
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
      const contradicts =
        best !== undefined &&
        Math.abs(sample.offsetMs - best.offsetMs) > sample.uncertaintyMs + doubt(best, answeredAtMs)
      // The platform's clock was set: what was known of it holds no longer.
      if (contradicts) estimates = []
      estimates = [...estimates, sample].slice(-SAMPLES_MAX)
      best = estimates.reduce((least, one) =>
        doubt(one, answeredAtMs) < doubt(least, answeredAtMs) ? one : least,
      )
      return true
    },
    at: (monotonicMs) => (best === undefined ? undefined : best.offsetMs + monotonicMs),
    uncertaintyMs: (monotonicMs) =>
      best === undefined ? Number.POSITIVE_INFINITY : doubt(best, monotonicMs),
  }
}
