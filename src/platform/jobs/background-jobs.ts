// Background jobs: periodic work that one of all platform processes does, such as unresponsive agents, unreported
// slots, alerts that are due by time, retention.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '../../process/log.ts'
import { type JobLease, releaseLease, renewLease, acquireLease } from './queries.ts'
import type { Database } from '../../database/database.ts'
import { isUnavailable } from '../../database/database-failure.ts'

/** Something to be done again and again. */
export interface BackgroundJob {
  /** Known to the database; must not change between versions. */
  name: string
  everyMs: number
  /** Time-out of a run; then its signal fires. */
  timeoutMs: number
  /** Runs the job once. Its errors are logged, and it is retried at the next run. */
  run(signal: AbortSignal): Promise<void>
}

/** What background jobs need. */
export interface BackgroundJobOptions {
  database: Database
  log: Log
  signal: AbortSignal
}

const POLL_MS_MIN = 500
const POLL_MS_MAX = 10_000
/** Maximum pause of a job after its process died, apart from the polling interval of another one. */
const LEASE_MS = 15_000
const RENEW_MS = 4_000

/** Does the background jobs until the signal fires; resolves when none is under way any more. Never rejects. */
export async function runBackgroundJobs(
  backgroundJobs: readonly BackgroundJob[],
  options: BackgroundJobOptions,
): Promise<void> {
  await Promise.all(backgroundJobs.map((backgroundJob) => repeat(backgroundJob, options)))
}

async function repeat(backgroundJob: BackgroundJob, options: BackgroundJobOptions): Promise<void> {
  const { signal } = options
  const pollMs = Math.min(POLL_MS_MAX, Math.max(POLL_MS_MIN, backgroundJob.everyMs / 2))
  while (!signal.aborted) {
    await doOnce(backgroundJob, options)
    // Jitter prevents several processes from polling in step.
    await sleep(pollMs * (0.75 + Math.random() / 2), undefined, { signal }).catch(() => undefined)
  }
}

/** Does a background job if it is due and free. Never rejects. */
export async function doOnce(
  backgroundJob: BackgroundJob,
  { database, log, signal }: BackgroundJobOptions,
): Promise<void> {
  try {
    const taken = await acquireLease(database, { ...backgroundJob, leaseMs: LEASE_MS })
    if (taken === undefined) return
    const lease = new RenewedLease(database, taken)
    let done = false
    try {
      const timeout = AbortSignal.timeout(backgroundJob.timeoutMs)
      await backgroundJob.run(AbortSignal.any([signal, timeout, lease.lost]))
      done = true
    } finally {
      await lease.release(done)
    }
  } catch (error) {
    if (signal.aborted) return
    if (isUnavailable(error))
      log.debug({ err: error, backgroundJob: backgroundJob.name }, 'a background job has to wait')
    else
      log.error(
        { err: error, backgroundJob: backgroundJob.name },
        'a background job failed and is retried',
      )
  }
}

/** Renews a lease until it is released. */
class RenewedLease {
  readonly #database: Database
  readonly #lost = new AbortController()
  readonly #renewal: NodeJS.Timeout
  readonly #end: NodeJS.Timeout
  #lease: JobLease
  #renewing: Promise<void> = Promise.resolve()

  constructor(database: Database, lease: JobLease) {
    this.#database = database
    this.#lease = lease
    this.#renewal = setInterval(() => {
      this.#renewing = this.#renewing.then(() => this.#renew())
    }, RENEW_MS)
    this.#end = setTimeout(() => this.#lose(), LEASE_MS)
  }

  /** Fires when another process may hold the job. */
  get lost(): AbortSignal {
    return this.#lost.signal
  }

  async release(done: boolean): Promise<void> {
    clearInterval(this.#renewal)
    clearTimeout(this.#end)
    await this.#renewing
    await releaseLease(this.#database, this.#lease, done)
  }

  async #renew(): Promise<void> {
    // While the database does not answer, no other process gets the lease either.
    const renewed = await renewLease(this.#database, this.#lease, LEASE_MS).catch(() => null)
    if (renewed === undefined) this.#lose()
    if (!renewed) return
    this.#lease = renewed
    this.#end.refresh()
  }

  #lose(): void {
    this.#lost.abort(new Error('the lease ended before the job was done'))
  }
}
