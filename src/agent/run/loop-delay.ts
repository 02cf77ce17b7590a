// Delay of this thread's event loop, by its own work or by the machine. All attempts share one timer, which runs
// only while there are attempts: an attempt costs two readings of the clock.
import { setTimeout } from 'node:timers'

/** The delay of the event loop from one moment on. */
export interface LoopWatch {
  /**
   * By how much it can have stretched an attempt since then: all delay, and no more than a few times the longest.
   * At most 20 ms too much for each time that the loop was late. Milliseconds.
   */
  delayMs(): number
  /** To be called in any case. */
  end(): void
}

/** How often the loop is looked at. */
const LOOK_MS = 10
/** Timers that are late by less are nothing unusual. */
const LATE_MS_MIN = 10
/** What an attempt waits for, one after the other: a name, a connection, a handshake, a first byte, an end. */
const WAITS = 5

/** Measures the delay of a loop by a timer that comes late. */
export class LoopDelay {
  readonly #watches = new Set<{ beganMs: number; totalMs: number; longestMs: number }>()
  #timer: NodeJS.Timeout | undefined
  #lookedAtMs = 0

  /** Watches from now on. */
  watch(): LoopWatch {
    if (this.#timer === undefined) this.#lookLater()
    const watched = { beganMs: performance.now(), totalMs: 0, longestMs: 0 }
    this.#watches.add(watched)
    return {
      delayMs: () => {
        // Includes the delay that is still in progress.
        const nowMs = Math.min(this.#lateMs(), performance.now() - watched.beganMs)
        return Math.min(watched.totalMs + nowMs, WAITS * Math.max(watched.longestMs, nowMs))
      },
      end: () => void this.#watches.delete(watched),
    }
  }

  #lateMs(): number {
    const sinceMs = performance.now() - this.#lookedAtMs
    return sinceMs < LOOK_MS + LATE_MS_MIN ? 0 : sinceMs
  }

  #lookLater(): void {
    this.#lookedAtMs = performance.now()
    this.#timer = setTimeout(this.#look, LOOK_MS).unref()
  }

  readonly #look = () => {
    const lateMs = this.#lateMs()
    if (lateMs > 0) {
      const nowMs = performance.now()
      for (const watched of this.#watches) {
        const ownMs = Math.min(lateMs, nowMs - watched.beganMs)
        watched.totalMs += ownMs
        watched.longestMs = Math.max(watched.longestMs, ownMs)
      }
    }
    this.#timer = undefined
    if (this.#watches.size > 0) this.#lookLater()
  }
}

/** The delay of this process's own loop. */
export const loopDelay = new LoopDelay()
