// Aim: the platform stores fault reports of agents within bounds, and shows them only to their account.
import { randomUUID } from 'node:crypto'
import { beforeAll, expect, test } from 'vitest'
import { FAULT_BOUNDS } from '../../../src/contract/protocol/fault-report.ts'
import { eventOf } from '../../../src/process/faults/event.ts'
import { Fault } from '../../../src/process/faults/fault.ts'
import { envelopeOf } from '../../../src/process/faults/sentry-envelope.ts'
import { faultRetention } from '../../../src/platform/faults/routes.ts'
import { storeFault } from '../../../src/platform/faults/queries.ts'
import { useAgentsApi } from '../../support/platform/agents-api.ts'
import { DATABASE_SERVERS } from '../../support/database/database.ts'
import { postWithKey } from '../../support/platform/fake-agent.ts'
import { addLocation, type TestLocation } from '../../support/platform/locations.ts'
import { UNLIMITED, usePublicApi } from '../../support/platform/public-api.ts'

/** The envelope of a fault from an agent. */
const envelope = (text: string) =>
  envelopeOf(eventOf(new Fault('TypeError', [], { text }), 'vedette-agent@8.4.0'), '8.4.0')
/** One of another program, with the minimum of the protocol. */
const plain = (...messages: string[]) => {
  const items = messages.map((value) => JSON.stringify({ exception: [{ type: 'E', value }] }))
  return Buffer.from(`{}\n${items.map((item) => `{"type":"event"}\n${item}\n`).join('')}`)
}

const options = { defaultLimit: UNLIMITED }
const { database: use, client, addClient } = usePublicApi(options, DATABASE_SERVERS[0])
const { api } = useAgentsApi(use)
let location: TestLocation
beforeAll(async () => {
  location = await addLocation(use().database, client)
})

interface Post {
  agent?: string
  at?: TestLocation
  end?: string
  headers?: Record<string, string>
  isKeyed?: boolean
}
const post = (
  bytes: Buffer,
  { agent = randomUUID(), at = location, end = '/', headers = {}, isKeyed = true }: Post = {},
) =>
  postWithKey({ url: api.url, check: () => {} }, `/agent/v1/api/${agent}/envelope${end}`, {
    raw: new Uint8Array(bytes),
    headers: { 'content-type': 'application/x-sentry-envelope', ...headers },
    ...(isKeyed && { secret: at.secret }),
  })
const listed = async (query = '') =>
  await client.get(`/v1/private-locations/${location.id}/errors${query}`)

test('a fault is stored, and shown with its agent', async () => {
  const agent = randomUUID()
  const { status, body } = await post(envelope('Invalid URL'), { agent })
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
  for (const text of ['one', 'two', 'one']) await post(plain(text), { agent })
  const faults = (await listed(`?agentId=${agent}`)) as { message: string; count: number }[]
  expect(faults.map(({ message, count }) => [message, count])).toEqual([
    ['one', 2],
    ['two', 1],
  ])
})

test('the slash at the end of the path may be left out', async () => {
  expect((await post(plain('without a slash'), { end: '' })).status).toBe(200)
})

const OTHER = 'pl_0123456789abcdef'
/** The header of a DSN. */
const dsn = (key: string) => ({
  'x-sentry-auth': `Sentry sentry_version=7, sentry_client=x/1${key && `, sentry_key=${key}`}`,
})

test.each<[string, number, (secret: string) => Record<string, string>]>([
  ['a key as a DSN has it', 200, dsn],
  ['no key', 401, () => ({})],
  ['another key', 401, () => ({ authorization: `Bearer ${OTHER}` })],
  ['another key in a DSN', 401, () => dsn(OTHER)],
  ['a DSN without a key', 401, () => dsn('')],
])('%s is answered with %i', async (_, status, headers) => {
  const given = { isKeyed: false, headers: headers(location.secret) }
  expect((await post(plain('x'), given)).status).toBe(status)
})

test.each<[string, number, Buffer, Post?]>([
  ['what is no envelope', 400, Buffer.from('hello')],
  ['a large one', 413, Buffer.alloc(FAULT_BOUNDS.envelopeBytesMax + 1, 'a')],
  ['a packed one', 415, plain('x'), { headers: { 'content-encoding': 'gzip' } }],
  ['a malformed id of an agent', 404, plain('x'), { agent: 'me' }],
])('%s is answered with %i', async (_, status, body, more) => {
  expect((await post(body, more)).status).toBe(status)
})

test('those not seen for longest are replaced', async () => {
  const agent = randomUUID()
  const all = Array.from({ length: FAULT_BOUNDS.perAgentMax + 3 }, (_, n) => `fault ${n}`)
  for (let at = 0; at < all.length; at += 10) {
    expect((await post(plain(...all.slice(at, at + 10)), { agent })).status).toBe(200)
  }
  const faults = (await listed(`?agentId=${agent}`)) as { message: string }[]
  expect(faults).toHaveLength(FAULT_BOUNDS.perAgentMax)
  expect([faults[0]?.message, faults.at(-1)?.message]).toEqual([all.at(-1), 'fault 3'])
})

test('an agent that reports endlessly is limited', async () => {
  const at = await addLocation(use().database, client)
  const statuses = new Set<number>()
  for (let n = 0; n < 60; n++) statuses.add((await post(plain('x'), { at })).status)
  expect(statuses).toEqual(new Set([200, 429]))
})

test('other accounts see nothing of it', async () => {
  const stranger = await addClient()
  const path = `/v1/private-locations/${location.id}/errors`
  expect(await stranger.status('GET', path)).toBe(404)
})

test('faults not seen for long are deleted, also with their location', async () => {
  const { database } = use()
  const gone = await addLocation(database, client)
  for (const text of ['old', 'new']) await post(plain(text), { at: gone })
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
    await storeFault(use().database, { locationId: null, agentId: null }, { ...report, ...ran })
  }
  const reader = await addClient({ role: 'Read Only' })
  expect(await reader.status('GET', '/v1/platform-errors')).toBe(403)
  const { body } = await client.call('GET', '/v1/platform-errors')
  const at = expect.any(String)
  expect(body).toEqual([{ ...report, ...ran, count: 2, firstSeenAt: at, lastSeenAt: at }])
})
