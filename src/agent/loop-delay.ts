// How long this thread was kept from its events, by its own work or by the machine. All attempts share one
// timer, which runs only while there are attempts: an attempt costs two looks at the clock.
import { setTimeout } from 'node:timers'

/** The delay of the event loop from one moment on. */
export interface LoopWatch {
  /** All delay since then, at most 20 ms too much for each time that the loop was late. Milliseconds. */
  delayMs(): number
  /** To be called in any case. */
  end(): void
}

/** How often the loop is looked at. */
const LOOK_MS = 10
/** Timers that are late by less are nothing unusual. */
const LATE_MS_MIN = 10

/** Measures the delay of a loop by a timer that comes late. */
export class LoopDelay {
  #watches = 0
  #timer: NodeJS.Timeout | undefined
  #lookedAtMs = 0
  #delayMs = 0

  /** Watches from now on. */
  watch(): LoopWatch {
    this.#watches++
    if (this.#timer === undefined) this.#lookLater()
    const beforeMs = this.#untilNowMs()
    return {
      delayMs: () => Math.max(0, this.#untilNowMs() - beforeMs),
      end: () => void this.#watches--,
    }
  }

  /** Counts what is under way: in a long turn of the loop nobody looks. */
  #untilNowMs(): number {
    const sinceMs = performance.now() - this.#lookedAtMs
    return this.#delayMs + (sinceMs < LOOK_MS + LATE_MS_MIN ? 0 : sinceMs)
  }

  #lookLater(): void {
    this.#lookedAtMs = performance.now()
    this.#timer = setTimeout(this.#look, LOOK_MS).unref()
  }

  readonly #look = () => {
    this.#delayMs = this.#untilNowMs()
    this.#timer = undefined
    if (this.#watches > 0) this.#lookLater()
  }
}

/** The delay of this process's own loop. */
export const loopDelay = new LoopDelay()
