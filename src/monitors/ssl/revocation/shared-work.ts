// Shared work: concurrent callers with the same key share one result. A hundred monitors with certificates of
// one authority fetch its revocation list once.

interface Running<V> {
  result: Promise<V>
  controller: AbortController
  waiting: number
}

/** Running work by key. */
export class SharedWork<V> {
  readonly #running = new Map<string, Running<V>>()

  /**
   * The result of the work of this key, started unless it is running. Rejects as the work does, or with
   * the signal's reason; the work is aborted after its last waiter.
   */
  async get(
    key: string,
    signal: AbortSignal,
    work: (signal: AbortSignal) => Promise<V>,
  ): Promise<V> {
    signal.throwIfAborted()
    const running = this.#running.get(key) ?? this.#begin(key, work)
    running.waiting++
    try {
      return await untilAborted(running.result, signal)
    } finally {
      if (--running.waiting === 0) {
        if (this.#running.get(key) === running) this.#running.delete(key)
        running.controller.abort()
      }
    }
  }

  #begin(key: string, work: (signal: AbortSignal) => Promise<V>): Running<V> {
    const controller = new AbortController()
    const running = { result: work(controller.signal), controller, waiting: 0 }
    this.#running.set(key, running)
    const end = () => {
      if (this.#running.get(key) === running) this.#running.delete(key)
    }
    running.result.then(end, end)
    return running
  }
}

function untilAborted<V>(result: Promise<V>, signal: AbortSignal): Promise<V> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason as Error)
    signal.addEventListener('abort', onAbort)
    result.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}
