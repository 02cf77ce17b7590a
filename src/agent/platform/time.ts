// The platform's time, measured as in NTP (RFC 5905, section 8): from the instants at which a request was sent and
// received, and its answer was sent and received. Measured against the monotonic clock, which cannot be set.
import type { Instant } from '../../contract/job.ts'
import type { Log } from '../../process/log.ts'
import { UNCERTAINTY_MS_MAX, type Clock } from '../schedule/clock.ts'

/** The four instants of one call. */
export interface TimeSample {
  /** On the monotonic clock. Milliseconds. */
  sentAtMs: number
  answeredAtMs: number
  /** On the platform's clock. */
  receivedAt: Instant
  replySentAt: Instant
}

/** Samples of slower calls are useless. */
const DELAY_MS_MAX = 20_000
/** Clocks show whole milliseconds, each rounded. */
const ROUNDING_MS = 2
/** A difference of clocks that is logged. */
const REPORTED_AHEAD_MS_MIN = 5000
/** Calls in a row that are made at once to measure better; a slow line may never do. */
const VAGUE_CALLS_MAX = 3

/** Sets the agent’s clock by the answers of the platform. */
export class PlatformTime {
  /** The platform's clock minus this machine's, as last measured. Milliseconds. */
  aheadMs = 0
  readonly #clock: Clock
  readonly #log: Log
  #vagueCalls = 0
  #isLogged = false

  constructor(clock: Clock, log: Log) {
    this.#clock = clock
    this.#log = log
  }

  /** Measures with one call. */
  add({ sentAtMs, answeredAtMs, receivedAt, replySentAt }: TimeSample): void {
    const clock = this.#clock
    const delayMs = answeredAtMs - sentAtMs - (replySentAt - receivedAt)
    if (delayMs >= -ROUNDING_MS && delayMs <= DELAY_MS_MAX) {
      const offsetMs = (receivedAt - sentAtMs + (replySentAt - answeredAtMs)) / 2
      clock.follow(offsetMs + clock.monotonicMs(), Math.max(0, delayMs) / 2 + ROUNDING_MS)
    }
    const uncertaintyMs = clock.uncertaintyMs() ?? Infinity
    this.#vagueCalls = uncertaintyMs > UNCERTAINTY_MS_MAX ? this.#vagueCalls + 1 : 0
    this.aheadMs = clock.now() - Date.now()
    const aheadMs = Math.round(this.aheadMs)
    if (this.#isLogged || Math.abs(aheadMs) < REPORTED_AHEAD_MS_MIN) return
    this.#isLogged = true
    this.#log.warn(
      { aheadMs },
      'this machine’s clock is wrong; the platform’s clock is used instead',
    )
  }

  /** Whether the next answer should come at once, because the platform's time is known badly. */
  isVague(): boolean {
    return this.#vagueCalls > 0 && this.#vagueCalls <= VAGUE_CALLS_MAX
  }
}
