// Wakes those who wait for a run to change: one listener a process hears of every change, whichever
// process made it.

/** Waits for runs. */
export interface RunWatch {
  /** Something happened to a run; without an id, anything may have. */
  tell(runId?: string): void
  /** Hears of changes from now on. */
  follow(runId: string): RunNews
  /** Lets everybody go who waits, and nobody wait any more. */
  close(): void
}

/** What somebody hears of one run. */
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
    tell(runId) {
      if (runId === undefined) wakeAll()
      else wake(followers.get(runId) ?? [])
    },
    follow(runId) {
      let news = false
      let go: (() => void) | undefined
      const hear = () => {
        news = true
        go?.()
      }
      const waiting = followers.get(runId) ?? new Set()
      followers.set(runId, waiting.add(hear))
      return {
        async changed(withinMs) {
          if (!news && !closed)
            await waitFor(withinMs, (resume) => {
              go = resume
            })
          const heard = news && !closed
          news = false
          go = undefined
          return heard
        },
        over() {
          waiting.delete(hear)
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
