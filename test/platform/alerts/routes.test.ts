// Aim: alert channels have the form of the public API, secrets are encrypted in the database and never shown,
// and an unusable channel is refused with the reason.
import { randomUUID } from 'node:crypto'
import PQueue from 'p-queue'
import { describe, expect, test } from 'vitest'
import { SECRET_MASK as MASK } from '../../../src/contract/api/resource.ts'
import { ALERT_BOUNDS } from '../../../src/platform/alerts/channel-schema.ts'
import { CONNECTIONS_MAX } from '../../../src/database/database.ts'
import { TEST_CIPHER, UNLIMITED, usePublicApi } from '../../support/platform/public-api.ts'

const CHANNELS = '/v1/alert-channels'
const { database, client, addClient } = usePublicApi({ defaultLimit: UNLIMITED })

const input = (config: object = {}, fields: object = {}) => ({
  type: 'WEBHOOK',
  config: { name: 'On call', url: 'https://hooks.example.com/v', method: 'POST', ...config },
  ...fields,
})
const create = async (config: object = {}) => {
  const { status, body } = await client.call('POST', CHANNELS, { body: input(config) })
  expect(status).toBe(201)
  return { body, path: `${CHANNELS}/${body.id}` }
}

test('a channel is created with the defaults of the contract, listed, replaced and deleted', async () => {
  const { body: made, path } = await create()
  expect(made).toMatchObject({
    type: 'WEBHOOK',
    config: { name: 'On call', method: 'POST', template: null, headers: [] },
    sendFailure: true,
    sendRecovery: true,
    sendDegraded: false,
    sslExpiry: false,
    sslExpiryThreshold: 30,
    autoSubscribe: false,
    subscriptions: [],
    pausedAt: null,
  })
  expect(made.config.webhookSecret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
  const read = await client.get(path)
  expect(read.config.webhookSecret).toBe(MASK)
  const put = await client.call('PUT', path, { body: { ...read, sendDegraded: true } })
  expect(put.body).toMatchObject({ sendDegraded: true, config: { webhookSecret: MASK } })
  const body = [{ checkId: randomUUID(), activated: true }, { groupId: 7 }]
  const set = await client.call('PUT', `${path}/subscriptions`, { body })
  expect(set.body.subscriptions).toHaveLength(2)
  expect(await client.get(`${CHANNELS}?limit=100`)).toContainEqual(set.body)
  expect(await client.status('DELETE', path)).toBe(204)
  for (const method of ['GET', 'DELETE']) expect(await client.status(method, path)).toBe(404)
})

test('single subscriptions are set, as clients of the public API do, also concurrently', async () => {
  const { path } = await create()
  const set = (body: object) => client.call('PUT', `${path}/subscriptions`, { body })
  const ids = Array.from({ length: 5 }, () => randomUUID())
  const answers = await Promise.all(ids.map((checkId) => set({ checkId, activated: true })))
  expect(answers.map(({ status, body }) => [status, body])).toEqual(
    ids.map((checkId) => [200, { checkId, groupId: null, activated: true }]),
  )
  await set({ checkId: null, groupId: 7, activated: true })
  await set({ checkId: ids[0], groupId: null, activated: false })
  const { subscriptions } = await client.get(path)
  expect(subscriptions).toHaveLength(6)
  expect(subscriptions).toContainEqual({ checkId: ids[0], groupId: null, activated: false })
  expect((await set({ activated: true })).status).toBe(400)
  expect(await client.status('PUT', `${CHANNELS}/999999/subscriptions`, { groupId: 7 })).toBe(404)
  const many = Array.from({ length: ALERT_BOUNDS.subscriptionsMax }, (_, groupId) => ({ groupId }))
  expect((await set(many)).status).toBe(200)
  expect((await set({ groupId: many.length })).status).toBe(409)
})

test('secrets are masked, encrypted, and unchanged where the mask is sent back', async () => {
  const secrets = {
    webhookSecret: 'a secret of ours',
    headers: [
      { key: 'X-Api-Key', value: 'key-of-ours', locked: false },
      { key: 'X-Team', value: 'blue', locked: false },
    ],
    queryParameters: [{ key: 'routing', value: 'routing-of-ours', locked: true }],
  }
  const { body: made, path } = await create(secrets)
  expect(made.config).toMatchObject({
    webhookSecret: MASK,
    headers: [
      { key: 'X-Api-Key', value: MASK },
      { key: 'X-Team', value: 'blue' },
    ],
    queryParameters: [{ key: 'routing', value: MASK }],
  })
  const unlocked = [{ key: 'routing', value: MASK, locked: false }]
  const config = { ...made.config, queryParameters: unlocked }
  const put = await client.call('PUT', path, { body: { ...made, config } })
  expect(put.text).not.toContain('of-ours')
  const [row] = await database().database.query<{ config: string }>(
    'select config from alert_channels where id = $1',
    [made.id],
  )
  expect(row?.config).not.toContain('ours')
  // Still locked.
  expect(JSON.parse(TEST_CIPHER.decrypt(row?.config ?? ''))).toMatchObject(secrets)
  expect(
    await client.status('PUT', path, input({ headers: [{ key: 'X-New', value: MASK }] })),
  ).toBe(400)
})

test('another account sees nothing of it, and a key that only reads changes nothing', async () => {
  const { path } = await create()
  const other = await addClient()
  for (const method of ['GET', 'DELETE']) expect(await other.status(method, path)).toBe(404)
  expect(await other.status('PUT', path, input())).toBe(404)
  expect(await other.get(CHANNELS)).toEqual([])
  const { accountId } = client
  const reader = await addClient({ accountId, role: 'Read Only' })
  expect([await reader.status('GET', path), await reader.status('DELETE', path)]).toEqual([
    200, 403,
  ])
})

describe('refused', () => {
  test.each<[string, object, RegExp]>([
    ['a type that cannot be sent through', { ...input(), type: 'EMAIL' }, /WEBHOOK/],
    ['no configuration', { type: 'WEBHOOK' }, /config/],
    ['an address of another protocol', input({ url: 'ftp://example.com/' }), /http/],
    ['an address that is none', input({ url: 'example.com' }), /http/],
    ['a password in the address', input({ url: 'https://a:b@example.com/' }), /header/],
    ['a variable in the host', input({ url: 'https://{{CHECK_NAME}}/' }), /host/],
    ['an unknown variable', input({ template: '{"a": "{{CHECK_NAMEE}}"}' }), /CHECK_NAMEE/],
    ['a block of handlebars', input({ template: '{{#eq A B}}x{{/eq}}' }), /\{\{#eq A B\}\}/],
    ['a header of the request itself', input({ headers: [{ key: 'Host', value: 'x' }] }), /key/],
    ['a header that signs', input({ headers: [{ key: 'webhook-id', value: 'x' }] }), /key/],
    ['a header with a line break', input({ headers: [{ key: 'X-A', value: 'a\r\nb' }] }), /value/],
    ['a name of a header with a space', input({ headers: [{ key: 'X A', value: 'a' }] }), /key/],
    ['an unknown field', input({ urll: 'x' }), /urll/],
    ['a mask for a secret that is not there', input({ webhookSecret: MASK }), /webhookSecret/],
  ])('%s', async (_, body, problem) => {
    const answer = await client.call('POST', CHANNELS, { body })
    expect([answer.status, answer.body.message]).toEqual([400, expect.stringMatching(problem)])
  })

  test.each(['0', '9'.repeat(20), randomUUID()])('the id %s', async (id) => {
    expect(await client.status('GET', `${CHANNELS}/${id}`)).toBe(404)
  })

  test.each([{ escalationType: 'NEVER' }, { reminders: { amount: 6 } }, { other: 1 }])(
    'the settings %o',
    async (body) => expect(await client.status('PUT', '/v1/alert-settings', body)).toBe(400),
  )
})

test('an account has a bounded number of channels', async () => {
  const other = await addClient()
  const most = ALERT_BOUNDS.channelsPerAccountMax
  // Several at a time, and fewer than there are connections: all at once wait for one of them, and on a busy
  // machine for longer than anybody may, which is 503 and says nothing about the bound.
  const several = new PQueue({ concurrency: CONNECTIONS_MAX / 2 })
  const one = () => other.call('POST', CHANNELS, { body: input() })
  const all = await several.addAll(Array.from({ length: most + 5 }, () => one))
  const statuses = all.map(({ status }) => status).toSorted((a, b) => a - b)
  expect(statuses).toEqual([...Array<number>(most).fill(201), ...Array<number>(5).fill(409)])
})

test('settings are those of the contract until they are set', async () => {
  const body = await client.get('/v1/alert-settings')
  expect(body).toEqual({
    escalationType: 'RUN_BASED',
    runBasedEscalation: { failedRunThreshold: 1 },
    timeBasedEscalation: { minutesFailingThreshold: 5 },
    reminders: { amount: 0, interval: 5 },
    parallelRunFailureThreshold: { enabled: false, percentage: 10 },
  })
  const forever = { ...body, reminders: { amount: 100_000, interval: 30 } }
  const put = await client.call('PUT', '/v1/alert-settings', { body: forever })
  expect([put.body, await client.get('/v1/alert-settings')]).toEqual([forever, forever])
})

test('notifications are listed in pages, at most five times in ten seconds', async () => {
  const other = await addClient()
  const post = async (path: string, body: object) => (await other.call('POST', path, { body })).body
  const channel = await post(CHANNELS, input())
  const services = [await post('/v1/status-pages/services', { name: 'x' })]
  const incidentUpdates = [{ description: 'x', notifySubscribers: true }]
  for (const name of ['first', 'second']) {
    const body = { name, severity: 'MINOR', services, incidentUpdates }
    await post('/v1/status-pages/incidents', body)
  }
  const list = (query: string) => other.call('GET', `/v1/alert-notifications?${query}`)
  const page = await list('limit=1')
  expect(page.headers.get('content-range')).toBe('0-0/2')
  expect(page.headers.get('ratelimit-policy')).toBe('"alert-notifications";q=5;w=10')
  expect(page.body).toMatchObject([
    {
      alertChannelId: channel.id,
      checkId: null,
      type: 'WEBHOOK',
      event: 'incident.update',
      status: 'IN_PROGRESS',
      state: 'waiting',
      attempts: 0,
      payload: { incident: { name: 'second' } },
    },
  ])
  const next = await list('limit=1&page=2')
  expect(next.body).toMatchObject([{ payload: { incident: { name: 'first' } } }])
  const filters = [
    `alertChannelId=${channel.id}&hasFailures=false&from=1`,
    'hasFailures=true',
    'to=1',
  ]
  const lengths: number[] = []
  for (const query of filters) lengths.push((await list(query)).body.length)
  expect(lengths).toEqual([2, 0, 0])
  expect((await list('')).status).toBe(429)
})
