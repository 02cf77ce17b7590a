// Waits: a condition variable with one waiter, and a deadline for work that cannot be aborted.

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

/**
 * The promise's outcome, or a rejection when it takes longer than `ms`, such as a write to a disk that hangs. A later
 * outcome is ignored.
 */
export async function within<T>(promise: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`the disk took longer than ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
