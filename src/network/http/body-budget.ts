// Memory budget for the bodies of all runs. Each run has its own limit, but without a common one many large answers
// at once would exhaust the process's memory.
import { failure, type Failure } from '../../contract/failure.ts'
import { LIMITS } from '../../contract/versions.ts'

/** A budget of bytes to reserve and release. */
class BodyBudget {
  readonly #bytesMax: number
  #usedBytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** Bytes reserved now. */
  get usedBytes(): number {
    return this.#usedBytes
  }

  /** Reserves the bytes if they fit; the caller releases them when it frees the memory. */
  reserve(bytes: number): boolean {
    if (this.#usedBytes + bytes > this.#bytesMax) return false
    this.#usedBytes += bytes
    return true
  }

  release(bytes: number): void {
    this.#usedBytes -= bytes
  }

  /** RESOURCES_EXHAUSTED: the body may be valid, but this agent has no memory for it. */
  exceeded(): Failure {
    const limitBytes = this.#bytesMax
    const message = `the bodies of all runs together need more than ${limitBytes} bytes of memory`
    return failure('RESOURCES_EXHAUSTED', message, { limitBytes })
  }
}

/** The budget of this process. */
export const bodyBudget = new BodyBudget(LIMITS.bodiesBytesMax)
