// Aim: a background job is run periodically by one of all processes, again when it failed, and by another when its
// process died.
import { describe, expect, test } from 'vitest'
import { createLog } from '../../../src/process/log.ts'
import {
  type BackgroundJob,
  runBackgroundJobs,
  doOnce,
} from '../../../src/platform/jobs/background-jobs.ts'
import { releaseLease, renewLease, acquireLease } from '../../../src/platform/jobs/queries.ts'
import { useDatabase } from '../../support/database/database.ts'

const use = useDatabase()
const log = createLog({ level: 'error', pretty: false, destination: { write: () => {} } })
const never = new AbortController().signal
const options = (signal = never) => ({ database: use().database, log, signal })
let made = 0
const backgroundJob = (
  run: BackgroundJob['run'],
  more: Partial<BackgroundJob> = {},
): BackgroundJob => ({
  name: `background job ${made++}`,
  everyMs: 60_000,
  timeoutMs: 10_000,
  run,
  ...more,
})

describe('a background job', () => {
  test('is run by one of several processes, once per period', async () => {
    let done = 0
    const one = backgroundJob(async () => void done++)
    await Promise.all(Array.from({ length: 8 }, () => doOnce(one, options())))
    await doOnce(one, options())
    expect(done).toBe(1)
  })

  test('is run again in the next period', async () => {
    let done = 0
    const one = backgroundJob(async () => void done++, { everyMs: 0 })
    await doOnce(one, options())
    await doOnce(one, options())
    expect(done).toBe(2)
  })

  test('that failed is due again at once, and its failure is logged', async () => {
    let tries = 0
    const lines: string[] = []
    const one = backgroundJob(async () => {
      if (tries++ === 0) throw new Error('not this time')
    })
    const errorLog = createLog({
      level: 'error',
      pretty: false,
      destination: { write: (line) => void lines.push(line) },
    })
    await doOnce(one, { ...options(), log: errorLog })
    expect(lines.join('')).toContain('not this time')
    await doOnce(one, options())
    await doOnce(one, options())
    expect(tries).toBe(2)
  })

  test('is not started by another while its lease lasts, and is afterwards', async () => {
    const begun = Promise.withResolvers<void>()
    const finish = Promise.withResolvers<void>()
    const one = backgroundJob(() => {
      begun.resolve()
      return finish.promise
    })
    const first = doOnce(one, options())
    await begun.promise
    let others = 0
    const same = { ...one, run: async () => void others++ }
    await doOnce(same, options())
    expect(others).toBe(0)
    // As after the death of the process with the lease.
    await use().database.query(
      `update chores set leased_until = clock_timestamp() - interval '1 s' where name = $1`,
      [one.name],
    )
    await doOnce(same, options())
    expect(others).toBe(1)
    finish.resolve()
    await first
  })

  test('continues soon after its process died, however long its time-out is', async () => {
    const begun = Promise.withResolvers<void>()
    const finish = Promise.withResolvers<void>()
    const one = backgroundJob(
      () => {
        begun.resolve()
        return finish.promise
      },
      { timeoutMs: 600_000 },
    )
    const working = doOnce(one, options())
    await begun.promise
    const [row] = await use().database.query<{ seconds: number }>(
      `select extract(epoch from leased_until - clock_timestamp())::double precision as seconds
       from chores where name = $1`,
      [one.name],
    )
    expect(row?.seconds).toBeLessThan(16)
    finish.resolve()
    await working
  })

  test('gets a signal when another process has its lease, and does not end that lease', async () => {
    const reasons: unknown[] = []
    const begun = Promise.withResolvers<void>()
    const one = backgroundJob(
      (signal) =>
        new Promise((resolve) => {
          begun.resolve()
          signal.addEventListener('abort', () => resolve(void reasons.push(signal.reason)))
        }),
      { timeoutMs: 600_000 },
    )
    const working = doOnce(one, options())
    await begun.promise
    const { database } = use()
    await database.query(`update chores set leased_until = now() + '1 h' where name = $1`, [
      one.name,
    ])
    await working
    expect(reasons).toHaveLength(1)
    const held = `select 1 from chores where name = $1 and leased_until > now() + '1 min'`
    expect(await database.query(held, [one.name])).toHaveLength(1)
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
    const reasons: unknown[] = []
    const one = backgroundJob(
      (signal) =>
        new Promise((resolve) => {
          signal.addEventListener('abort', () => resolve(void reasons.push(signal.reason)))
        }),
      { timeoutMs: 50 },
    )
    await doOnce(one, options())
    expect(reasons).toHaveLength(1)
  })
})

test('background jobs run until the signal fires', async () => {
  const stop = new AbortController()
  const twice = Promise.withResolvers<void>()
  let done = 0
  const one = backgroundJob(
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
