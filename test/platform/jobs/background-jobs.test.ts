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
  return { ...jobOf(async () => void counted.runs++, more), counted }
}
/** A job that runs until `end` is called or its signal is aborted; `reason` is the argument or the signal’s reason. */
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
    for (let n = 0; n < 3; n++) await doOnce(one, { ...options(), log: errorLog })
    expect(lines).toEqual([expect.stringContaining('not this time')])
    expect(tries).toBe(2)
  })

  test('is not started by another while its lease lasts, and is afterwards', async () => {
    const { job, begun, end } = lasting()
    const first = doOnce(job, options())
    await begun
    // However long its time-out is.
    const short = `select from chores where name = $1 and leased_until < now() + interval '16 s'`
    expect(await use().database.query(short, [job.name])).toHaveLength(1)
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
    const held = `select from chores where name = $1 and leased_until > now() + '1 min'`
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
  const often = counting({ everyMs: 0 })
  const working = runBackgroundJobs([often], options(stop.signal))
  await expect.poll(() => often.counted.runs).toBeGreaterThanOrEqual(2)
  stop.abort()
  await working
})
