// Aim: one outage is one alert, in whichever order locations report it, on every PostgreSQL. A location without
// an agent neither keeps an alert open nor ends one that no other location can evaluate.
import { beforeEach, describe, expect, test } from 'vitest'
import type { GivenRun } from '../../support/platform/alerts/alerted-account.ts'
import { MINUTE, START, useShop } from '../../support/platform/alerts/shop.ts'
import { DATABASE_SERVERS } from '../../support/database/database.ts'
import type { Loose } from '../../support/platform/public-api.ts'

const shop = useShop(DATABASE_SERVERS[0])
const { trigger, run, kinds, incidents, states, monitor, record, notifications, runJobs } = shop

test('locations that deliver the same outage in turn make one alert of it', async () => {
  const other = await shop.account.addLocation('south')
  const id = await shop.account.addMonitor([shop.location, other], trigger())
  const past = (locationId: string, ...verdicts: GivenRun['verdict'][]) =>
    verdicts.map((verdict, n) => ({ ...run(id, n + 1, verdict), locationId }))
  await record(...past(shop.location, 'failed', 'failed', 'passed'))
  expect(await states()).toEqual([])
  await record(...past(other, 'failed', 'failed', 'failed', 'passed'))
  expect([await kinds(), await states()]).toEqual([['alert.failure', 'alert.recovery'], []])
  expect(await incidents()).toHaveLength(1)
  await record(run(id, 4, 'failed'))
  expect(await kinds()).toEqual(['alert.failure', 'alert.recovery', 'alert.failure'])
})

test('locations that deliver it at the same moment do so too', async () => {
  const other = await shop.account.addLocation('south')
  const ids = await Promise.all(
    Array.from({ length: 10 }, () => shop.account.addMonitor([shop.location, other])),
  )
  const past = (monitorId: string, locationId: string) =>
    (['failed', 'failed', 'passed'] as const).map((verdict, n) => ({
      ...run(monitorId, n + 1, verdict),
      locationId,
    }))
  await Promise.all(
    ids.flatMap((id) => [shop.location, other].map((where) => record(...past(id, where)))),
  )
  const each = (kind: string) => Array(ids.length).fill(kind)
  expect((await kinds()).toSorted()).toEqual([...each('alert.failure'), ...each('alert.recovery')])
})

test('a notification knows when it happened, not only when it was decided', async () => {
  const id = await monitor()
  shop.account.clock.nowMs = START + 5 * MINUTE
  await record(run(id, 3, 'failed'), run(id, 4, 'passed'))
  const rows = await shop
    .database()
    .database.query<{ at: Date }>(
      'select happened_at as at from alert_notifications where account_id = $1 order by seq',
      [shop.account.accountId],
    )
  expect(rows.map(({ at }) => at.getTime() - START)).toEqual([3 * MINUTE + 12, 4 * MINUTE + 12])
})

describe('a location without an agent', () => {
  let south: string
  beforeEach(async () => {
    south = await shop.account.addLocation('south')
  })
  const absent = (id: string, minutes: number | null) =>
    shop.database().database.query(
      `update private_locations
       set absent_since = clock_timestamp() - make_interval(mins => $2::int) where id = $1`,
      [id, minutes],
    )
  const payloads = async () =>
    (await notifications())
      .map(({ payload }) => payload)
      .filter(({ type }) => type.startsWith('alert.'))
  const status = async (id: string): Promise<Loose> =>
    (await shop.client.call('GET', `/v1/check-statuses/${id}`)).body
  /** Runs the jobs twice: for the notices, and for their consequences. */
  const pass = async () => {
    await runJobs()
    await runJobs()
  }

  test('no longer keeps an alert open once that is reported', async () => {
    const id = await shop.account.addMonitor([shop.location, south], trigger())
    await record({ ...run(id, 1, 'failed'), locationId: south })
    await record(run(id, 2, 'passed'))
    await absent(south, 9)
    await pass()
    expect(await payloads()).toHaveLength(1)
    expect(await status(id)).toMatchObject({ verdict: 'failed', hasFailures: true })
    await absent(south, 10)
    await pass()
    const [, recovery, ...more] = await payloads()
    expect(recovery).toMatchObject({
      type: 'alert.recovery',
      title: 'Shop has recovered (no agent in south)',
      unattended: [{ id: south, name: 'south' }],
      run: null,
    })
    expect(more).toEqual([])
    expect(await incidents()).toMatchObject([{ lastUpdateStatus: 'RESOLVED' }])
    const { verdict, hasFailures, locations } = await status(id)
    expect([verdict, hasFailures]).toEqual(['passed', false])
    const failed = (one: Loose) => one.verdict === 'failed'
    expect(locations.find(failed).unattended).toBe(true)
    expect(locations.find((one: Loose) => !failed(one)).unattended).toBe(false)
    expect(await states()).toEqual([])
  })

  test('counts again once it has one', async () => {
    const id = await shop.account.addMonitor([shop.location, south])
    await record({ ...run(id, 1, 'failed'), locationId: south })
    await record(run(id, 2, 'passed'))
    await absent(south, 10)
    await pass()
    await absent(south, null)
    await record({ ...run(id, 100_000, 'failed'), locationId: south })
    const all = await payloads()
    expect(all.map(({ type }) => type)).toEqual([
      'alert.failure',
      'alert.recovery',
      'alert.failure',
    ])
    expect(all[2]).not.toHaveProperty('unattended')
  })

  test.each([
    ['the only one', false],
    ['the only one that reported', true],
  ])('ends no alert where it is %s, and nobody is reminded', async (_, hasOther) => {
    const alertSettings = { reminders: { amount: 5, interval: 5 } }
    const own = { useGlobalAlertSettings: false, alertSettings }
    const id = await shop.account.addMonitor(hasOther ? [shop.location, south] : [south], own)
    await record({ ...run(id, 1, 'failed'), locationId: south })
    await absent(south, 10)
    await pass()
    shop.account.clock.nowMs = START + 60 * MINUTE
    await pass()
    expect(await payloads()).toHaveLength(1)
    expect(await states()).toHaveLength(1)
    expect(await status(id)).toMatchObject({ verdict: 'failed', hasFailures: true })
    const back = hasOther ? shop.location : south
    if (!hasOther) await absent(south, null)
    await record({ ...run(id, 61, 'passed'), locationId: back })
    expect((await payloads()).map(({ type }) => type)).toEqual(['alert.failure', 'alert.recovery'])
  })
})
