// Wakes the one who waits.

/** Somebody waits for it, others ring it. A ring while nobody waits is remembered. */
export interface Condition {
  ring(): void
  /** Resolves at the next ring, or after `ms`. One call at a time. */
  wait(ms?: number): Promise<void>
}

/** Makes a condition. */
export function createCondition(): Condition {
  let rung = false
  let wake: (() => void) | undefined
  return {
    ring() {
      if (wake === undefined) rung = true
      else wake()
    },
    wait(ms) {
      if (rung) {
        rung = false
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
