// Results that were handed to the sink and are not safe there yet. A sink that fails is logged once, not for every
// result of a long outage.
import type { Result } from '../contract/result.ts'
import type { Log } from '../process/log.ts'
import type { ResultSink } from './sink.ts'

/** Hands results to a sink and counts those that it has not settled. */
export class PendingResults {
  /** Results that are not settled. */
  count = 0
  readonly #sink: ResultSink
  readonly #log: Log
  readonly #onFailed: () => void
  #hasFailed = false
  #onNone: (() => void) | undefined

  constructor(sink: ResultSink, log: Log, onFailed: () => void) {
    this.#sink = sink
    this.#log = log
    this.#onFailed = onFailed
  }

  /** Hands a result to the sink. Never throws. */
  deliver(result: Result): void {
    this.count++
    try {
      this.#sink.deliver(result).then(
        () => this.#settle(),
        (error: unknown) => this.#settle(error ?? new Error('refused without a reason')),
      )
    } catch (error) {
      this.#settle(error)
    }
  }

  /** Resolves when all are settled, or after the time. */
  settled(msMax: number): Promise<void> {
    if (this.count === 0) return Promise.resolve()
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, msMax)
      this.#onNone = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  #settle(error?: unknown): void {
    this.count--
    const fails = error !== undefined
    if (fails) this.#onFailed()
    if (fails && !this.#hasFailed) this.#log.error({ err: error }, 'results cannot be delivered')
    if (!fails && this.#hasFailed) this.#log.info('results can be delivered again')
    this.#hasFailed = fails
    if (this.count === 0) this.#onNone?.()
  }
}
