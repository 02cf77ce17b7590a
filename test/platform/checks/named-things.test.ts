// Aim: services and alert channels that monitors and groups newly name must exist in their own account.
import { randomUUID } from 'node:crypto'
import { beforeEach, expect, test } from 'vitest'
import { makeLocation } from '../../support/platform/named-locations.ts'
import { type ApiClient, type Loose, servePublicApi } from '../../support/platform/public-api.ts'
import { useDatabase } from '../../support/database/database.ts'

const { addClient } = servePublicApi(useDatabase())
const NOBODY = randomUUID()
const NO_CHANNEL = 123_456_789
let client: ApiClient
let serviceId: string
let channelId: number

const things = async (of: ApiClient) => {
  const service = await of.call('POST', '/v1/status-pages/services', { body: { name: 'Shop' } })
  const config = { name: 'on call', url: 'http://127.0.0.1:1/' }
  const channel = await of.call('POST', '/v1/alert-channels', { body: { type: 'WEBHOOK', config } })
  return { service: service.body.id as string, channel: channel.body.id as number }
}
const incident = { severity: 'MAJOR', name: 'Down', description: 'Down', notifySubscribers: false }
const trigger = (id: string) => ({ triggerIncident: { serviceId: id, ...incident } })
const subscribed = (...ids: number[]) => ({
  alertChannelSubscriptions: ids.map((alertChannelId) => ({ alertChannelId, activated: true })),
})
const SHOP = { name: 'Shop', privateLocations: ['north'], request: { url: 'https://example.org/' } }
const check = (more: object = {}) => ({ ...SHOP, ...more })

beforeEach(async () => {
  client = await addClient()
  await makeLocation(client, 'north')
  ;({ service: serviceId, channel: channelId } = await things(client))
})

const ofAnother = async () => things(await addClient())
const SERVICE = 'triggerIncident.serviceId'
const CHANNEL = 'alertChannelSubscriptions.1.alertChannelId'

async function foreignChannel() {
  return subscribed(channelId, (await ofAnother()).channel)
}

/** The reference, and the path of its problem. */
const cases: [string, string, () => Promise<object>][] = [
  ['a service that is not there', SERVICE, async () => trigger(NOBODY)],
  ['a service of another account', SERVICE, async () => trigger((await ofAnother()).service)],
  ['a channel that is not there', CHANNEL, async () => subscribed(channelId, NO_CHANNEL)],
  ['a channel of another account', CHANNEL, foreignChannel],
]

/** Writes a resource in each way; the answers. */
const written = async (path: string, one: string, good: object, more: object) => [
  await client.call('POST', path, { body: { ...good, ...more } }),
  await client.call('PUT', one, { body: { ...good, ...more } }),
  await client.call('PATCH', one, { body: more }),
]

test.each(cases)('a monitor with %s is refused', async (_, place, fields) => {
  const { body: made } = await client.call('POST', '/v1/checks/url', { body: check() })
  const one = `/v1/checks/${made.id}`
  const answers = await written('/v1/checks/url', one, check(), await fields())
  const message = expect.stringContaining(`${place}: unknown `) as string
  for (const { status, body } of answers) {
    expect([status, body.statusCode, body.message]).toEqual([400, 400, message])
  }
  expect((await client.call('GET', one)).body).toEqual(made)
  expect((await client.call('GET', '/v1/checks')).body).toHaveLength(1)
})

test('a channel of another account is refused in a group, and in a file, as a whole', async () => {
  const more = await foreignChannel()
  const groups = '/v1/check-groups'
  const { body: made } = await client.call('POST', groups, { body: { name: 'Web' } })
  const one = `${groups}/${made.id}`
  const message = expect.stringContaining(`${CHANNEL}: unknown `) as string
  for (const { status, body } of await written(groups, one, { name: 'Web' }, more)) {
    expect([status, body.message]).toEqual([400, message])
  }
  expect((await client.call('GET', one)).body).toEqual(made)
  const path = CHANNEL.split('.').map((part) => (part === '1' ? 1 : part))
  const { applied, problems } = await apply(more, more)
  expect([applied, problems.map(({ kind }: Loose) => kind)]).toEqual([false, ['group', 'monitor']])
  for (const problem of problems) expect(problem.path).toEqual(path)
  expect((await client.call('GET', '/v1/checks')).body).toEqual([])
})

const apply = async (monitor: object, group: object = {}) => {
  const monitors = [{ key: 'm', definition: check({ checkType: 'URL', ...monitor }) }]
  const groups = [{ key: 'g', definition: { name: 'Web', ...group } }]
  const body = { name: 'shop.yaml', monitors, groups }
  return (await client.call('POST', '/v1/apply', { body })).body
}

test('a file changes nothing the second time, also when a thing that it names was deleted', async () => {
  const fields = { ...trigger(serviceId.toUpperCase()), ...subscribed(channelId) }
  expect(await apply(fields, subscribed(channelId))).toMatchObject({ problems: [] })
  await removeThings()
  const plan = [{ action: 'unchanged' }, { action: 'unchanged' }]
  expect(await apply(fields, subscribed(channelId))).toMatchObject({ applied: true, plan })
})

test('a reference to a thing that was deleted later can stay, and can be removed', async () => {
  const fields = { ...trigger(serviceId), ...subscribed(channelId) }
  const made = await client.call('POST', '/v1/checks/url', { body: check(fields) })
  const one = `/v1/checks/${made.body.id}`
  await removeThings()
  const body = { name: 'Mail' }
  expect((await client.call('PATCH', one, { body })).body).toMatchObject({ ...fields, ...body })
  const out = { triggerIncident: null, ...subscribed() }
  expect((await client.call('PATCH', one, { body: out })).body).toMatchObject(out)
  // After removal it counts as new, as for any other monitor.
  expect((await client.call('PATCH', one, { body: fields })).status).toBe(400)
})

test('references of a deployment are refused as before', async () => {
  const fields = { alertChannelSubscriptions: [{ alertChannelId: { ref: 'x' }, activated: true }] }
  const { status, body } = await client.call('POST', '/v1/checks/url', { body: check(fields) })
  expect([status, body.message]).toEqual([400, expect.stringContaining('references need')])
})

async function removeThings(): Promise<void> {
  for (const path of [`status-pages/services/${serviceId}`, `alert-channels/${channelId}`]) {
    expect((await client.call('DELETE', `/v1/${path}`)).status).toBe(204)
  }
}
