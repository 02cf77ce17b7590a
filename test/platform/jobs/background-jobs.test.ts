// Aim: a background job is run periodically by one of all processes, again when it failed, and by another when its
// process died.
import { describe, expect, test } from 'vitest'
import {
  type BackgroundJob,
  runBackgroundJobs,
  doOnce,
} from '../../../src/platform/jobs/background-jobs.ts'
import { releaseLease, renewLease, acquireLease } from '../../../src/platform/jobs/queries.ts'
import { collectingLog } from '../../support/collecting-log.ts'
import { useDatabase } from '../../support/database/database.ts'

const use = useDatabase()
const { log } = collectingLog()
const never = new AbortController().signal
const options = (signal = never) => ({ database: use().database, log, signal })
let made = 0
const jobOf = (run: BackgroundJob['run'], more: Partial<BackgroundJob> = {}): BackgroundJob => ({
  name: `background job ${made++}`,
  everyMs: 60_000,
  timeoutMs: 600_000,
  run,
  ...more,
})
/** A job that counts its runs. */
const counting = (more: Partial<BackgroundJob> = {}) => {
  const counted = { runs: 0 }
  return Object.assign(
    jobOf(async () => void counted.runs++, more),
    { counted },
  )
}
/** A job that runs until it is told to end or its signal fires, with the reason of that. */
const lasting = (more: Partial<BackgroundJob> = {}) => {
  const [begun, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<unknown>()]
  const job = jobOf(async (signal) => {
    begun.resolve()
    signal.addEventListener('abort', () => ended.resolve(signal.reason))
    await ended.promise
  }, more)
  return { job, begun: begun.promise, end: ended.resolve, reason: ended.promise }
}
const setLease = (name: string, from: string) =>
  use().database.query(
    `update chores set leased_until = clock_timestamp() + $2::interval where name = $1`,
    [name, from],
  )

describe('a background job', () => {
  test('is run by one of several processes, once per period', async () => {
    const [one, often] = [counting(), counting({ everyMs: 0 })]
    await Promise.all(Array.from({ length: 8 }, () => doOnce(one, options())))
    for (const job of [one, often, often]) await doOnce(job, options())
    expect([one.counted.runs, often.counted.runs]).toEqual([1, 2])
  })

  test('that failed is due again at once, and its failure is logged', async () => {
    let tries = 0
    const { log: errorLog, lines } = collectingLog('error')
    const one = jobOf(async () => {
      if (tries++ === 0) throw new Error('not this time')
    })
    await doOnce(one, { ...options(), log: errorLog })
    expect(lines.join('')).toContain('not this time')
    await doOnce(one, options())
    await doOnce(one, options())
    expect(tries).toBe(2)
  })

  test('is not started by another while its lease lasts, and is afterwards', async () => {
    const { job, begun, end } = lasting()
    const first = doOnce(job, options())
    await begun
    const [row] = await use().database.query<{ seconds: number }>(
      `select extract(epoch from leased_until - clock_timestamp())::double precision as seconds
       from chores where name = $1`,
      [job.name],
    )
    // However long its time-out is.
    expect(row?.seconds).toBeLessThan(16)
    const same = counting({ name: job.name })
    await doOnce(same, options())
    expect(same.counted.runs).toBe(0)
    // As after the death of the process with the lease.
    await setLease(job.name, '-1 s')
    await doOnce(same, options())
    expect(same.counted.runs).toBe(1)
    end(undefined)
    await first
  })

  test('gets a signal when another process has its lease, and does not end that lease', async () => {
    const { job, begun, reason } = lasting()
    const working = doOnce(job, { ...options(), leaseMs: 200 })
    await begun
    await setLease(job.name, '1 h')
    expect(await reason).toMatchObject({ message: expect.stringContaining('lease') })
    await working
    const held = `select 1 from chores where name = $1 and leased_until > now() + '1 min'`
    expect(await use().database.query(held, [job.name])).toHaveLength(1)
  })

  test('is renewed by its holder alone', async () => {
    const { database } = use()
    const ask = { name: 'renewed', everyMs: 0, leaseMs: 60_000 }
    const lease = await acquireLease(database, ask)
    expect(await acquireLease(database, ask)).toBeUndefined()
    // Later by more than the precision of the table, milliseconds.
    const renewed = lease && (await renewLease(database, lease, 90_000))
    expect(renewed?.name).toBe('renewed')
    expect(lease && (await renewLease(database, lease, 60_000))).toBeUndefined()
    if (lease !== undefined) await releaseLease(database, lease, true)
    expect(await acquireLease(database, ask)).toBeUndefined()
    if (renewed !== undefined) await releaseLease(database, renewed, true)
    expect(await acquireLease(database, ask)).toMatchObject({ name: 'renewed' })
  })

  test('gets a signal at its time-out', async () => {
    const { job, reason } = lasting({ timeoutMs: 50 })
    await doOnce(job, options())
    expect(await reason).toMatchObject({ name: 'TimeoutError' })
  })
})

test('background jobs run until the signal fires', async () => {
  const stop = new AbortController()
  const twice = Promise.withResolvers<void>()
  let done = 0
  const one = jobOf(
    async () => {
      if (++done === 2) twice.resolve()
    },
    { everyMs: 0 },
  )
  const working = runBackgroundJobs([one], options(stop.signal))
  await twice.promise
  stop.abort()
  await working
  expect(done).toBeGreaterThanOrEqual(2)
})
