// Calls that wait for news: one for each agent, each ended by its time, a newer call, the caller's
// going away, or the end of the platform.

/** A call that may be held. */
export interface HeldCall {
  /** Fires when it is to be answered at once. */
  readonly signal: AbortSignal
  /** To be called in any case. */
  end(): void
}

/** The calls of one process. */
export class HeldCalls {
  readonly #byAgent = new Map<string, AbortController>()
  #isDraining = false

  /** How many there are. */
  get count(): number {
    return this.#byAgent.size
  }

  /** Whether the process is about to end: no call is to be held for long. */
  get isDraining(): boolean {
    return this.#isDraining
  }

  /** Begins a call of the agent `key` and ends the one before. `caller` fires when it goes away. */
  begin(key: string, caller: AbortSignal): HeldCall {
    this.#byAgent.get(key)?.abort()
    const held = new AbortController()
    const leave = () => held.abort()
    this.#byAgent.set(key, held)
    caller.addEventListener('abort', leave, { once: true })
    return {
      signal: held.signal,
      end: () => {
        caller.removeEventListener('abort', leave)
        if (this.#byAgent.get(key) === held) this.#byAgent.delete(key)
      },
    }
  }

  /** Has all answered at once. */
  drain(): void {
    this.#isDraining = true
    for (const held of this.#byAgent.values()) held.abort()
  }
}
