// Aim: pings become results, alerts and expected slots, from any sender; an acknowledged ping is stored.
import { randomUUID } from 'node:crypto'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { createAlerting } from '../../../src/platform/alerts/alerting.ts'
import { adoptHeartbeats } from '../../../src/platform/heartbeats/queries/watch.ts'
import { reportLate } from '../../../src/platform/heartbeats/lateness.ts'
import { createPingApp, PING_BOUNDS } from '../../../src/platform/heartbeats/pings.ts'
import { prepareResults, RESULTS_MS } from '../../../src/platform/results/retention.ts'
import { sweepJob } from '../../../src/platform/results/sweep.ts'
import { DATABASE_SERVERS } from '../../support/database/database.ts'
import {
  TEST_CIPHER,
  UNLIMITED,
  usePublicApi,
  type ApiClient,
} from '../../support/platform/public-api.ts'

const MINUTE = 60_000
const log = { error: () => undefined, warn: () => undefined, debug: () => undefined } as never
const HEARTBEAT = { period: 5, periodUnit: 'minutes', grace: 1, graceUnit: 'minutes' }

const clock = { nowMs: Math.floor(Date.now()), now: () => clock.nowMs }
const options = { clock, defaultLimit: UNLIMITED }
const { database, addClient } = usePublicApi(options, DATABASE_SERVERS[0])
let client: ApiClient
let check: { id: string; heartbeat: { pingToken: string } }

const parts = () => {
  const all = { database: database().database, cipher: TEST_CIPHER, clock, log }
  return { ...all, now: clock.now, onRecorded: [createAlerting(all).onRecorded] }
}
const app = () => createPingApp(parts(), { log, logOutage: () => undefined })
let pings: ReturnType<typeof app>
const ping = async (rest = '', init: RequestInit = {}, token = check.heartbeat.pingToken) =>
  pings.request(`http://platform/ping/${token}${rest}`, init)
/** Of the check, until so many milliseconds from now. */
const history = (what: string, ms = MINUTE) => {
  const end = encodeURIComponent(new Date(clock.nowMs + ms).toISOString())
  return client.get(`/v1/checks/heartbeats/${check.id}/${what}?endTime=${end}`)
}
const events = async () => (await history('events'))[0].events
const result = async () => client.get(`/v1/check-results/${check.id}/${(await events())[0].id}`)
const states = async () => (await events()).map(({ state }: { state: string }) => state)
const kinds = async () =>
  (await client.get('/v1/alert-notifications')).map((one: { event: string }) => one.event)

beforeAll(async () => {
  await prepareResults({ ...parts(), resultsMs: RESULTS_MS, rollupsMs: RESULTS_MS })
  pings = app()
})
beforeEach(async () => {
  client = await addClient()
  const body = { name: 'Backup', heartbeat: HEARTBEAT }
  check = (await client.call('POST', '/v1/checks/heartbeat', { body })).body
})

test.each(['GET', 'POST', 'HEAD'])('%s is a ping, and its event has its sender', async (method) => {
  const answer = await ping('', { method, headers: { 'User-Agent': 'cron/1.0' } })
  expect(answer.status).toBe(200)
  const event = {
    id: expect.any(String),
    state: 'RECEIVED',
    timestamp: new Date(clock.nowMs).toISOString(),
    source: `HTTP ${method}`,
    userAgent: 'cron/1.0',
  }
  const all = await events()
  expect(all).toEqual([event])
  const one = await client.get(`/v1/checks/heartbeats/${check.id}/events/${all[0].id}`)
  expect(one.event).toEqual(all[0])
  expect(one.stats.last24Hours.totalEntitiesCurrentPeriod).toBe(1)
  const observed = { state: 'RECEIVED' }
  expect(await result()).toMatchObject({ verdict: 'passed', runBy: null, observed })
})

test.each<[string, (token: string) => string]>([
  ['once', (token) => token],
  ['in capitals', (token) => token.toUpperCase()],
  ['cut at the bound', (token) => 'x'.repeat(PING_BOUNDS.bodyBytesMax - 20) + token],
  ['twice', (token) => token + 'x'.repeat(PING_BOUNDS.bodyBytesMax - token.length + 5) + token],
])('neither body nor user agent are stored with the token: %s', async (_, written) => {
  const { pingToken } = check.heartbeat
  const headers = { 'user-agent': `job ${pingToken}` }
  await ping('', { method: 'POST', headers, body: written(pingToken) })
  const { id, userAgent } = (await events())[0]
  expect(userAgent).toBe('job [scrubbed]')
  const { text } = await client.call('GET', `/v1/check-results/${check.id}/${id}`)
  expect(text.toLowerCase()).not.toContain(pingToken.slice(0, 8).toLowerCase())
})

test('a fault is logged without the token', async () => {
  const logged: unknown[] = []
  const faults = {
    log: { error: (fields: unknown) => logged.push(fields) },
    logOutage: () => undefined,
  }
  const failing = { transaction: () => Promise.reject(new Error('a fault')) }
  const broken = createPingApp({ ...parts(), database: failing } as never, faults)
  expect((await broken.request(`/ping/${check.heartbeat.pingToken}`)).status).toBe(500)
  expect(logged).toMatchObject([{ err: { message: 'a fault' } }])
  expect(JSON.stringify(logged)).not.toContain(check.heartbeat.pingToken)
})

test('the body is stored up to its bound, whatever it holds', async () => {
  const text = `\0exit ${'é'.repeat(PING_BOUNDS.bodyBytesMax)}`
  expect((await ping('/3', { method: 'POST', body: text })).status).toBe(200)
  const { failures, observed } = await result()
  expect(failures).toMatchObject([{ code: 'HEARTBEAT_FAILED' }])
  expect(observed.body).toMatch(/^.exit é+/)
  expect(Buffer.byteLength(observed.body)).toBeLessThanOrEqual(PING_BOUNDS.bodyBytesMax + 2)
})

test.each([
  ['/fail', 200],
  ['/0', 200],
  ['/start', 200],
  ['/256', 400],
  ['/stop', 400],
])('%s is answered with %i', async (rest, status) => {
  expect((await ping(rest)).status).toBe(status)
})

test.each(['PUT', 'DELETE'])('%s is refused', async (method) => {
  const answer = await ping('', { method })
  expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'GET, POST, HEAD'])
})

test.each([randomUUID(), 'x', "'--"])('an unknown token %s is 404', async (token) => {
  expect((await ping('', {}, encodeURIComponent(token))).status).toBe(404)
  expect(await events()).toEqual([])
})

test('the time from start to end is the response time', async () => {
  await ping('/start')
  clock.nowMs += 3_000
  await ping()
  expect(await result()).toMatchObject({ responseTime: 3_000 })
})

test('a deadline that passes opens an alert once, by whatever process, and the next ping ends it', async () => {
  const config = { name: 'on call', url: 'http://127.0.0.1:1/' }
  const channel = { type: 'WEBHOOK', autoSubscribe: true, config }
  await client.call('POST', '/v1/alert-channels', { body: channel })
  await ping()
  clock.nowMs += 6 * MINUTE
  await Promise.all([reportLate(parts()), reportLate(parts())])
  await reportLate(parts())
  expect(await states()).toEqual(['FAILING', 'RECEIVED'])
  expect(await kinds()).toEqual(['alert.failure'])
  const status = `/v1/check-statuses/${check.id}`
  expect(await client.get(status)).toMatchObject({ hasFailures: true })
  clock.nowMs += MINUTE
  await ping()
  expect(await states()).toEqual(['LATE', 'FAILING', 'RECEIVED'])
  expect(await kinds()).toEqual(['alert.recovery', 'alert.failure'])
  const well = { verdict: 'passed', hasFailures: false, hasErrors: false }
  expect(await client.get(status)).toMatchObject(well)
  expect(await history('availability', 1)).toEqual({
    successRatio: { previousPeriod: null, currentPeriod: 66.67 },
    totalEntitiesCurrentPeriod: 3,
  })
  const path = `/v1/checks/heartbeats/${check.id}/availability?startTime=x`
  const { status: refused, body } = await client.call('GET', path)
  expect([refused, body.message]).toEqual([400, expect.stringContaining('2026-01-31T12:00:00Z')])
})

test('a check that was never pinged is late after its first period', async () => {
  clock.nowMs += 6 * MINUTE - 1
  await reportLate(parts())
  expect(await states()).toEqual([])
  clock.nowMs += 1
  await reportLate(parts())
  expect(await states()).toEqual(['FAILING'])
})

test('pings at the same time are all recorded', async () => {
  const answers = await Promise.all(Array.from({ length: 50 }, () => ping()))
  expect(answers.map(({ status }) => status)).toEqual(Array(50).fill(200))
  expect(await states()).toHaveLength(50)
})

test('an address that is pinged too often is refused for the rest of the minute', async () => {
  const many = Array.from({ length: PING_BOUNDS.perMinuteMax + 1 }, () => ping('/start'))
  const refused = (await Promise.all(many)).filter(({ status }) => status === 429)
  expect(refused).toHaveLength(1)
  expect(Number(refused[0]?.headers.get('retry-after'))).toBeGreaterThan(0)
})

test('the account of slots expects every event', async () => {
  const since = clock.nowMs
  await ping()
  clock.nowMs += 4 * MINUTE
  await ping()
  clock.nowMs += 13 * MINUTE
  await reportLate(parts())
  await ping('/1')
  await database().database.query(
    `update expectations set opened_ms = from_ms - 1 where monitor_id = '${check.id}'`,
  )
  const now = () => clock.nowMs + 10 * MINUTE
  const job = sweepJob({ ...parts(), now, retentionMs: RESULTS_MS, graceMs: 1 })
  await job.run(AbortSignal.timeout(30_000))
  // Of the deadline that nobody has looked at yet, the sweep says so.
  const byVerdict = { passed: 2, failed: 2, missed: 1 }
  expect(await client.get(`/v1/accounting?from=${Math.floor(since / 1000)}`)).toMatchObject({
    locations: [{ expected: 5, missing: 0, unexpected: 0, byVerdict }],
  })
})

test('a check that is switched off is not watched, and one that is deleted is not known', async () => {
  await client.call('PATCH', `/v1/checks/${check.id}`, { body: { activated: false } })
  clock.nowMs += 60 * MINUTE
  await reportLate(parts())
  expect((await ping()).status).toBe(200)
  expect(await states()).toEqual([])
  await client.call('PATCH', `/v1/checks/${check.id}`, { body: { activated: true } })
  await ping()
  expect(await states()).toEqual(['RECEIVED'])
  await client.call('DELETE', `/v1/checks/${check.id}`)
  expect((await ping()).status).toBe(404)
})

test('no two checks have the same token', async () => {
  const body = { name: 'Other', heartbeat: { ...HEARTBEAT, ...check.heartbeat } }
  expect(await client.status('POST', '/v1/checks/heartbeat', body)).toBe(409)
})

test('the location of heartbeats is not one of the account', async () => {
  expect(await client.get('/v1/private-locations')).toEqual([])
})

test('checks that an earlier version stored are watched', async () => {
  await database().database.query('delete from heartbeats where monitor_id = $1', [check.id])
  expect((await ping()).status).toBe(404)
  await adoptHeartbeats(database().database, TEST_CIPHER, clock.nowMs)
  expect((await ping()).status).toBe(200)
})
