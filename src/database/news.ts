// Wakes calls that wait for a location when something there may have changed.

/** One who waits for news of a location. */
export interface NewsWatch {
  /**
   * Resolves with true at once when there was news since the last time this was called, else when there
   * is; with false when `ms` have passed or the signal fires.
   */
  wait(ms: number, signal: AbortSignal): Promise<boolean>
  /** Waits no more; to be called in any case. */
  end(): void
}

/** Who waits for news, by location. */
export class LocationNews {
  readonly #watches = new Map<string, Set<() => void>>()

  /** Begins to watch: no notification from now on is missed. */
  watch(locationId: string): NewsWatch {
    let hasNews = false
    let wake: (() => void) | undefined
    const notify = () => {
      hasNews = true
      wake?.()
    }
    const watches = this.#watches.get(locationId) ?? new Set()
    this.#watches.set(locationId, watches.add(notify))
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
        if (watches.size === 0 && this.#watches.get(locationId) === watches) {
          this.#watches.delete(locationId)
        }
      },
    }
  }

  /** There may be news in a location; without its id, in any. */
  notify(locationId?: string): void {
    if (locationId !== undefined) {
      for (const notify of this.#watches.get(locationId) ?? []) notify()
      return
    }
    for (const watches of this.#watches.values()) for (const notify of watches) notify()
  }
}
