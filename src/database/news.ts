// Wakes calls that wait for something, such as a run or a location, when it may have changed.
import { EventEmitter } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'

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
  readonly #watches = new EventEmitter().setMaxListeners(0)

  /** Begins to watch: no notification from now on is missed. */
  watch(id: string): NewsWatch {
    let news = new AbortController()
    const notify = () => news.abort()
    this.#watches.on(id, notify)
    return {
      async wait(ms, signal) {
        const either = AbortSignal.any([news.signal, signal])
        await sleep(ms, undefined, { signal: either }).catch(() => undefined)
        const { aborted } = news.signal
        if (aborted) news = new AbortController()
        return aborted
      },
      end: () => void this.#watches.off(id, notify),
    }
  }

  /** There may be news of this id; without one, of any. */
  notify(id?: string): void {
    for (const each of id === undefined ? this.#watches.eventNames() : [id])
      this.#watches.emit(each)
  }
}
