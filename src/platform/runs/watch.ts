// Wakes callers that wait for a run to change: one listener per process receives every change, from any
// process.

/** Waits for runs. */
export interface RunWatch {
  /** Something happened to a run; without an id, anything may have. */
  notify(runId?: string): void
  /** Subscribes to changes from now on. */
  follow(runId: string): RunNews
  /** Ends all waiting calls; later ones return at once. */
  close(): void
}

/** Subscription to the changes of one run. */
export interface RunNews {
  /** Resolves with true when something happened since it was asked last, with false in time. */
  changed(withinMs: number): Promise<boolean>
  /** Has to be called in the end. */
  over(): void
}

/** Makes a watch. */
export function createRunWatch(): RunWatch {
  const followers = new Map<string, Set<() => void>>()
  let closed = false
  const wake = (waiting: Iterable<() => void>) => {
    for (const one of waiting) one()
  }
  const wakeAll = () => {
    for (const waiting of followers.values()) wake(waiting)
  }
  return {
    notify(runId) {
      if (runId === undefined) wakeAll()
      else wake(followers.get(runId) ?? [])
    },
    follow(runId) {
      let news = false
      let go: (() => void) | undefined
      const onChange = () => {
        news = true
        go?.()
      }
      const waiting = followers.get(runId) ?? new Set()
      followers.set(runId, waiting.add(onChange))
      return {
        async changed(withinMs) {
          if (!news && !closed)
            await waitFor(withinMs, (resume) => {
              go = resume
            })
          const hasChanged = news && !closed
          news = false
          go = undefined
          return hasChanged
        },
        over() {
          waiting.delete(onChange)
          if (waiting.size === 0 && followers.get(runId) === waiting) followers.delete(runId)
        },
      }
    },
    close() {
      closed = true
      wakeAll()
    },
  }
}

function waitFor(withinMs: number, onGo: (resume: () => void) => void): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, withinMs)
    onGo(() => {
      clearTimeout(timer)
      resolve()
    })
  })
}
