// Memory budget for the bodies of all runs. Each run has its own limit, but without a common one many large answers
// at once would exhaust the process's memory.
import { failure, type Failure } from '../../contract/failure.ts'
import { LIMITS } from '../../contract/versions.ts'

let usedBytes = 0

export const bodyBudget = {
  get usedBytes(): number {
    return usedBytes
  },

  /** Reserves the bytes if they fit; the caller releases them when it frees the memory. */
  reserve(bytes: number): boolean {
    if (usedBytes + bytes > LIMITS.bodiesBytesMax) return false
    usedBytes += bytes
    return true
  },

  release(bytes: number): void {
    usedBytes -= bytes
  },

  /** RESOURCES_EXHAUSTED: the body may be valid, but this agent has no memory for it. */
  exceeded(): Failure {
    const limitBytes = LIMITS.bodiesBytesMax
    const message = `the bodies of all runs together need more than ${limitBytes} bytes of memory`
    return failure('RESOURCES_EXHAUSTED', message, { limitBytes })
  },
}
