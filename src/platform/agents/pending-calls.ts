// Calls that wait for news: one for each agent, each ended by its time, a newer call, the caller's
// going away, or the end of the platform.

/** A call that may wait. */
export interface PendingCall {
  /** Fires when it is to be answered at once. */
  readonly signal: AbortSignal
  /** To be called in any case. */
  end(): void
}

export class PendingCalls {
  readonly #byAgent = new Map<string, AbortController>()
  #isDraining = false

  /** How many there are. */
  get count(): number {
    return this.#byAgent.size
  }

  /** Whether the process is about to end: no call may wait for long. */
  get isDraining(): boolean {
    return this.#isDraining
  }

  /** Begins a call of the agent `key` and ends the previous one. `caller` fires when the client disconnects. */
  begin(key: string, caller: AbortSignal): PendingCall {
    this.#byAgent.get(key)?.abort()
    const controller = new AbortController()
    this.#byAgent.set(key, controller)
    return {
      signal: AbortSignal.any([controller.signal, caller]),
      end: () => {
        if (this.#byAgent.get(key) === controller) this.#byAgent.delete(key)
      },
    }
  }

  /** Has all answered at once. */
  drain(): void {
    this.#isDraining = true
    for (const controller of this.#byAgent.values()) controller.abort()
  }
}
