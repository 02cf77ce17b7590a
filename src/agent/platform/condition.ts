// A condition variable with one waiter.

/** A notification without a waiter is remembered. */
export interface Condition {
  notify(): void
  /** Resolves at the next notification, or after `ms`. One call at a time. */
  wait(ms?: number): Promise<void>
}

/** Makes a condition. */
export function createCondition(): Condition {
  let isNotified = false
  let wake: (() => void) | undefined
  return {
    notify() {
      if (wake === undefined) isNotified = true
      else wake()
    },
    wait(ms) {
      if (isNotified) {
        isNotified = false
        return Promise.resolve()
      }
      return new Promise((resolve) => {
        const timer = ms === undefined ? undefined : setTimeout(() => wake?.(), ms)
        wake = () => {
          wake = undefined
          clearTimeout(timer)
          resolve()
        }
      })
    },
  }
}
