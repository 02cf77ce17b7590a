// Aim: results become alerts and incidents exactly once, on every PostgreSQL, with any number of recording
// processes and any concurrent changes of incidents, services and monitors.
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { resultId } from '../../../src/platform/results/schema.ts'
import { addResult } from '../../support/platform/monitor-rows.ts'
import { INCIDENTS, MINUTE, SERVICES, START, useShop } from '../../support/platform/alerts/shop.ts'
import { DATABASE_SERVERS } from '../../support/database/database.ts'

const shop = useShop(DATABASE_SERVERS[0])
const { db, clock, addChannel, trigger, run, monitor, change, notify, record, runJobs } = shop
const { kinds, incidents, states, notifications } = shop

/** Monitors with a trigger. */
const monitors = (count: number) =>
  Promise.all(Array.from({ length: count }, (_, n) => monitor(trigger({ name: `outage ${n}` }))))

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
  const open = await incidents()
  expect(open).toMatchObject([
    {
      name: 'The shop is down',
      severity: 'MAJOR',
      services: [shop.service],
      lastUpdateStatus: 'INVESTIGATING',
      incidentUpdates: [{ description: 'We look into it.', status: 'INVESTIGATING' }],
    },
  ])
  await record(run(id, 2, 'failed'), run(id, 3, 'passed'))
  const resolved = { lastUpdateStatus: 'RESOLVED', incidentUpdates: [{}, {}] }
  expect(await incidents()).toMatchObject([resolved])
  expect(await states()).toEqual([])
  const incidentId = open[0].id
  const failure = {
    type: 'alert.failure',
    title: 'Shop is failing',
    monitor: { id, name: 'Shop', checkType: 'URL', tags: ['shop', 'web'], group: null },
    alert: { since: new Date(START + MINUTE).toISOString() },
    locations: [{ id: shop.location, name: 'north' }],
    run: {
      verdict: 'failed',
      failures: [{ code: 'CONNECT_REFUSED', message: 'the target refused' }],
    },
    incidentId,
    links: {
      monitor: `https://vedette.example.com/v1/checks/${id}`,
      incident: `https://vedette.example.com${INCIDENTS}/${incidentId}`,
    },
  }
  expect(await notifications()).toMatchObject([
    { kind: 'alert.failure', payload: failure },
    { kind: 'alert.recovery', payload: { run: { verdict: 'passed' }, incidentId } },
  ])
})

test.each(['errored', 'cancelled', 'missed'] as const)(
  '%s says nothing about the target: it neither opens, nor ends, nor breaks a row',
  async (verdict) => {
    const alertSettings = { runBasedEscalation: { failedRunThreshold: 2 } }
    const id = await monitor({ useGlobalAlertSettings: false, alertSettings, ...trigger() })
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

test('passed results cost one statement', async () => {
  const runs = Array.from({ length: 5 }, () => run(randomUUID(), 1, 'passed'))
  let statements = 0
  await notify({ query: async () => (statements++, []) }, runs)
  expect(statements).toBe(1)
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
  const id = await monitor({ useGlobalAlertSettings: false, alertSettings, ...trigger() })
  await record(run(id, 0, 'failed'))
  const kindsAt = async (minute: number) => {
    clock.nowMs = START + minute * MINUTE
    await Promise.all(Array.from({ length: 4 }, () => runJobs()))
    return kinds()
  }
  expect(await kindsAt(4)).toEqual([])
  expect(await kindsAt(5)).toEqual(['alert.failure'])
  expect(await incidents()).toHaveLength(1)
  expect(await kindsAt(14)).toEqual(['alert.failure'])
  await kindsAt(15)
  expect(await kindsAt(40)).toEqual(['alert.failure', 'alert.reminder'])
  const payload = { alert: { reminder: 1 }, run: { verdict: 'failed' } }
  expect((await notifications())[1]).toMatchObject({ payload })
})

test('many processes that record at once alert once', async () => {
  const ids = await monitors(3)
  const batches = Array.from({ length: 8 }, (_, n) =>
    ids.map((id) => run(id, n + 1, 'failed')).toSorted(() => Math.random() - 0.5),
  )
  await Promise.all(batches.map((batch) => record(...batch)))
  expect(await kinds()).toEqual(['alert.failure', 'alert.failure', 'alert.failure'])
  expect(await incidents()).toHaveLength(3)
  await Promise.all(ids.map((id) => record(run(id, 20, 'passed'))))
  expect(await states()).toEqual([])
  const all = (await incidents()).map(({ lastUpdateStatus }) => lastUpdateStatus)
  expect(all).toEqual(['RESOLVED', 'RESOLVED', 'RESOLVED'])
})

test('a passed run that another process recorded at the same moment is found soon after', async () => {
  const id = await monitor(trigger())
  await record(run(id, 1, 'failed'))
  // As if its process had read states before this one was committed.
  const slotMs = START + 2 * MINUTE
  const where = { id: shop.location, accountId: shop.accountId }
  await addResult(db(), where, { monitorId: id, slotMs, receivedMs: slotMs })
  clock.nowMs = START + 11_000
  await runJobs()
  expect(await kinds()).toEqual(['alert.failure', 'alert.recovery'])
})

test('an incident that a user resolved, edited or deleted is not changed', async () => {
  const ids = await monitors(3)
  for (const id of ids) await record(run(id, 1, 'failed'))
  const named = new Map((await incidents()).map((one) => [one.name, one.id as string]))
  const [first, second, third] = [0, 1, 2].map((n) => `${INCIDENTS}/${named.get(`outage ${n}`)}`)
  const body = { description: 'We fixed it.', status: 'RESOLVED' }
  await shop.client.call('POST', `${first}/incident-updates`, { body })
  const edited = { name: 'Renamed', severity: 'MINOR' }
  await shop.client.call('PATCH', `${second}`, { body: edited })
  await shop.client.call('DELETE', `${third}`)
  for (const id of ids) await record(run(id, 2, 'failed'), run(id, 3, 'passed'))
  const read = async (path = '') => await shop.client.get(path)
  expect((await read(first)).incidentUpdates).toHaveLength(2)
  expect(await read(second)).toMatchObject({ ...edited, lastUpdateStatus: 'RESOLVED' })
  expect(await incidents()).toHaveLength(2)
  const each = (kind: string) => Array(3).fill(kind)
  expect(await kinds()).toEqual([...each('alert.failure'), ...each('alert.recovery')])
})

const GONE = 'gone'

test.each([
  [GONE, {}],
  ['of another account', { serviceId: randomUUID() }],
  ['only a reference of a deployment', { serviceId: { ref: 'x' } }],
])('the alert is sent without an incident when the service is %s', async (what, fields) => {
  const id = await monitor(trigger(fields))
  if (what === GONE) await shop.client.call('DELETE', `${SERVICES}/${shop.service.id}`)
  await record(run(id, 1, 'failed'))
  expect([await incidents(), await kinds()]).toEqual([[], ['alert.failure']])
  expect(shop.lines.join('')).toContain('an alert opens no incident')
})

test('muted, nothing is sent and no incident opened; a recovery still resolves', async () => {
  const id = await monitor(trigger())
  await change(id, 'muted = true')
  await record(run(id, 1, 'failed'))
  expect([await kinds(), await incidents()]).toEqual([[], []])
  await change(id, 'muted = false')
  await record(run(id, 2, 'failed'))
  expect(await kinds()).toEqual(['alert.failure'])
  await change(id, 'muted = true')
  await record(run(id, 3, 'passed'))
  expect(await kinds()).toEqual(['alert.failure'])
  expect(await incidents()).toMatchObject([{ lastUpdateStatus: 'RESOLVED' }])
})

test.each(['activated = false', 'deleted_at = clock_timestamp()'])(
  'a monitor with %s ends its alert quietly and its incident with a sentence',
  async (end) => {
    const id = await monitor(trigger())
    await record(run(id, 1, 'failed'))
    await change(id, end)
    await runJobs()
    expect(await kinds()).toEqual(['alert.failure'])
    const description = expect.stringContaining('switched off or deleted')
    expect(await incidents()).toMatchObject([
      { lastUpdateStatus: 'RESOLVED', incidentUpdates: [{ description }, {}] },
    ])
    expect(await states()).toEqual([])
    await record(run(id, 2, 'failed'))
    expect(await states()).toEqual([])
  },
)

test('only the named channels are notified, of the event kinds that they subscribe to', async () => {
  const [one, other] = [await addChannel({ sendRecovery: false }), await addChannel()]
  const slow = await addChannel({ sendDegraded: true, sendFailure: false })
  const alertChannelSubscriptions = [one, other, slow].map(({ id }) => ({
    alertChannelId: id,
    activated: id !== other.id,
  }))
  const id = await monitor({ alertChannelSubscriptions })
  for (const [n, verdict] of (['degraded', 'failed', 'passed'] as const).entries()) {
    await record(run(id, n, verdict))
  }
  expect((await notifications()).map(({ kind, channel }) => [channel, kind])).toEqual([
    [slow.id, 'alert.degraded'],
    [one.id, 'alert.failure'],
    [slow.id, 'alert.recovery'],
  ])
})

test('a monitor whose only channel was deleted is reported through the default ones', async () => {
  const [first] = await shop.client.get('/v1/alert-channels')
  const channel = await addChannel()
  const alertChannelSubscriptions = [{ alertChannelId: channel.id, activated: true }]
  const id = await monitor({ alertChannelSubscriptions })
  await shop.client.call('DELETE', `/v1/alert-channels/${channel.id}`)
  await record(run(id, 1, 'failed'))
  expect(await notifications()).toMatchObject([{ channel: first.id }])
})

test('a channel may name monitors itself', async () => {
  const id = await monitor()
  const channel = await addChannel({ subscriptions: [{ checkId: id, activated: true }] })
  await record(run(id, 1, 'failed'))
  expect(await notifications()).toMatchObject([{ channel: channel.id }])
})

test('a failed recording rolls its notifications back', async () => {
  const id = await monitor(trigger())
  const recording = db().transaction(async (tx) => {
    await notify(tx, [run(id, 1, 'failed')])
    throw new Error('the disk is full')
  })
  await expect(recording).rejects.toThrow('the disk is full')
  expect([await kinds(), await incidents(), await states()]).toEqual([[], [], []])
})
