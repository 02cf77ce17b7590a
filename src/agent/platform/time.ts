// The platform's time, measured as in NTP (RFC 5905, section 8): from the instants at which a request was sent and
// received, and its answer was sent and received. Measured against the monotonic clock, which cannot be set.
import type { Instant } from '../../contract/job.ts'
import { DRIFT } from '../schedule/clock.ts'

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
