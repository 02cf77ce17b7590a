// Aim: the platform stores fault reports of agents within bounds, and shows them only to their account.
import { randomUUID } from 'node:crypto'
import { beforeAll, expect, test } from 'vitest'
import { FAULT_BOUNDS } from '../../../src/contract/protocol/fault-report.ts'
import { eventOf } from '../../../src/process/faults/event.ts'
import { Fault } from '../../../src/process/faults/fault.ts'
import { envelopeOf } from '../../../src/process/faults/sentry-envelope.ts'
import { faultRetention } from '../../../src/platform/faults/routes.ts'
import { storePlatformFault } from '../../../src/platform/faults/queries.ts'
import { useAgentsApi } from '../../support/platform/agents-api.ts'
import { DATABASE_SERVERS, useDatabase } from '../../support/database/database.ts'
import { addLocation, type TestLocation } from '../../support/platform/locations.ts'
import { servePublicApi, type ApiClient } from '../../support/platform/public-api.ts'

/** The envelope of a fault from an agent. */
const envelope = (text: string) =>
  envelopeOf(eventOf(new Fault('TypeError', [], { text }), 'vedette-agent@8.4.0'), '8.4.0')
/** One of another program, with the minimum of the protocol. */
const plain = (message: string) =>
  Buffer.from(
    `{}\n{"type":"event"}\n${JSON.stringify({ exception: [{ type: 'E', value: message }] })}\n`,
  )

const use = useDatabase(DATABASE_SERVERS[0])
const { api } = useAgentsApi(use)
let client: ApiClient
let location: TestLocation
const { addClient } = servePublicApi(use)

beforeAll(async () => {
  client = await addClient()
  location = await addLocation(use().database, { accountId: client.accountId })
})

const keyOf = ({ secret }: TestLocation) => ({ authorization: `Bearer ${secret}` })
const post = async (
  agent: string,
  body: Buffer,
  headers: Record<string, string> = keyOf(location),
  end = '/',
) => {
  const response = await fetch(`${api.url}/agent/v1/api/${agent}/envelope${end}`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-sentry-envelope', ...headers },
    body: new Uint8Array(body),
  })
  return { status: response.status, body: (await response.json()) as { id?: string } }
}
const listed = async (query = '') =>
  (await client.call('GET', `/v1/private-locations/${location.id}/errors${query}`)).body

test('a fault is stored, and shown with its agent', async () => {
  const agent = randomUUID()
  const { status, body } = await post(agent, envelope('Invalid URL'))
  expect([status, body.id]).toEqual([200, expect.stringMatching(/^[0-9a-f]{32}$/)])
  expect(await listed(`?agentId=${agent}`)).toEqual([
    {
      agentId: agent,
      level: 'error',
      type: 'TypeError',
      message: 'Invalid URL',
      stack: [],
      release: 'vedette-agent@8.4.0',
      os: expect.stringMatching(/^Linux [\d.]+ \w+$/),
      engine: `node ${process.version}`,
      count: 1,
      firstSeenAt: expect.any(String),
      lastSeenAt: expect.any(String),
    },
  ])
})

test('the same one again is counted, and listed first', async () => {
  const agent = randomUUID()
  for (const text of ['one', 'two', 'one']) await post(agent, plain(text))
  const faults = (await listed(`?agentId=${agent}`)) as { message: string; count: number }[]
  expect(faults.map(({ message, count }) => [message, count])).toEqual([
    ['one', 2],
    ['two', 1],
  ])
})

test('the slash at the end of the path may be left out', async () => {
  const body = plain('without a slash')
  expect((await post(randomUUID(), body, keyOf(location), '')).status).toBe(200)
})

const OTHER = 'pl_0123456789abcdef'

test.each<[string, number, (secret: string) => Record<string, string>, Buffer?]>([
  [
    'a key as a DSN has it',
    200,
    (key) => ({ 'x-sentry-auth': `Sentry sentry_version=7, sentry_client=x/1, sentry_key=${key}` }),
  ],
  ['no key', 401, () => ({})],
  ['another key', 401, () => ({ authorization: `Bearer ${OTHER}` })],
  ['another key in a DSN', 401, () => ({ 'x-sentry-auth': `Sentry sentry_key=${OTHER}` })],
  ['a DSN without a key', 401, () => ({ 'x-sentry-auth': 'Sentry sentry_version=7' })],
  ['what is no envelope', 400, (key) => ({ authorization: `Bearer ${key}` }), Buffer.from('hello')],
  [
    'a large one',
    413,
    (key) => ({ authorization: `Bearer ${key}` }),
    Buffer.alloc(FAULT_BOUNDS.envelopeBytesMax + 1, 'a'),
  ],
  ['a packed one', 415, (key) => ({ authorization: `Bearer ${key}`, 'content-encoding': 'gzip' })],
])('%s is answered with %i', async (_, status, headers, body = plain('x')) => {
  expect((await post(randomUUID(), body, headers(location.secret))).status).toBe(status)
})

test('a malformed id of an agent is not found', async () => {
  expect((await post('me', plain('x'))).status).toBe(404)
})

test('those not seen for longest are replaced', async () => {
  const agent = randomUUID()
  const events = Array.from({ length: 3 }, (_, at) => at)
  const all = FAULT_BOUNDS.perAgentMax + events.length
  for (let at = 0; at < all; at += 10) {
    const items = Array.from({ length: Math.min(10, all - at) }, (_, n) => {
      const item = JSON.stringify({ exception: [{ type: 'E', value: `fault ${at + n}` }] })
      return `{"type":"event"}\n${item}\n`
    })
    expect((await post(agent, Buffer.from(`{}\n${items.join('')}`))).status).toBe(200)
  }
  const faults = (await listed(`?agentId=${agent}`)) as { message: string }[]
  expect(faults).toHaveLength(FAULT_BOUNDS.perAgentMax)
  expect([faults[0]?.message, faults.at(-1)?.message]).toEqual([`fault ${all - 1}`, 'fault 3'])
})

test('an agent that reports endlessly is limited', async () => {
  const other = await addLocation(use().database, { accountId: client.accountId })
  const statuses = new Set<number>()
  for (let at = 0; at < 60; at++)
    statuses.add((await post(randomUUID(), plain('x'), keyOf(other))).status)
  expect(statuses).toEqual(new Set([200, 429]))
})

test('other accounts see nothing of it', async () => {
  const stranger = await addClient()
  const path = `/v1/private-locations/${location.id}/errors`
  expect((await stranger.call('GET', path)).status).toBe(404)
})

test('faults not seen for long are deleted, also with their location', async () => {
  const { database } = use()
  const gone = await addLocation(database, { accountId: client.accountId })
  await post(randomUUID(), plain('old'), keyOf(gone))
  await post(randomUUID(), plain('new'), keyOf(gone))
  const count = async () =>
    (await database.query('select id from faults where location_id = $1', [gone.id])).length
  const age = `update faults set last_seen_at = last_seen_at - interval '31 days'
    where location_id = $1 and report->>'message' = 'old'`
  await database.query(age, [gone.id])
  await faultRetention(database).run(new AbortController().signal)
  expect(await count()).toBe(1)
  await database.query('delete from private_locations where id = $1', [gone.id])
  expect(await count()).toBe(0)
})

test('faults of the platform itself are shown to admins only', async () => {
  const report = { level: 'error', type: 'TypeError', message: 'x', stack: [] }
  const ran = { release: 'vedette-platform@8.4.0', os: 'Linux', engine: 'node' }
  for (let times = 0; times < 2; times++) {
    await storePlatformFault(use().database, { ...report, ...ran })
  }
  const reader = await addClient({ role: 'Read Only' })
  expect((await reader.call('GET', '/v1/platform-errors')).status).toBe(403)
  const { body } = await client.call('GET', '/v1/platform-errors')
  expect(body).toEqual([
    {
      ...report,
      ...ran,
      count: 2,
      firstSeenAt: expect.any(String),
      lastSeenAt: expect.any(String),
    },
  ])
})
