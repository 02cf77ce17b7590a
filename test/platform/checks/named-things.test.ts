// Aim: services and alert channels that monitors and groups newly name must exist in their own account, on every
// way of writing; a later deletion does not change the definition.
import { randomUUID } from 'node:crypto'
import { beforeEach, describe, expect, test } from 'vitest'
import { makeLocation } from '../../support/platform/named-locations.ts'
import {
  addClient,
  type ApiClient,
  type Loose,
  usePublicApi,
} from '../../support/platform/public-api.ts'

const { database, api } = usePublicApi()
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
const trigger = (id: string) => ({
  triggerIncident: {
    serviceId: id,
    severity: 'MAJOR',
    name: 'Down',
    description: 'Down',
    notifySubscribers: false,
  },
})
const subscribed = (...ids: number[]) => ({
  alertChannelSubscriptions: ids.map((alertChannelId) => ({ alertChannelId, activated: true })),
})
const check = (more: object = {}) => ({
  name: 'Shop',
  privateLocations: ['north'],
  request: { url: 'https://example.org/' },
  ...more,
})

beforeEach(async () => {
  client = await addClient(api, database().database)
  await makeLocation(client, 'north')
  ;({ service: serviceId, channel: channelId } = await things(client))
})

const ofAnother = async () => things(await addClient(api, database().database))
const SERVICE = 'triggerIncident.serviceId'
const CHANNEL = 'alertChannelSubscriptions.1.alertChannelId'

/** The reference, and the path of its problem. */
const cases: [string, string, () => Promise<object>][] = [
  ['a service that is not there', SERVICE, async () => trigger(NOBODY)],
  ['a service of another account', SERVICE, async () => trigger((await ofAnother()).service)],
  ['a channel that is not there', CHANNEL, async () => subscribed(channelId, NO_CHANNEL)],
  [
    'a channel of another account',
    CHANNEL,
    async () => subscribed(channelId, (await ofAnother()).channel),
  ],
]

test.each(cases)('a monitor with %s is refused', async (_, place, fields) => {
  const more = await fields()
  const { body: made } = await client.call('POST', '/v1/checks/url', { body: check() })
  const one = `/v1/checks/${made.id}`
  const answers = [
    await client.call('POST', '/v1/checks/url', { body: check(more) }),
    await client.call('PUT', one, { body: check(more) }),
    await client.call('PATCH', one, { body: more }),
  ]
  for (const { status, body } of answers) {
    expect([status, body.statusCode]).toEqual([400, 400])
    expect(body.message).toContain(`${place}: there is no`)
    expect(body.message).toMatch(/take one of GET \/v1\//)
  }
  expect((await client.call('GET', one)).body).toEqual(made)
  expect((await client.call('GET', '/v1/checks')).body).toHaveLength(1)
})

describe.each(cases.slice(3))('%s is refused', (_, place, fields) => {
  test('in a group', async () => {
    const more = await fields()
    const { body: made } = await client.call('POST', '/v1/check-groups', { body: { name: 'Web' } })
    const one = `/v1/check-groups/${made.id}`
    const answers = [
      await client.call('POST', '/v1/check-groups', { body: { name: 'Web', ...more } }),
      await client.call('PUT', one, { body: { name: 'Web', ...more } }),
      await client.call('PATCH', one, { body: more }),
    ]
    for (const { status, body } of answers) {
      expect([status, body.message]).toEqual([
        400,
        expect.stringContaining(`${place}: there is no`),
      ])
    }
    expect((await client.call('GET', one)).body).toEqual(made)
  })

  test('in a file, which is refused as a whole', async () => {
    const more = await fields()
    const { applied, problems } = await apply(more, more)
    const path = ['alertChannelSubscriptions', 1, 'alertChannelId']
    expect(applied).toBe(false)
    expect(problems).toMatchObject([
      { kind: 'group', key: 'g', path },
      { kind: 'monitor', key: 'm', path },
    ])
    expect((await client.call('GET', '/v1/checks')).body).toEqual([])
  })
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
  const { plan, applied } = await apply(fields, subscribed(channelId))
  expect(applied).toBe(true)
  expect(plan.map(({ action }: Loose) => action)).toEqual(['unchanged', 'unchanged'])
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
