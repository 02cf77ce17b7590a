// Whether the disk accepts writes of the spool: logged once when it fails and once when it works again, and
// retried after a while.
import type { Log } from '../../../process/log.ts'

/** Before a disk that failed is tried again. */
const RETRY_MS = 5000

/** The state of a spool's disk. */
export class SpoolDisk {
  /** Why results are not stored on disk at present. */
  problem: string | undefined
  readonly #log: Log
  readonly #onRecovered: () => void
  #retryAt = 0
  #reportedDamage = false

  constructor(log: Log, onRecovered: () => void) {
    this.#log = log
    this.#onRecovered = onRecovered
  }

  /** Whether the next attempt is due. */
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

  /** `results` were lost, and an unknown number at `places`; logged once. */
  isDamaged(places: number, results: number): void {
    if (places + results === 0 || this.#reportedDamage) return
    this.#reportedDamage = true
    const message = 'the spool is damaged in places; the rest of it is delivered'
    this.#log.warn({ places, results }, message)
  }
}

const FULL = new Set(['ENOSPC', 'EDQUOT'])

/** Text like `the disk is full`. */
export function diskMessage(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  if (isDiskFull(error)) return 'the disk is full'
  return `it could not be kept on disk (${code ?? message})`
}

/** Whether the disk, or the user's quota, is full. */
export function isDiskFull(error: unknown): boolean {
  return FULL.has((error as NodeJS.ErrnoException).code ?? '')
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
