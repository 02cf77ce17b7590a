// Aim: one outage is one alert, in whichever order locations report it, on every PostgreSQL. A location without
// an agent neither keeps an alert open nor ends one that no other location can evaluate.
import { beforeEach, describe, expect, test } from 'vitest'
import { MINUTE, START, useShop } from '../../support/platform/alerts/shop.ts'
import { DATABASE_SERVERS } from '../../support/database/database.ts'
import { setAbsence } from '../../support/platform/locations.ts'
import type { Loose } from '../../support/platform/public-api.ts'

const shop = useShop(DATABASE_SERVERS[0])
const { db, clock, trigger, run, kinds, incidents, states } = shop
const { monitor, record, notifications, runJobs } = shop
let south: string
beforeEach(async () => {
  south = await shop.addPlace('south')
})
const inBoth = (fields: object = {}) => monitor(fields, [shop.location, south])

const past = (id: string, location: string, ...verdicts: Parameters<typeof run>[2][]) =>
  verdicts.map((verdict, n) => run(id, n + 1, verdict, location))

test('locations that deliver the same outage in turn make one alert of it', async () => {
  const id = await inBoth(trigger())
  await record(...past(id, shop.location, 'failed', 'failed', 'passed'))
  expect(await states()).toEqual([])
  await record(...past(id, south, 'failed', 'failed', 'failed', 'passed'))
  expect([await kinds(), await states()]).toEqual([['alert.failure', 'alert.recovery'], []])
  expect(await incidents()).toHaveLength(1)
  await record(run(id, 4, 'failed'))
  expect(await kinds()).toEqual(['alert.failure', 'alert.recovery', 'alert.failure'])
})

test('locations that deliver it at the same moment do so too', async () => {
  const ids = await Promise.all(Array.from({ length: 10 }, () => inBoth()))
  const batches = ids.flatMap((id) =>
    [shop.location, south].map((where) => past(id, where, 'failed', 'failed', 'passed')),
  )
  await Promise.all(batches.map((batch) => record(...batch)))
  const each = (kind: string) => Array(ids.length).fill(kind)
  expect((await kinds()).toSorted()).toEqual([...each('alert.failure'), ...each('alert.recovery')])
})

test('a notification knows when it happened, not only when it was decided', async () => {
  const id = await monitor()
  clock.nowMs = START + 5 * MINUTE
  await record(run(id, 3, 'failed'), run(id, 4, 'passed'))
  const happened = (await notifications()).map(({ at }) => at.getTime() - START)
  expect(happened).toEqual([3 * MINUTE + 12, 4 * MINUTE + 12])
})

describe('a location without an agent', () => {
  const payloads = async () =>
    (await notifications())
      .map(({ payload }) => payload)
      .filter(({ type }) => type.startsWith('alert.'))
  const types = async () => (await payloads()).map(({ type }) => type)
  const status = async (id: string): Promise<Loose> =>
    await shop.client.get(`/v1/check-statuses/${id}`)
  /** Runs the jobs twice, after so many minutes: for the notices, and for their consequences. */
  const absent = async (minutes: number) => {
    await setAbsence(db(), south, minutes)
    await runJobs()
    await runJobs()
  }

  test('no longer keeps an alert open once that is reported', async () => {
    const id = await inBoth(trigger())
    await record(run(id, 1, 'failed', south))
    await record(run(id, 2, 'passed'))
    await absent(9)
    expect(await types()).toEqual(['alert.failure'])
    expect(await status(id)).toMatchObject({ verdict: 'failed', hasFailures: true })
    await absent(10)
    const [, ...recoveries] = await payloads()
    expect(recoveries).toMatchObject([
      {
        type: 'alert.recovery',
        title: 'Shop has recovered (no agent in south)',
        unattended: [{ id: south, name: 'south' }],
        run: null,
      },
    ])
    expect(await incidents()).toMatchObject([{ lastUpdateStatus: 'RESOLVED' }])
    const { locations, ...rest } = await status(id)
    expect(rest).toMatchObject({ verdict: 'passed', hasFailures: false })
    const unattended = locations.map((one: Loose) => [one.verdict, one.unattended])
    expect(Object.fromEntries(unattended)).toEqual({ failed: true, passed: false })
    expect(await states()).toEqual([])
  })

  test('counts again once it has one', async () => {
    const id = await inBoth()
    await record(run(id, 1, 'failed', south))
    await record(run(id, 2, 'passed'))
    await absent(10)
    await setAbsence(db(), south, null)
    await record(run(id, 100_000, 'failed', south))
    expect(await types()).toEqual(['alert.failure', 'alert.recovery', 'alert.failure'])
    expect((await payloads())[2]).not.toHaveProperty('unattended')
  })

  test.each([
    ['the only one', false],
    ['the only one that reported', true],
  ])('ends no alert where it is %s, and nobody is reminded', async (_, hasOther) => {
    const alertSettings = { reminders: { amount: 5, interval: 5 } }
    const own = { useGlobalAlertSettings: false, alertSettings }
    const id = await monitor(own, hasOther ? [shop.location, south] : [south])
    await record(run(id, 1, 'failed', south))
    await absent(10)
    clock.nowMs = START + 60 * MINUTE
    await absent(10)
    expect(await types()).toEqual(['alert.failure'])
    expect(await states()).toHaveLength(1)
    expect(await status(id)).toMatchObject({ verdict: 'failed', hasFailures: true })
    if (!hasOther) await setAbsence(db(), south, null)
    await record(run(id, 61, 'passed', hasOther ? shop.location : south))
    expect(await types()).toEqual(['alert.failure', 'alert.recovery'])
  })
})
