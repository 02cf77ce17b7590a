// Aim: never more requests than the limit are accepted in a window, over all processes on one database.
import { describe, expect, test } from 'vitest'
import { windowsOf } from '../../../../src/platform/http/rate-limit/queries.ts'
import { RateLimiter } from '../../../../src/platform/http/rate-limit/rate-limit.ts'
import { DATABASE_SERVERS, useDatabase } from '../../../support/database/database.ts'
import { untilHolds } from '../../../support/eventually.ts'
import * as publicApi from '../../../support/platform/public-api.ts'

const { addClient, startPublicApi, usePublicApi } = publicApi
const INCIDENTS = '/v1/status-pages/incidents'
/** So long that no window ends during a test, except at one moment of the day. */
const windowS = 86_400

describe.each(DATABASE_SERVERS)('on $name', (server) => {
  const database = useDatabase(server)

  test.each([
    [1, 160, 4, 53],
    [3, 160, 12, 21],
    [3, 10, 12, 6],
    [1, 60, 60, 1],
    [3, 60, 150, 1],
  ])('%i processes: %i of %i × %i requests', async (processes, limit, clients, requests) => {
    const { database: open } = database()
    const defaultLimit = { limit, windowS }
    const starting = Array.from({ length: processes }, () => startPublicApi(open, { defaultLimit }))
    const apis = await Promise.all(starting)
    const { secret, accountId } = await addClient(apis[0] as publicApi.PublicApi, open)
    const headers = { authorization: `Bearer ${secret}`, 'x-service-account': accountId }
    const statuses: number[] = []
    const send = async (number: number) => {
      const { url } = apis[number % processes] as publicApi.PublicApi
      for (let sent = 0; sent < requests; sent++) {
        statuses.push((await fetch(`${url}${INCIDENTS}?limit=1`, { headers })).status)
      }
    }
    await Promise.all(Array.from({ length: clients }, (_, number) => send(number)))
    await Promise.all(apis.map((api) => api.close()))
    expect(statuses.filter((status) => status === 200)).toHaveLength(limit)
    expect(statuses.filter((status) => status === 429)).toHaveLength(statuses.length - limit)
  })

  test('a process waits for permits that another process holds ahead', async () => {
    const policy = { name: 'default', limit: 600, windowS }
    const source = windowsOf(database().database)
    const other = await source.take({ scope: 'ahead', ...policy, wanted: 1, ahead: 30 })
    expect(other.granted).toBe(31)
    expect(other.returnsMs).toBeGreaterThan(0)
    let hasReturned = false
    const limiter = new RateLimiter({
      ...source,
      async take(ask) {
        const grant = await source.take({ ...ask, ahead: 0 })
        if (grant.granted === ask.wanted || hasReturned) return { ...grant, returnsMs: 0 }
        hasReturned = true
        await source.giveBack({ scope: 'ahead', ...other, unused: 30 })
        return { ...grant, returnsMs: 1 }
      },
    })
    const asked = Array.from({ length: 700 }, async () => limiter.take('ahead', policy))
    const verdicts = await Promise.all(asked)
    expect(verdicts.filter(({ allowed }) => allowed)).toHaveLength(599)
    expect(limiter.exhausted('ahead')).toBeDefined()
  })

  test('no permits are granted ahead once half of the limit is used', async () => {
    const source = windowsOf(database().database)
    const ask = { scope: 'half', limit: 60, windowS, ahead: 50 }
    expect(await source.take({ ...ask, wanted: 10 })).toMatchObject({ granted: 13, used: 13 })
    expect(await source.take({ ...ask, wanted: 20 })).toMatchObject({ granted: 20, used: 33 })
    expect(await source.take({ ...ask, wanted: 50 })).toMatchObject({ granted: 27, used: 60 })
    // Permits of a window that has ended are not returned to the next.
    const over = { ...ask, scope: 'over', wanted: 1 }
    const { startsMs } = await source.take(over)
    await source.giveBack({ scope: 'over', startsMs: startsMs - windowS * 1000, unused: 3 })
    expect(await source.take({ ...over, ahead: 0 })).toMatchObject({ used: 5 })
    await source.giveBack({ scope: 'over', startsMs, unused: 3 })
    expect(await source.take({ ...over, ahead: 0 })).toMatchObject({ used: 3 })
  })

  test('permits ahead that no request uses are returned', async () => {
    const source = windowsOf(database().database)
    const returned = Promise.withResolvers<number>()
    const limiter = new RateLimiter({
      take: (ask) => source.take({ ...ask, ahead: 30 }),
      async giveBack(permits) {
        await source.giveBack(permits)
        returned.resolve(permits.unused)
      },
    })
    await limiter.take('unused', { name: 'default', limit: 600, windowS })
    expect(await returned.promise).toBe(30)
  })

  test('a request that the database cannot count is rejected, and the next is counted', async () => {
    const policy = { name: 'default', limit: 5, windowS }
    const source = windowsOf(database().database)
    let isAway = true
    const limiter = new RateLimiter({
      ...source,
      take: (ask) => (isAway ? Promise.reject(new Error('away')) : source.take(ask)),
    })
    const lost = await Promise.allSettled([1, 2, 3].map(async () => limiter.take('away', policy)))
    expect(lost.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    isAway = false
    expect(await limiter.take('away', policy)).toMatchObject({ allowed: true, remaining: 4 })
  })

  test('windows that ended long ago are dropped', async () => {
    const { database: open } = database()
    await open.query(
      `insert into rate_windows (scope, starts_ms, ends_ms, used, granted)
       values ('long ago', 0, 60000, 1, 1)`,
    )
    const api = await startPublicApi(open)
    await (await addClient(api, open)).call('GET', INCIDENTS)
    const left = () => open.query(`select from rate_windows where scope = 'long ago'`)
    await untilHolds(async () => expect(await left()).toEqual([]))
    await api.close()
  })

  test('a new window begins with the whole limit', async () => {
    const source = windowsOf(database().database)
    const policy = { name: 'default', limit: 3, windowS }
    const spend = async (limiter: RateLimiter) => {
      let accepted = 0
      while ((await limiter.take('again', policy)).allowed) accepted++
      return accepted
    }
    expect(await spend(new RateLimiter(source))).toBe(3)
    expect(await spend(new RateLimiter(source))).toBe(0)
    // Moves the exhausted window to yesterday.
    await database().database.query(
      'update rate_windows set starts_ms = starts_ms - $1, ends_ms = ends_ms - $1',
      [windowS * 1000],
    )
    expect(await spend(new RateLimiter(source))).toBe(3)
  })
})

describe('answers', () => {
  const { database, api, client } = usePublicApi({
    defaultLimit: { limit: 3, windowS },
    trustedProxies: ['127.0.0.0/8'],
  })

  test('report the remaining quota, and 429 the time to retry', async () => {
    const left: string[] = []
    for (let asked = 0; asked < 3; asked++) {
      const { headers } = await client.call('GET', INCIDENTS)
      expect(headers.get('ratelimit-policy')).toBe(`"default";q=3;w=${windowS}`)
      expect(headers.get('ratelimit')).toMatch(/^"default";r=\d;t=\d+$/)
      left.push(headers.get('ratelimit-remaining') ?? '')
    }
    expect(left).toEqual(['2', '1', '0'])
    const over = await client.call('GET', INCIDENTS)
    expect(over.status).toBe(429)
    const resetSeconds = Number(over.headers.get('retry-after'))
    expect(resetSeconds).toBeGreaterThanOrEqual(1)
    expect(resetSeconds).toBeLessThanOrEqual(windowS)
    const quota = { policy: 'default', limit: 3, remaining: 0, windowSeconds: windowS }
    expect(over.body.attributes).toEqual({ ...quota, resetSeconds })
    // Another key of the same account has its own count.
    const { accountId } = client
    const other = await addClient(api, database().database, { accountId })
    expect((await other.call('GET', INCIDENTS)).status).toBe(200)
  })

  test('failed authentication is limited by address, and does not lock out a key that was good', async () => {
    const good = await addClient(api, database().database)
    const from = { 'x-forwarded-for': '203.0.113.7, 192.0.2.9' }
    expect((await good.call('GET', INCIDENTS, { headers: from })).status).toBe(200)
    const statuses = new Set<number>()
    const guess = async (of: Record<string, string>, number: number) => {
      const headers = { ...of, authorization: `Bearer guess${number}` }
      return (await client.call('GET', INCIDENTS, { headers })).status
    }
    for (let number = 0; number < 130; number++) statuses.add(await guess(from, number))
    expect([...statuses]).toEqual([401, 429])
    expect((await good.call('GET', INCIDENTS, { headers: from })).status).toBe(200)
    expect(await guess({ 'x-forwarded-for': '192.0.2.10' }, 0)).toBe(401)
  })
})
