// Aim: an update of an incident is notified once, when it is posted. A location without agents is notified once,
// and once more when it has an agent again; likewise a location whose network is lost.
import { randomUUID } from 'node:crypto'
import { beforeEach, describe, expect, test } from 'vitest'
import {
  createAlertedAccount,
  type AlertedAccount,
} from '../../support/platform/alerts/alerted-account.ts'
import { useDatabase } from '../../support/database/database.ts'
import { servePublicApi, type ApiClient } from '../../support/platform/public-api.ts'

const INCIDENTS = '/v1/status-pages/incidents'
const database = useDatabase()
const { addClient } = servePublicApi(database, () => ({ publicUrl: 'https://vedette.example.com' }))
let client: ApiClient
let account: AlertedAccount
let service: { id: string }

beforeEach(async () => {
  client = await addClient()
  account = await createAlertedAccount(database().database, client.accountId)
  service = (await client.call('POST', '/v1/status-pages/services', { body: { name: 'Shop' } }))
    .body
  await addChannel({})
  await addChannel({ sendNotices: false })
})

const addChannel = (fields: object) =>
  client.call('POST', '/v1/alert-channels', {
    body: { type: 'WEBHOOK', config: { url: 'http://127.0.0.1:1/' }, ...fields },
  })
const open = async (update: object) =>
  (
    await client.call('POST', INCIDENTS, {
      body: {
        name: 'The shop is down',
        severity: 'MAJOR',
        services: [service],
        incidentUpdates: [{ description: 'We look.', status: 'INVESTIGATING', ...update }],
      },
    })
  ).body
const payloads = async () => (await account.notifications()).map(({ payload }) => payload)

test('the first update of an incident is sent to channels with sendNotices', async () => {
  const incident = await open({ notifySubscribers: true })
  expect(await payloads()).toMatchObject([
    {
      type: 'incident.update',
      title: 'The shop is down: investigating',
      incident: {
        id: incident.id,
        severity: 'MAJOR',
        status: 'INVESTIGATING',
        services: [{ id: service.id, name: 'Shop' }],
      },
      update: { id: incident.incidentUpdates[0].id, description: 'We look.' },
      links: { incident: `https://vedette.example.com${INCIDENTS}/${incident.id}` },
    },
  ])
})

test('without notifySubscribers nothing is sent', async () => {
  const incident = await open({})
  const path = `${INCIDENTS}/${incident.id}/incident-updates`
  await client.call('POST', path, { body: { description: 'Still looking.' } })
  expect(await payloads()).toEqual([])
})

test('a paused channel receives nothing', async () => {
  const { accountId } = client
  const pause = 'update alert_channels set paused_at = now() where account_id = $1'
  await database().database.query(pause, [accountId])
  await open({ notifySubscribers: true })
  expect(await payloads()).toEqual([])
})

test('an update is sent when it is posted, and not when it is edited', async () => {
  const incident = await open({})
  const path = `${INCIDENTS}/${incident.id}/incident-updates`
  const update = { description: 'Fixed.', status: 'RESOLVED', notifySubscribers: true }
  const posted = (await client.call('POST', path, { body: update })).body
  await client.call('PUT', `${path}/${posted.id}`, {
    body: { ...update, description: 'All well.' },
  })
  await client.call('PATCH', `${INCIDENTS}/${incident.id}`, { body: { name: 'Renamed' } })
  expect(await payloads()).toMatchObject([
    { title: 'The shop is down: resolved', update: { description: 'Fixed.', status: 'RESOLVED' } },
  ])
})

test('the incident of an alert notifies subscribers when it opens and when it is resolved', async () => {
  const location = await account.addLocation()
  const triggerIncident = {
    serviceId: service.id,
    severity: 'MINOR',
    name: 'Down',
    description: 'We look.',
    notifySubscribers: true,
  }
  const monitorId = await account.addMonitor([location], { triggerIncident })
  const slot = Date.now() - 60_000
  const run = { monitorId, locationId: location }
  await account.record({ ...run, slot, verdict: 'failed' })
  await account.record({ ...run, slot: slot + 10_000, verdict: 'passed' })
  expect(await payloads()).toMatchObject([
    { type: 'incident.update', title: 'Down: investigating' },
    { type: 'incident.update', title: 'Down: resolved' },
  ])
})

const absent = (location: string, minutes: number | null) =>
  database().database.query(
    `update private_locations
     set absent_since = clock_timestamp() - make_interval(mins => $2::int) where id = $1`,
    [location, minutes],
  )

test('a location without any agent ever is reported once, after ten minutes', async () => {
  const location = await account.addLocation('Berlin')
  await absent(location, 9)
  await account.runBackgroundJobs()
  expect(await payloads()).toEqual([])
  await absent(location, 10)
  await Promise.all([1, 2, 3].map(() => account.runBackgroundJobs()))
  await account.runBackgroundJobs()
  expect(await payloads()).toMatchObject([
    {
      type: 'location.unattended',
      absence: 'never-reported',
      location: { id: location, name: 'Berlin' },
      lastSeenAt: null,
    },
  ])
})

test('a location whose agent timed out is distinguished, and reported again when an agent is back', async () => {
  const location = await account.addLocation('Berlin')
  await database().database.query(
    `insert into agents (id, location_id, instance, version, image, abilities, state, last_seen_at)
     values ($1, $2, $1, '8.4.0', 'agent', '{}', 'lost', '2026-06-01T00:00:00Z')`,
    [randomUUID(), location],
  )
  await absent(location, 11)
  await account.runBackgroundJobs()
  await absent(location, null)
  await account.runBackgroundJobs()
  await account.runBackgroundJobs()
  await absent(location, 5)
  await account.runBackgroundJobs()
  const [gone, back, ...more] = await payloads()
  expect(gone).toMatchObject({
    type: 'location.unattended',
    absence: 'stopped-reporting',
    lastSeenAt: '2026-06-01T00:00:00.000Z',
  })
  expect(back).toMatchObject({ type: 'location.attended', since: null })
  expect(back).not.toHaveProperty('absence')
  expect(more).toEqual([])
})

describe('an agent that reports that its own network does not work', () => {
  const addAgent = async (locationId: string): Promise<string> => {
    const id = randomUUID()
    await database().database.query(
      `insert into agents (id, location_id, instance, version, image, abilities, state)
       values ($1, $2, $1, '8.4.0', 'agent', '{}', 'live')`,
      [id, locationId],
    )
    return id
  }
  const report = (agent: string, problem: string | null, secondsAgo = 60) =>
    database().database.query(
      `update agents set network_problem = $2, network_problem_since = case when $2::text is not null
         then clock_timestamp() - make_interval(secs => $3::int) end where id = $1`,
      [agent, problem, secondsAgo],
    )

  test('is reported after half a minute, once for the location, and when it works again', async () => {
    const location = await account.addLocation('Berlin')
    const agent = await addAgent(location)
    await report(agent, 'RESOLVER_UNREACHABLE', 20)
    await account.runBackgroundJobs()
    expect(await payloads()).toEqual([])
    await report(agent, 'RESOLVER_UNREACHABLE', 31)
    await Promise.all([1, 2, 3].map(() => account.runBackgroundJobs()))
    await account.runBackgroundJobs()
    expect(await payloads()).toMatchObject([
      {
        type: 'location.network-unreachable',
        location: { id: location, name: 'Berlin' },
        agents: [{ id: agent, problem: 'RESOLVER_UNREACHABLE' }],
      },
    ])
    await report(agent, null)
    await account.runBackgroundJobs()
    await account.runBackgroundJobs()
    const [, back, ...more] = await payloads()
    expect(back).toMatchObject({ type: 'location.network-reachable', location: { id: location } })
    expect(back).not.toHaveProperty('agents')
    expect(more).toEqual([])
  })

  test('leaves the location reported while one of several agents reports it, or no agent is live', async () => {
    const location = await account.addLocation('Berlin')
    const [one, two] = [await addAgent(location), await addAgent(location)]
    await report(one, 'NETWORK_UNREACHABLE')
    await report(two, 'RESOLVER_UNREACHABLE')
    await account.runBackgroundJobs()
    await report(one, null)
    await account.runBackgroundJobs()
    await database().database.query(`update agents set state = 'lost' where location_id = $1`, [
      location,
    ])
    await account.runBackgroundJobs()
    expect(await payloads()).toHaveLength(1)
    // The other agent is live again and has a network.
    await database().database.query(`update agents set state = 'live' where id = $1`, [one])
    await account.runBackgroundJobs()
    expect((await payloads()).map(({ type }) => type)).toEqual([
      'location.network-unreachable',
      'location.network-reachable',
    ])
  })

  test('is not reported once it is lost: its absence is reported instead', async () => {
    const agent = await addAgent(await account.addLocation('Berlin'))
    await report(agent, 'NETWORK_UNREACHABLE')
    await database().database.query(`update agents set state = 'lost' where id = $1`, [agent])
    await account.runBackgroundJobs()
    expect(await payloads()).toEqual([])
  })
})
