// Whether the disk takes what the spool writes: said once when it stops and once when it works again, and tried
// again after a while.
import type { Log } from '../../../process/log.ts'

/** Before a disk that failed is tried again. */
const RETRY_MS = 5000

/** How a spool gets on with its disk. */
export class SpoolDisk {
  /** Why results are not kept on disk at present. */
  problem: string | undefined
  readonly #log: Log
  readonly #onRecovered: () => void
  #retryAt = 0
  #toldDamage = false

  constructor(log: Log, onRecovered: () => void) {
    this.#log = log
    this.#onRecovered = onRecovered
  }

  /** Whether it is worth a try. */
  isDue(): boolean {
    return Date.now() >= this.#retryAt
  }

  fails(error: unknown): void {
    this.#retryAt = Date.now() + RETRY_MS
    if (this.problem === undefined) {
      this.#log.error({ err: error }, 'results cannot be kept on disk; they are in memory')
    }
    this.problem = error instanceof Error ? error.message : String(error)
  }

  works(): void {
    if (this.problem === undefined) return
    this.problem = undefined
    this.#log.info('results are kept on disk again')
    this.#onRecovered()
  }

  /** `results` were lost, and at `places` nobody knows how many; said once. */
  isDamaged(places: number, results: number): void {
    if (places + results === 0 || this.#toldDamage) return
    this.#toldDamage = true
    const words = 'the spool is damaged in places; the rest of it is delivered'
    this.#log.warn({ places, results }, words)
  }
}
