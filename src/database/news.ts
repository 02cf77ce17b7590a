// Wakes calls that wait for something, such as a run or a location, when it may have changed.

/** One who waits for news of one thing. */
export interface NewsWatch {
  /**
   * Resolves with true at once when there was news since the last time this was called, else when there
   * is; with false when `ms` have passed or the signal fires.
   */
  wait(ms: number, signal: AbortSignal): Promise<boolean>
  /** Waits no more; to be called in any case. */
  end(): void
}

/** Who waits for news, by the id of what they wait for. */
export class News {
  readonly #watches = new Map<string, Set<() => void>>()

  /** Begins to watch: no notification from now on is missed. */
  watch(id: string): NewsWatch {
    let hasNews = false
    let wake: (() => void) | undefined
    const notify = () => {
      hasNews = true
      wake?.()
    }
    const watches = this.#watches.get(id) ?? new Set()
    this.#watches.set(id, watches.add(notify))
    return {
      async wait(ms, signal) {
        if (!hasNews && !signal.aborted) {
          await new Promise<void>((resolve) => {
            const timer = setTimeout(over, ms)
            signal.addEventListener('abort', over, { once: true })
            wake = over
            function over(): void {
              clearTimeout(timer)
              signal.removeEventListener('abort', over)
              resolve()
            }
          })
          wake = undefined
        }
        const had = hasNews
        hasNews = false
        return had
      },
      end: () => {
        watches.delete(notify)
        if (watches.size === 0 && this.#watches.get(id) === watches) {
          this.#watches.delete(id)
        }
      },
    }
  }

  /** There may be news of this id; without one, of any. */
  notify(id?: string): void {
    if (id !== undefined) {
      for (const notify of this.#watches.get(id) ?? []) notify()
      return
    }
    for (const watches of this.#watches.values()) for (const notify of watches) notify()
  }
}
