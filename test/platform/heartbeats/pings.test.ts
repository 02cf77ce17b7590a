// Aim: pings become results, alerts and expected slots, from any sender; an acknowledged ping is stored.
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createAlerting } from '../../../src/platform/alerts/alerting.ts'
import { adoptHeartbeats } from '../../../src/platform/heartbeats/queries/watch.ts'
import { reportLate } from '../../../src/platform/heartbeats/lateness.ts'
import { createPingApp, PING_BOUNDS } from '../../../src/platform/heartbeats/pings.ts'
import { prepareResults, RESULTS_MS } from '../../../src/platform/results/retention.ts'
import { sweepJob } from '../../../src/platform/results/sweep.ts'
import { createCipher } from '../../../src/platform/secrets/cipher.ts'
import { DATABASE_SERVERS, useDatabase } from '../../support/database/database.ts'
import {
  addClient,
  startPublicApi,
  type ApiClient,
  type PublicApi,
} from '../../support/platform/public-api.ts'

const MINUTE = 60_000
const cipher = createCipher('a secret of these tests')
const log = { error: () => undefined, warn: () => undefined, debug: () => undefined } as never
const HEARTBEAT = { period: 5, periodUnit: 'minutes', grace: 1, graceUnit: 'minutes' }

describe.each(DATABASE_SERVERS)('on $name', (server) => {
  const database = useDatabase(server)
  const clock = { nowMs: Math.floor(Date.now()), now: () => clock.nowMs }
  let api: PublicApi
  let client: ApiClient
  let check: { id: string; heartbeat: { pingToken: string } }

  const parts = () => {
    const all = { database: database().database, cipher, clock, log }
    return { ...all, now: clock.now, onRecorded: [createAlerting(all).onRecorded] }
  }
  const app = () => createPingApp(parts(), { log, logOutage: () => undefined })
  let pings: ReturnType<typeof app>
  const ping = async (rest = '', init: RequestInit = {}) =>
    pings.request(`http://platform/ping/${check.heartbeat.pingToken}${rest}`, init)
  const events = async () => {
    const path = `/v1/checks/heartbeats/${check.id}/events`
    const end = encodeURIComponent(new Date(clock.nowMs + MINUTE).toISOString())
    return (await client.call('GET', `${path}?endTime=${end}`)).body[0].events
  }
  const states = async () => (await events()).map(({ state }: { state: string }) => state)
  const kinds = async () =>
    (await client.call('GET', '/v1/alert-notifications')).body.map(
      (one: { event: string }) => one.event,
    )

  beforeAll(async () => {
    const now = clock.now
    await prepareResults({ ...parts(), now, resultsMs: RESULTS_MS, rollupsMs: RESULTS_MS })
    api = await startPublicApi(database().database, {
      cipher,
      clock,
      defaultLimit: { limit: 1e8, windowS: 60 },
    })
    pings = app()
  })
  afterAll(() => api.close())
  beforeEach(async () => {
    client = await addClient(api, database().database)
    const body = { name: 'Backup', heartbeat: HEARTBEAT }
    check = (await client.call('POST', '/v1/checks/heartbeat', { body })).body
  })

  test.each(['GET', 'POST', 'HEAD'])(
    '%s is a ping, and its event has its sender',
    async (method) => {
      const answer = await ping('', { method, headers: { 'User-Agent': 'cron/1.0' } })
      expect(answer.status).toBe(200)
      const [event, ...none] = await events()
      expect(none).toEqual([])
      expect(event).toEqual({
        id: event.id,
        state: 'RECEIVED',
        timestamp: new Date(clock.nowMs).toISOString(),
        source: `HTTP ${method}`,
        userAgent: 'cron/1.0',
      })
      const one = await client.call('GET', `/v1/checks/heartbeats/${check.id}/events/${event.id}`)
      expect(one.body.event).toEqual(event)
      expect(one.body.stats.last24Hours.totalEntitiesCurrentPeriod).toBe(1)
      const path = `/v1/check-results/${check.id}/${event.id}`
      const { body: result } = await client.call('GET', path)
      expect(result).toMatchObject({
        verdict: 'passed',
        runBy: null,
        observed: { state: 'RECEIVED' },
      })
    },
  )

  test('the body is stored up to its bound, whatever it holds', async () => {
    const text = `\0exit ${'é'.repeat(PING_BOUNDS.bodyBytesMax)}`
    expect((await ping('/3', { method: 'POST', body: text })).status).toBe(200)
    const [{ id }] = await events()
    const { body } = await client.call('GET', `/v1/check-results/${check.id}/${id}`)
    expect(body.failures).toMatchObject([{ code: 'HEARTBEAT_FAILED' }])
    expect(body.observed.body).toMatch(/^.exit é+/)
    expect(Buffer.byteLength(body.observed.body)).toBeLessThanOrEqual(PING_BOUNDS.bodyBytesMax + 2)
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
    const answer = await pings.request(`http://platform/ping/${encodeURIComponent(token)}`)
    expect(answer.status).toBe(404)
    expect(await events()).toEqual([])
  })

  test('the time from start to end is the response time', async () => {
    await ping('/start')
    clock.nowMs += 3_000
    await ping()
    const [{ id }] = await events()
    const { body } = await client.call('GET', `/v1/check-results/${check.id}/${id}`)
    expect(body).toMatchObject({ responseTime: 3_000 })
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
    expect((await client.call('GET', status)).body).toMatchObject({ hasFailures: true })
    clock.nowMs += MINUTE
    await ping()
    expect(await states()).toEqual(['LATE', 'FAILING', 'RECEIVED'])
    expect(await kinds()).toEqual(['alert.recovery', 'alert.failure'])
    expect((await client.call('GET', status)).body).toMatchObject({
      verdict: 'passed',
      hasFailures: false,
      hasErrors: false,
    })
    const path = `/v1/checks/heartbeats/${check.id}/availability`
    const end = encodeURIComponent(new Date(clock.nowMs + 1).toISOString())
    expect((await client.call('GET', `${path}?endTime=${end}`)).body).toEqual({
      successRatio: { previousPeriod: null, currentPeriod: 66.67 },
      totalEntitiesCurrentPeriod: 3,
    })
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
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 50 }, () => 200))
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
    await sweepJob({ ...parts(), now, retentionMs: RESULTS_MS, graceMs: 1 }).run(
      AbortSignal.timeout(30_000),
    )
    const { body } = await client.call('GET', `/v1/accounting?from=${Math.floor(since / 1000)}`)
    const { expected, missing, unexpected, byVerdict } = body.locations[0]
    // Of the deadline that nobody has looked at yet, the sweep says so.
    expect(byVerdict).toMatchObject({ passed: 2, failed: 2, missed: 1 })
    expect([expected, missing, unexpected]).toEqual([5, 0, 0])
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
    expect((await client.call('POST', '/v1/checks/heartbeat', { body })).status).toBe(409)
  })

  test('the location of heartbeats is not one of the account', async () => {
    expect((await client.call('GET', '/v1/private-locations')).body).toEqual([])
  })

  test('checks that an earlier version stored are watched', async () => {
    await database().database.query('delete from heartbeats where monitor_id = $1', [check.id])
    expect((await ping()).status).toBe(404)
    await adoptHeartbeats(database().database, cipher, clock.nowMs)
    expect((await ping()).status).toBe(200)
  })
})
