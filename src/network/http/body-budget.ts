// The memory for bodies that all runs share: each run has its own limit, and without one for their sum many
// large answers at once would end the process.
import { failure, type Failure } from '../../contract/failure.ts'
import { LIMITS } from '../../contract/versions.ts'

/** Bytes that many may take from, and must give back. */
export class BodyBudget {
  readonly #bytesMax: number
  #takenBytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** What is taken now. */
  get takenBytes(): number {
    return this.#takenBytes
  }

  /** Takes the bytes if they fit; the caller gives them back when it lets go of the memory. */
  take(bytes: number): boolean {
    if (this.#takenBytes + bytes > this.#bytesMax) return false
    this.#takenBytes += bytes
    return true
  }

  giveBack(bytes: number): void {
    this.#takenBytes -= bytes
  }

  /** RESOURCES_EXHAUSTED: the body may be fine, this agent has no room for it. */
  exceeded(): Failure {
    const limitBytes = this.#bytesMax
    const message = `the bodies of all runs together need more than ${limitBytes} bytes of memory`
    return failure('RESOURCES_EXHAUSTED', message, { limitBytes })
  }
}

/** The budget of this process. */
export const bodyBudget = new BodyBudget(LIMITS.bodiesBytesMax)
