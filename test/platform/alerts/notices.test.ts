// Aim: an update of an incident is notified once, when it is posted. A location without agents is notified once,
// and once more when it has an agent again; likewise a location whose network is lost.
import { beforeEach, describe, expect, test } from 'vitest'
import { INCIDENTS, useShop } from '../../support/platform/alerts/shop.ts'
import { setAbsence } from '../../support/platform/locations.ts'
import { addAgent } from '../../support/platform/monitor-rows.ts'

const shop = useShop()
const { db, monitor, trigger, record, run, runJobs, notifications } = shop
beforeEach(() => shop.addChannel({ sendNotices: false }))

const update = (fields: object) => ({ description: 'We look.', status: 'INVESTIGATING', ...fields })
const open = async (first: object) => {
  const services = [shop.service]
  const incidentUpdates = [update(first)]
  const body = { name: 'The shop is down', severity: 'MAJOR', services, incidentUpdates }
  return (await shop.client.call('POST', INCIDENTS, { body })).body
}
const payloads = async () => (await notifications()).map(({ payload }) => payload)
const types = async () => (await payloads()).map(({ type }) => type)

test('the first update of an incident is sent to channels with sendNotices', async () => {
  const { id, incidentUpdates } = await open({ notifySubscribers: true })
  expect(await payloads()).toMatchObject([
    {
      type: 'incident.update',
      title: 'The shop is down: investigating',
      incident: {
        id,
        severity: 'MAJOR',
        status: 'INVESTIGATING',
        services: [{ id: shop.service.id, name: 'Shop' }],
      },
      update: { id: incidentUpdates[0].id, description: 'We look.' },
      links: { incident: `https://vedette.example.com${INCIDENTS}/${id}` },
    },
  ])
})

test('a paused channel receives nothing', async () => {
  const pause = 'update alert_channels set paused_at = now() where account_id = $1'
  await db().query(pause, [shop.accountId])
  await open({ notifySubscribers: true })
  expect(await payloads()).toEqual([])
})

test('an update is sent when it is posted with notifySubscribers, and not when it is edited', async () => {
  const path = `${INCIDENTS}/${(await open({})).id}`
  const updates = `${path}/incident-updates`
  await shop.client.call('POST', updates, { body: { description: 'Still looking.' } })
  expect(await payloads()).toEqual([])
  const body = { description: 'Fixed.', status: 'RESOLVED', notifySubscribers: true }
  const { id } = (await shop.client.call('POST', updates, { body })).body
  await shop.client.call('PUT', `${updates}/${id}`, { body: { ...body, description: 'Well.' } })
  await shop.client.call('PATCH', path, { body: { name: 'Renamed' } })
  expect(await payloads()).toMatchObject([
    { title: 'The shop is down: resolved', update: { description: 'Fixed.', status: 'RESOLVED' } },
  ])
})

test('the incident of an alert notifies subscribers when it opens and when it is resolved', async () => {
  const id = await monitor(trigger({ notifySubscribers: true }))
  await record(run(id, 1, 'failed'))
  await record(run(id, 2, 'passed'))
  const updates = (await payloads()).filter(({ type }) => type === 'incident.update')
  expect(updates.map(({ title }) => title)).toEqual([
    'The shop is down: investigating',
    'The shop is down: resolved',
  ])
})

/** Several processes run the jobs at once, and one of them again. */
const runAll = async () => {
  await Promise.all([1, 2, 3].map(() => runJobs()))
  await runJobs()
}

test('a location without any agent ever is reported once, after ten minutes', async () => {
  const id = shop.location
  await setAbsence(db(), id, 9)
  await runJobs()
  expect(await payloads()).toEqual([])
  await setAbsence(db(), id, 10)
  await runAll()
  const location = { id, name: 'north' }
  expect(await payloads()).toMatchObject([
    { type: 'location.unattended', absence: 'never-reported', location, lastSeenAt: null },
  ])
})

test('a location whose agent timed out is distinguished, and reported again when an agent is back', async () => {
  const lastSeenMs = Date.UTC(2026, 5, 1)
  await addAgent(db(), shop.location, { state: 'lost', lastSeenMs })
  for (const minutes of [11, null, null, 5]) {
    await setAbsence(db(), shop.location, minutes)
    await runJobs()
  }
  const all = await payloads()
  expect(all).toMatchObject([
    { absence: 'stopped-reporting', lastSeenAt: new Date(lastSeenMs).toISOString() },
    { type: 'location.attended', since: null },
  ])
  expect(all[1]).not.toHaveProperty('absence')
})

describe('an agent that reports that its own network does not work', () => {
  const report = async (id: string, problem: string | null, secondsAgo = 60) => {
    await db().query(
      `update agents set network_problem = $2, network_problem_since = case when $2::text is not null
         then clock_timestamp() - make_interval(secs => $3::int) end where id = $1`,
      [id, problem, secondsAgo],
    )
    await runAll()
  }
  const setState = (id: string, state: string) =>
    db().query('update agents set state = $2 where id = $1', [id, state])

  test('is reported after half a minute, once for the location, and when it works again', async () => {
    const agent = await addAgent(db(), shop.location)
    await report(agent, 'RESOLVER_UNREACHABLE', 20)
    expect(await payloads()).toEqual([])
    await report(agent, 'RESOLVER_UNREACHABLE', 31)
    const location = { id: shop.location, name: 'north' }
    const lost = {
      type: 'location.network-unreachable',
      location,
      agents: [{ id: agent, problem: 'RESOLVER_UNREACHABLE' }],
    }
    expect(await payloads()).toMatchObject([lost])
    await report(agent, null)
    const all = await payloads()
    expect(all).toMatchObject([lost, { type: 'location.network-reachable', location }])
    expect(all[1]).not.toHaveProperty('agents')
  })

  test('leaves the location reported while one of several agents reports it, or no agent is live', async () => {
    const [one, two] = [await addAgent(db(), shop.location), await addAgent(db(), shop.location)]
    await report(one, 'NETWORK_UNREACHABLE')
    await report(two, 'RESOLVER_UNREACHABLE')
    await report(one, null)
    for (const id of [one, two]) await setState(id, 'lost')
    await runJobs()
    expect(await types()).toEqual(['location.network-unreachable'])
    // The other agent is live again and has a network.
    await setState(one, 'live')
    await runJobs()
    expect(await types()).toEqual(['location.network-unreachable', 'location.network-reachable'])
  })

  test('is not reported once it is lost: its absence is reported instead', async () => {
    const agent = await addAgent(db(), shop.location, { state: 'lost' })
    await report(agent, 'NETWORK_UNREACHABLE')
    expect(await payloads()).toEqual([])
  })
})
