// Aim: one outage is one alert, in whichever order locations report it, on every PostgreSQL. A location without
// an agent neither keeps an alert open nor ends one that no other location can evaluate.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  createAlertedAccount,
  type AlertedAccount,
  type GivenRun,
} from '../../support/platform/alerts/alerted-account.ts'
import { DATABASE_SERVERS, useDatabase } from '../../support/database/database.ts'
import {
  addClient,
  startPublicApi,
  type ApiClient,
  type Loose,
  type PublicApi,
} from '../../support/platform/public-api.ts'

const MINUTE = 60_000
const START = Date.UTC(2026, 5, 1)
const INCIDENTS = '/v1/status-pages/incidents'
const SERVICES = '/v1/status-pages/services'

describe.each(DATABASE_SERVERS)('on $name', (server) => {
  const database = useDatabase(server)
  let api: PublicApi
  let client: ApiClient
  let account: AlertedAccount
  let location: string
  let service: { id: string }

  beforeAll(async () => {
    api = await startPublicApi(database().database, { defaultLimit: { limit: 1e8, windowS: 60 } })
  })
  afterAll(() => api.close())
  beforeEach(async () => {
    client = await addClient(api, database().database)
    const options = { publicUrl: 'https://vedette.example.com/' }
    account = await createAlertedAccount(database().database, client.accountId, options)
    account.clock.nowMs = START
    location = await account.addLocation()
    service = (await client.call('POST', SERVICES, { body: { name: 'Shop' } })).body
    await addChannel({ autoSubscribe: true })
  })

  const addChannel = async (fields: object = {}): Promise<{ id: number }> => {
    const config = { name: 'on call', url: 'http://127.0.0.1:1/' }
    const body = { type: 'WEBHOOK', config, ...fields }
    return (await client.call('POST', '/v1/alert-channels', { body })).body
  }
  const trigger = (fields: object = {}) => ({
    triggerIncident: {
      serviceId: service.id,
      severity: 'MAJOR',
      name: 'The shop is down',
      description: 'We look into it.',
      notifySubscribers: false,
      ...fields,
    },
  })
  const run = (monitorId: string, minute: number, verdict: GivenRun['verdict']): GivenRun => ({
    monitorId,
    locationId: location,
    slot: START + minute * MINUTE,
    verdict,
    ...(verdict === 'failed' && {
      failures: [{ code: 'CONNECT_REFUSED', message: 'the target refused' }],
    }),
  })
  const kinds = async () => (await account.notifications()).map(({ kind }) => kind)
  const incidents = async (): Promise<Loose[]> => (await client.call('GET', INCIDENTS)).body.entries
  const states = () =>
    database().database.query('select * from alert_states where account_id = $1', [
      account.accountId,
    ])

  test('locations that deliver the same outage in turn make one alert of it', async () => {
    const other = await account.addLocation('south')
    const id = await account.addMonitor([location, other], trigger())
    const past = (locationId: string, ...verdicts: GivenRun['verdict'][]) =>
      verdicts.map((verdict, n) => ({ ...run(id, n + 1, verdict), locationId }))
    await account.record(...past(location, 'failed', 'failed', 'passed'))
    expect(await states()).toEqual([])
    await account.record(...past(other, 'failed', 'failed', 'failed', 'passed'))
    expect([await kinds(), await states()]).toEqual([['alert.failure', 'alert.recovery'], []])
    expect(await incidents()).toHaveLength(1)
    await account.record(run(id, 4, 'failed'))
    expect(await kinds()).toEqual(['alert.failure', 'alert.recovery', 'alert.failure'])
  })

  test('locations that deliver it at the same moment do so too', async () => {
    const other = await account.addLocation('south')
    const ids = await Promise.all(
      Array.from({ length: 10 }, () => account.addMonitor([location, other])),
    )
    const past = (monitorId: string, locationId: string) =>
      (['failed', 'failed', 'passed'] as const).map((verdict, n) => ({
        ...run(monitorId, n + 1, verdict),
        locationId,
      }))
    await Promise.all(
      ids.flatMap((id) => [location, other].map((where) => account.record(...past(id, where)))),
    )
    const each = (kind: string) => Array(ids.length).fill(kind)
    expect((await kinds()).toSorted()).toEqual([
      ...each('alert.failure'),
      ...each('alert.recovery'),
    ])
  })

  test('a notification knows when it happened, not only when it was decided', async () => {
    const id = await account.addMonitor([location])
    account.clock.nowMs = START + 5 * MINUTE
    await account.record(run(id, 3, 'failed'), run(id, 4, 'passed'))
    const rows = await database().database.query<{ at: Date }>(
      'select happened_at as at from alert_notifications where account_id = $1 order by seq',
      [account.accountId],
    )
    expect(rows.map(({ at }) => at.getTime() - START)).toEqual([3 * MINUTE + 12, 4 * MINUTE + 12])
  })

  describe('a location without an agent', () => {
    let south: string
    beforeEach(async () => {
      south = await account.addLocation('south')
    })
    const absent = (id: string, minutes: number | null) =>
      database().database.query(
        `update private_locations
         set absent_since = clock_timestamp() - make_interval(mins => $2::int) where id = $1`,
        [id, minutes],
      )
    const payloads = async () =>
      (await account.notifications())
        .map(({ payload }) => payload)
        .filter(({ type }) => type.startsWith('alert.'))
    const status = async (id: string): Promise<Loose> =>
      (await client.call('GET', `/v1/check-statuses/${id}`)).body
    /** Runs the jobs twice: for the notices, and for their consequences. */
    const pass = async () => {
      await account.runBackgroundJobs()
      await account.runBackgroundJobs()
    }

    test('no longer keeps an alert open once that is reported', async () => {
      const id = await account.addMonitor([location, south], trigger())
      await account.record({ ...run(id, 1, 'failed'), locationId: south })
      await account.record(run(id, 2, 'passed'))
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
      const id = await account.addMonitor([location, south])
      await account.record({ ...run(id, 1, 'failed'), locationId: south })
      await account.record(run(id, 2, 'passed'))
      await absent(south, 10)
      await pass()
      await absent(south, null)
      await account.record({ ...run(id, 100_000, 'failed'), locationId: south })
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
      const id = await account.addMonitor(hasOther ? [location, south] : [south], own)
      await account.record({ ...run(id, 1, 'failed'), locationId: south })
      await absent(south, 10)
      await pass()
      account.clock.nowMs = START + 60 * MINUTE
      await pass()
      expect(await payloads()).toHaveLength(1)
      expect(await states()).toHaveLength(1)
      expect(await status(id)).toMatchObject({ verdict: 'failed', hasFailures: true })
      const back = hasOther ? location : south
      if (!hasOther) await absent(south, null)
      await account.record({ ...run(id, 61, 'passed'), locationId: back })
      expect((await payloads()).map(({ type }) => type)).toEqual([
        'alert.failure',
        'alert.recovery',
      ])
    })
  })
})
