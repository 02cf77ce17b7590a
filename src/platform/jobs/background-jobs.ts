// Background jobs: periodic work that one of all platform processes does, such as unresponsive agents, unreported
// slots, alerts that are due by time, retention.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '../../process/log.ts'
import { type JobLease, releaseLease, renewLease, acquireLease } from './queries.ts'
import type { Database } from '../../database/database.ts'
import { isUnavailable } from '../../database/database-failure.ts'

export interface BackgroundJob {
  /** Known to the database; must not change between versions. */
  name: string
  everyMs: number
  /** Time-out of a run; then its signal fires. */
  timeoutMs: number
  /** Runs the job once. Its errors are logged, and it is retried at the next run. */
  run(signal: AbortSignal): Promise<void>
}

export interface BackgroundJobOptions {
  database: Database
  log: Log
  signal: AbortSignal
  /** By default 15 s. */
  leaseMs?: number
}

const POLL_MS_MIN = 500
const POLL_MS_MAX = 10_000
/** Maximum pause of a job after its process died, apart from the polling interval of another one. */
const LEASE_MS = 15_000

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
  { database, log, signal, leaseMs = LEASE_MS }: BackgroundJobOptions,
): Promise<void> {
  try {
    const acquired = await acquireLease(database, { ...backgroundJob, leaseMs })
    if (acquired === undefined) return
    const lease = keepRenewed(database, acquired, leaseMs)
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
    const facts = { err: error, backgroundJob: backgroundJob.name }
    if (isUnavailable(error)) log.debug(facts, 'a background job has to wait')
    else log.error(facts, 'a background job failed and is retried')
  }
}

/** Renews a lease until it is released; `lost` fires when another process may hold the job. */
function keepRenewed(database: Database, leased: JobLease, leaseMs: number) {
  const lost = new AbortController()
  const lose = () => lost.abort(new Error('the lease ended before the job was done'))
  const end = setTimeout(lose, leaseMs)
  let lease = leased
  const renew = async () => {
    // While the database does not answer, no other process gets the lease either.
    const renewed = await renewLease(database, lease, leaseMs).catch(() => null)
    if (renewed === undefined) lose()
    if (!renewed) return
    lease = renewed
    end.refresh()
  }
  let renewing = Promise.resolve()
  const renewal = setInterval(() => {
    renewing = renewing.then(renew)
  }, leaseMs / 4)
  const release = async (done: boolean) => {
    clearInterval(renewal)
    clearTimeout(end)
    await renewing
    await releaseLease(database, lease, done)
  }
  return { lost: lost.signal, release }
}
