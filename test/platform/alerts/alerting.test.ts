// Aim: results become alerts and incidents exactly once, on every PostgreSQL, with any number of recording
// processes and any concurrent changes of incidents, services and monitors.
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import type { Queryable } from '../../../src/database/database.ts'
import { resultId } from '../../../src/platform/results/schema.ts'
import type { GivenRun } from '../../support/platform/alerts/alerted-account.ts'
import { INCIDENTS, MINUTE, SERVICES, START, useShop } from '../../support/platform/alerts/shop.ts'
import { DATABASE_SERVERS } from '../../support/database/database.ts'

const shop = useShop(DATABASE_SERVERS[0])
const {
  addChannel,
  trigger,
  run,
  kinds,
  incidents,
  states,
  monitor,
  record,
  notifications,
  runJobs,
} = shop

test('a listed notification names the result that it reports', async () => {
  const id = await monitor()
  await record(run(id, 1, 'failed'))
  const { body } = await shop.client.call('GET', '/v1/alert-notifications')
  const slotMs = START + MINUTE
  const checkResultId = resultId({ locationId: shop.location, monitorId: id, slotMs })
  expect(body).toMatchObject([{ checkId: id, checkType: 'URL', checkResultId }])
})

test('a failure opens an incident and a recovery resolves it, and each is reported once', async () => {
  const id = await monitor(trigger())
  await record(run(id, 1, 'failed'))
  const [open, ...none] = await incidents()
  expect(none).toEqual([])
  expect(open).toMatchObject({
    name: 'The shop is down',
    severity: 'MAJOR',
    services: [shop.service],
    lastUpdateStatus: 'INVESTIGATING',
    incidentUpdates: [{ description: 'We look into it.', status: 'INVESTIGATING' }],
  })
  await record(run(id, 2, 'failed'), run(id, 3, 'passed'))
  const [resolved] = await incidents()
  expect(resolved.lastUpdateStatus).toBe('RESOLVED')
  expect(resolved.incidentUpdates).toHaveLength(2)
  expect(await kinds()).toEqual(['alert.failure', 'alert.recovery'])
  expect(await states()).toEqual([])
  const [failure, recovery] = await notifications()
  expect(failure?.payload).toMatchObject({
    type: 'alert.failure',
    title: 'Shop is failing',
    monitor: { id, name: 'Shop', checkType: 'URL', tags: ['shop', 'web'], group: null },
    alert: { since: new Date(START + MINUTE).toISOString() },
    locations: [{ id: shop.location, name: 'north' }],
    run: {
      verdict: 'failed',
      failures: [{ code: 'CONNECT_REFUSED', message: 'the target refused' }],
    },
    incidentId: open.id,
    links: {
      monitor: `https://vedette.example.com/v1/checks/${id}`,
      incident: `https://vedette.example.com${INCIDENTS}/${open.id}`,
    },
  })
  expect(recovery?.payload).toMatchObject({ run: { verdict: 'passed' }, incidentId: open.id })
})

test.each(['errored', 'cancelled', 'missed'] as const)(
  '%s says nothing about the target: it neither opens, nor ends, nor breaks a row',
  async (verdict) => {
    const alertSettings = { runBasedEscalation: { failedRunThreshold: 2 } }
    const own = { useGlobalAlertSettings: false, alertSettings, ...trigger() }
    const id = await monitor(own)
    await record(run(id, 1, verdict), run(id, 2, verdict))
    expect(await states()).toEqual([])
    await record(run(id, 3, 'failed'), run(id, 4, verdict), run(id, 5, 'failed'))
    expect(await kinds()).toEqual(['alert.failure'])
    await record(run(id, 6, verdict))
    expect(await incidents()).toMatchObject([{ lastUpdateStatus: 'INVESTIGATING' }])
  },
)

test('late results, runs on demand and slots older than a recorded one do not change alerts', async () => {
  const id = await monitor(trigger())
  await record({ ...run(id, 1, 'failed'), late: true })
  await record({ ...run(id, 2, 'failed'), onDemand: randomUUID() })
  await record(run(id, 5, 'passed'))
  await record(run(id, 4, 'failed'))
  expect(await kinds()).toEqual([])
  await record(run(id, 6, 'failed'))
  expect(await kinds()).toEqual(['alert.failure'])
})

/** Passes results to alerting within a transaction, without recording them. */
const notify = (tx: Queryable, runs: GivenRun[]) =>
  shop.account.alerting.onRecorded(tx, {
    accountId: shop.account.accountId,
    locationId: shop.location,
    agentId: randomUUID(),
    results: runs.map((one) => {
      const result = { ...one, startedAt: START, durationMs: 1, attempts: 1 }
      return { late: false, result }
    }),
  })

test('passed results cost one statement', async () => {
  const ids = await Promise.all(Array.from({ length: 5 }, () => monitor()))
  const statements: unknown[] = []
  const query = async (text: unknown) => (statements.push(text), [])
  await notify(
    { query },
    ids.map((id) => run(id, 1, 'passed')),
  )
  expect(statements).toHaveLength(1)
})

test('the settings of the account apply to monitors without their own', async () => {
  const settings = { runBasedEscalation: { failedRunThreshold: 3 } }
  const put = await shop.client.call('PUT', '/v1/alert-settings', { body: settings })
  expect(put.body).toMatchObject({ ...settings, reminders: { amount: 0, interval: 5 } })
  const id = await monitor()
  await record(run(id, 1, 'failed'), run(id, 2, 'failed'))
  expect(await kinds()).toEqual([])
  await record(run(id, 3, 'failed'))
  expect(await kinds()).toEqual(['alert.failure'])
})

test('time alone escalates and reminds, once for any number of processes', async () => {
  const alertSettings = {
    escalationType: 'TIME_BASED',
    timeBasedEscalation: { minutesFailingThreshold: 5 },
    reminders: { amount: 1, interval: 10 },
  }
  const own = { useGlobalAlertSettings: false, alertSettings, ...trigger() }
  const id = await monitor(own)
  const everybody = async (minute: number) => {
    shop.account.clock.nowMs = START + minute * MINUTE
    await Promise.all(Array.from({ length: 4 }, () => runJobs()))
  }
  await record(run(id, 0, 'failed'))
  await everybody(4)
  expect(await kinds()).toEqual([])
  await everybody(5)
  expect(await kinds()).toEqual(['alert.failure'])
  expect(await incidents()).toHaveLength(1)
  await everybody(14)
  await everybody(15)
  await everybody(40)
  expect(await kinds()).toEqual(['alert.failure', 'alert.reminder'])
  const [, reminder] = await notifications()
  expect(reminder?.payload).toMatchObject({ alert: { reminder: 1 }, run: { verdict: 'failed' } })
})

test('many processes that record at once alert once', async () => {
  const ids = await Promise.all(Array.from({ length: 3 }, () => monitor(trigger())))
  const batches = Array.from({ length: 8 }, (_, n) =>
    ids.map((id) => run(id, n + 1, 'failed')).toSorted(() => Math.random() - 0.5),
  )
  await Promise.all(batches.map((batch) => record(...batch)))
  expect(await kinds()).toEqual(['alert.failure', 'alert.failure', 'alert.failure'])
  expect(await incidents()).toHaveLength(3)
  await Promise.all(ids.map((id) => record(run(id, 20, 'passed'))))
  expect(await states()).toEqual([])
  const all = await incidents()
  expect(all.map(({ lastUpdateStatus }) => lastUpdateStatus)).toEqual(Array(3).fill('RESOLVED'))
})

test('a passed run that another process recorded at the same moment is found soon after', async () => {
  const id = await monitor(trigger())
  await record(run(id, 1, 'failed'))
  // As if its process had read states before this one was committed.
  await shop.database().database.query(
    `insert into results (location_id, monitor_id, slot, account_id, verdict, started_at,
       duration_ms, attempts, received_at)
     values ($1, $2, $3, $4, 'passed', $3, 12, 1, $3)`,
    [shop.location, id, new Date(START + 2 * MINUTE), shop.account.accountId],
  )
  shop.account.clock.nowMs = START + 11_000
  await runJobs()
  expect(await kinds()).toEqual(['alert.failure', 'alert.recovery'])
})

test('an incident that a user resolved, edited or deleted is not changed', async () => {
  const ids = await Promise.all(
    Array.from({ length: 3 }, (_, n) => monitor(trigger({ name: `outage ${n}` }))),
  )
  for (const id of ids) await record(run(id, 1, 'failed'))
  const named = new Map((await incidents()).map((one) => [one.name, one.id as string]))
  const of = (n: number) => `${INCIDENTS}/${named.get(`outage ${n}`)}`
  const resolve = { description: 'We fixed it.', status: 'RESOLVED' }
  await shop.client.call('POST', `${of(0)}/incident-updates`, { body: resolve })
  await shop.client.call('PATCH', of(1), { body: { name: 'Renamed', severity: 'MINOR' } })
  await shop.client.call('DELETE', of(2))
  for (const id of ids) await record(run(id, 2, 'failed'), run(id, 3, 'passed'))
  const [first, second] = [
    await shop.client.call('GET', of(0)),
    await shop.client.call('GET', of(1)),
  ]
  expect(first.body.incidentUpdates).toHaveLength(2)
  expect(second.body).toMatchObject({
    name: 'Renamed',
    severity: 'MINOR',
    lastUpdateStatus: 'RESOLVED',
  })
  expect(await incidents()).toHaveLength(2)
  expect(await kinds()).toEqual([
    ...Array(3).fill('alert.failure'),
    ...Array(3).fill('alert.recovery'),
  ])
})

test.each([
  [
    'gone',
    async () => void (await shop.client.call('DELETE', `${SERVICES}/${shop.service.id}`)),
    {},
  ],
  ['of another account', async () => undefined, { serviceId: randomUUID() }],
  ['only a reference of a deployment', async () => undefined, { serviceId: { ref: 'x' } }],
])('the alert is sent without an incident when the service is %s', async (_, prepare, fields) => {
  const id = await monitor(trigger(fields))
  await prepare()
  await record(run(id, 1, 'failed'))
  expect(await incidents()).toEqual([])
  expect(await kinds()).toEqual(['alert.failure'])
  expect(shop.account.lines.join('')).toContain('an alert opens no incident')
})

test('muted, nothing is sent and no incident opened; a recovery still resolves', async () => {
  const id = await monitor(trigger())
  await shop.account.setMonitor(id, { muted: true })
  await record(run(id, 1, 'failed'))
  expect([await kinds(), await incidents()]).toEqual([[], []])
  await shop.account.setMonitor(id, { muted: false })
  await record(run(id, 2, 'failed'))
  expect(await kinds()).toEqual(['alert.failure'])
  await shop.account.setMonitor(id, { muted: true })
  await record(run(id, 3, 'passed'))
  expect(await kinds()).toEqual(['alert.failure'])
  expect(await incidents()).toMatchObject([{ lastUpdateStatus: 'RESOLVED' }])
})

test.each(['activated = false', 'deleted_at = clock_timestamp()'])(
  'a monitor with %s ends its alert quietly and its incident with a sentence',
  async (change) => {
    const id = await monitor(trigger())
    await record(run(id, 1, 'failed'))
    await shop.database().database.query(`update monitors set ${change} where id = $1`, [id])
    await runJobs()
    expect(await kinds()).toEqual(['alert.failure'])
    const [incident] = await incidents()
    expect(incident.lastUpdateStatus).toBe('RESOLVED')
    expect(incident.incidentUpdates[0].description).toContain('switched off or deleted')
    expect(await states()).toEqual([])
    await record(run(id, 2, 'failed'))
    expect(await states()).toEqual([])
  },
)

test('only the named channels are notified, of the event kinds that they subscribe to', async () => {
  const [one, other] = [await addChannel({ sendRecovery: false }), await addChannel()]
  const slow = await addChannel({ sendDegraded: true, sendFailure: false })
  const subscribed = [one, other, slow].map(({ id }) => ({
    alertChannelId: id,
    activated: id !== other.id,
  }))
  const id = await monitor({
    alertChannelSubscriptions: subscribed,
  })
  await record(run(id, 1, 'degraded'))
  await record(run(id, 2, 'failed'))
  await record(run(id, 3, 'passed'))
  const notified = (await notifications()).map(({ kind, channel }) => [channel, kind])
  expect(notified).toEqual([
    [slow.id, 'alert.degraded'],
    [one.id, 'alert.failure'],
    [slow.id, 'alert.recovery'],
  ])
})

test('a monitor whose only channel was deleted is reported through the default ones', async () => {
  const [first] = (await shop.client.call('GET', '/v1/alert-channels')).body
  const channel = await addChannel()
  const alertChannelSubscriptions = [{ alertChannelId: channel.id, activated: true }]
  const id = await monitor({ alertChannelSubscriptions })
  await shop.client.call('DELETE', `/v1/alert-channels/${channel.id}`)
  await record(run(id, 1, 'failed'))
  expect(await notifications()).toMatchObject([{ channel: first.id }])
})

test('a channel may name monitors itself', async () => {
  const id = await monitor()
  const subscriptions = [{ checkId: id, activated: true }]
  const channel = await addChannel({ subscriptions })
  await record(run(id, 1, 'failed'))
  expect(await notifications()).toMatchObject([{ channel: channel.id }])
})

test('a failed recording rolls its notifications back', async () => {
  const id = await monitor(trigger())
  const recording = shop.database().database.transaction(async (tx) => {
    await notify(tx, [run(id, 1, 'failed')])
    throw new Error('the disk is full')
  })
  await expect(recording).rejects.toThrow('the disk is full')
  expect([await kinds(), await incidents(), await states()]).toEqual([[], [], []])
})
