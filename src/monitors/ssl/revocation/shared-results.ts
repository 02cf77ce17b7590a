// Cache of what is fetched: concurrent callers of one key share the work, later ones its result. A hundred monitors
// with certificates of one authority fetch its revocation list once.
import { untilAborted } from '../../../network/deadline.ts'
import { LeastRecentlyUsed } from '../../../network/least-recently-used.ts'

interface Entry<V> {
  result: Promise<V>
  /** Milliseconds since 1970; Infinity while the work runs. */
  until: number
  controller: AbortController
  waiting: number
}

/** How long a result holds, and its share of the bound; 1 by default. */
interface Terms {
  until: number
  weight?: number
}

/** Results by key, of at most `max` weight together. */
export class SharedResults<V> {
  readonly #entries: LeastRecentlyUsed<string, Entry<V>>
  readonly #termsOf: (value: V) => Terms

  constructor(max: number, termsOf: (value: V) => Terms) {
    this.#entries = new LeastRecentlyUsed(max)
    this.#termsOf = termsOf
  }

  /**
   * The result of the work of this key, started unless it is running or its result holds. Rejects as the work does,
   * or with the signal's reason; the work is aborted after its last waiter.
   */
  async get(
    key: string,
    signal: AbortSignal,
    work: (signal: AbortSignal) => Promise<V>,
  ): Promise<V> {
    signal.throwIfAborted()
    let entry = this.#entries.get(key)
    if (entry === undefined || entry.until <= Date.now()) entry = this.#begin(key, work)
    entry.waiting++
    try {
      return await untilAborted(entry.result, signal)
    } finally {
      if (--entry.waiting === 0 && entry.until === Infinity) {
        this.#forget(key, entry)
        entry.controller.abort()
      }
    }
  }

  #begin(key: string, work: (signal: AbortSignal) => Promise<V>): Entry<V> {
    const controller = new AbortController()
    const entry = { result: work(controller.signal), until: Infinity, controller, waiting: 0 }
    this.#entries.set(key, entry)
    void this.#settle(key, entry)
    return entry
  }

  async #settle(key: string, entry: Entry<V>): Promise<void> {
    try {
      const { until, weight } = this.#termsOf(await entry.result)
      entry.until = until
      this.#entries.set(key, entry, weight)
    } catch {
      this.#forget(key, entry)
    }
  }

  #forget(key: string, entry: Entry<V>): void {
    if (this.#entries.get(key) === entry) this.#entries.delete(key)
  }
}
