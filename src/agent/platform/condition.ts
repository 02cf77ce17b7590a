// A condition variable with one waiter.

/** A notification without a waiter is remembered. */
export class Condition {
  #next = Promise.withResolvers<void>()

  notify(): void {
    this.#next.resolve()
  }

  /** Resolves at the next notification, or after `ms`. One call at a time. */
  async wait(ms?: number): Promise<void> {
    const timer = ms === undefined ? undefined : setTimeout(() => this.notify(), ms)
    await this.#next.promise
    clearTimeout(timer)
    this.#next = Promise.withResolvers()
  }
}
