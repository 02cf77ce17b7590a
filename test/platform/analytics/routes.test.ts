// Aim: analytics give the same as a plain computation on all results, for hours that are rolled up or not, changed
// by late results, or only partly in the span.
import { beforeAll, beforeEach, expect, test } from 'vitest'
import type { WireResult } from '../../../src/contract/protocol/agent-protocol.ts'
import { RELATIVE_ERROR } from '../../../src/platform/analytics/response-histogram.ts'
import { DATABASE_SERVERS, useDatabase } from '../../support/database/database.ts'
import type { TestLocation } from '../../support/platform/locations.ts'
import {
  addMonitor,
  type PlacedMonitor,
  resultAt,
  slotOf,
} from '../../support/platform/placed-monitors.ts'
import type { ApiClient, Loose } from '../../support/platform/public-api.ts'
import { type Random, randomFrom } from '../../support/random.ts'
import { report, rollUpUntil, useResultsApi } from '../../support/platform/recorded-results.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const NOW = Math.floor(Date.now() / HOUR_MS) * HOUR_MS + 1_234_000
const VERDICTS = ['passed', 'passed', 'passed', 'degraded', 'failed', 'errored', 'missed'] as const

const use = useDatabase(DATABASE_SERVERS[0])
const api = useResultsApi(use, { nowMs: NOW, days: 4 })
let client: ApiClient
let monitor: PlacedMonitor
const sent: (WireResult & { slug: string })[] = []
const random = randomFrom(7)

beforeAll(async () => {
  const { database } = use()
  const timing = { fromMs: NOW - 2 * DAY_MS, everyMs: 60_000 }
  monitor = await addMonitor(database, api.office, timing)
  await addMonitor(database, api.plant, { ...timing, ...monitor })
  for (const at of [api.office, api.plant]) await send(at, slots(0, 2 * 1440 - 1, random))
  await rolledUp()
})
// A separate key for each test: analytics have a low rate limit.
beforeEach(async () => {
  client = await api.addClient(api.client)
})

/** Records most of the slots numbered [from, to). */
const slots = (from: number, to: number, among: Random) =>
  Array.from({ length: to - from }, (_, n) => from + n).filter(() => among.below(10) > 0)

const send = async (at: TestLocation, numbers: number[]) => {
  const results = numbers.map((n) => aResult(monitor, n, random))
  for (let start = 0; start < results.length; start += 1000) {
    const batch = results.slice(start, start + 1000)
    const reported = { at, results: batch, nowMs: NOW, retentionMs: 3 * DAY_MS }
    const answer = await report(use().database, reported)
    expect(answer).toMatchObject({ refused: [], recorded: batch.length })
  }
  sent.push(...results.map((one) => ({ ...one, slug: at.slugName })))
}

const rolledUp = () => rollUpUntil(use().database, NOW - 120_000)

const ask = async (queryString: string): Promise<Loose> => {
  const path = `/v1/analytics/url-monitors/${monitor.monitorId}?${queryString}`
  const { status, text, body } = await client.call('GET', path)
  expect([status, status === 200 ? '' : text]).toEqual([200, ''])
  return body
}

const holds = (data: Loose, slug: string | null) => {
  const from = Date.parse(data.from)
  const to = Date.parse(data.to)
  const some = sent.filter(
    (one) => one.slot >= from && one.slot < to && (slug === null || one.slug === slug),
  )
  expect(data).toMatchObject(plainly(some))
  const all = some.flatMap(({ responseTimeMs }) => responseTimeMs ?? [])
  const times = all.toSorted((a, b) => a - b)
  expect(data.responseTime_median).toBe(data.responseTime_p50)
  for (const percent of [50, 95, 99]) {
    const exact = times[Math.max(1, Math.ceil((percent / 100) * times.length)) - 1]
    const shown = data[`responseTime_p${percent}`]
    if (exact === undefined) expect(shown).toBeNull()
    else expect(Math.abs(shown - exact) / exact).toBeLessThan(RELATIVE_ERROR * 1.01)
  }
}

const spans: [string, string][] = [
  ['the last day', 'quickRange=last24Hours'],
  ['by default', ''],
  ['everything', 'quickRange=last7Days'],
  ['by hours', 'quickRange=last24Hours&interval=hour'],
  ['by days and location', 'quickRange=last7Days&interval=day&groupBy=location'],
  ['by location', 'groupBy=location'],
  ['whole hours', `from=${seconds(-30, 0)}&to=${seconds(-3, 0)}`],
  ['cut hours', `from=${seconds(-30, 777)}&to=${seconds(-3, 1234)}&interval=hour`],
  ['within an hour', `from=${seconds(-3, 100)}&to=${seconds(-3, 2000)}`],
  ['over the newest hours', `from=${seconds(-2, 1)}&interval=hour`],
]

/** Compares every figure with the plain computation; returns the number of results. */
const compare = async (queryString: string) => {
  const { series, checkId } = await ask(queryString)
  expect(checkId).toBe(monitor.monitorId)
  let total = 0
  for (const { location, data } of series) {
    for (const one of data) {
      holds(one, location)
      total += one.counts.total
    }
  }
  return total
}

test.each(spans)('%s', async (_, queryString) => {
  expect(await compare(queryString)).toBeGreaterThan(0)
})

test('after late results, before and after they are rolled up', async () => {
  const known = new Set(sent.filter(({ slug }) => slug === 'office').map(({ slot }) => slot))
  const late = Array.from({ length: 2 * 1440 - 1 }, (_, n) => n).filter(
    (n) => !known.has(slotOf(monitor, n)),
  )
  await send(api.office, late)
  const due = () => use().database.query('select from rollups_due')
  expect((await due()).length).toBeGreaterThan(10)
  for (const [, queryString] of spans) expect(await compare(queryString)).toBeGreaterThan(0)
  await rolledUp()
  expect(await due()).toHaveLength(0)
  for (const [, queryString] of spans) expect(await compare(queryString)).toBeGreaterThan(0)
})

test.each([
  ['chosen figures only', ['availability', 'responseTime_p95'], []],
  ['unmeasured figures are left out', ['availability'], ['wait_avg', 'wait_stddev']],
])('%s', async (_, shown, hidden) => {
  const { series, metadata } = await ask(`metrics=${[...shown, ...hidden].join(',')}`)
  expect(Object.keys(metadata)).toEqual(shown)
  const availability = { unit: 'percentage', aggregation: 'avg', label: 'Availability' }
  expect(metadata).toMatchObject({ availability })
  expect(Object.keys(series[0].data[0])).toEqual(['from', 'to', 'counts', ...shown])
})

test('a type has its response time also under its own name', async () => {
  const { database } = use()
  const placing = { fromMs: NOW - DAY_MS, everyMs: 60_000, checkType: 'TCP' }
  const tcp = await addMonitor(database, api.office, placing)
  const results = [1, 2, 3].map((n) => aResult(tcp, n, randomFrom(3)))
  await report(database, { at: api.office, results, nowMs: NOW })
  for (const path of ['tcp-checks', 'tcp-monitors']) {
    const asked = `/v1/analytics/${path}/${tcp.monitorId}?groupBy=runLocation&quickRange=last7Days`
    const { body } = await client.call('GET', asked)
    const [{ runLocation, data }] = body.series
    const own = { total_p90: data[0].responseTime_p90, total_avg: expect.any(Number) }
    expect([runLocation, data[0]]).toMatchObject(['office', { counts: { total: 3 }, ...own }])
  }
})

test('the listed figures of a type are those that it has', async () => {
  const { body } = await client.call('GET', '/v1/analytics/metrics?checkType=URL')
  const { metadata } = await ask('')
  const names = (all: Loose[]) => all.map(({ name }) => name)
  expect(names(body)).toEqual(Object.keys(metadata))
  const { body: all } = await client.call('GET', '/v1/analytics/metrics')
  expect(names(all)).toEqual(expect.arrayContaining([...names(body), 'total_avg']))
  expect(new Set(names(all)).size).toBe(all.length)
})

test('several checks in one request give the same as each alone', async () => {
  const path = '/v1/analytics/checks?quickRange=last7Days'
  const checkIds = [monitor.monitorId, '00000000-0000-4000-8000-000000000000']
  const { status, body } = await client.call('POST', path, { body: { checkIds } })
  expect([status, body.length]).toEqual([200, 1])
  const alone = (await ask('quickRange=last7Days')).series[0].data[0]
  const { checkId, checkType, ...figures } = body[0]
  expect([checkId, checkType]).toEqual([monitor.monitorId, 'URL'])
  expect(alone).toMatchObject(figures)
  const stranger = await api.addClient()
  expect((await stranger.call('POST', path, { body: { checkIds } })).body).toEqual([])
})

test('weeks and months begin and end with a day of UTC', async () => {
  const spanOf = async (range: string) => {
    const { from, to } = await ask(`quickRange=${range}`)
    expect(Date.parse(from) % DAY_MS).toBe(0)
    return { from: new Date(from), to: new Date(to) }
  }
  const [week, lastWeek] = [await spanOf('thisWeek'), await spanOf('lastWeek')]
  const [month, lastMonth] = [await spanOf('thisMonth'), await spanOf('lastMonth')]
  expect([week.from.getUTCDay(), month.from.getUTCDate(), lastMonth.from.getUTCDate()]).toEqual([
    1, 1, 1,
  ])
  expect([week.to, month.to]).toEqual([new Date(NOW), new Date(NOW)])
  expect([lastWeek.to, lastMonth.to]).toEqual([week.from, month.from])
  expect(week.from.getTime() - lastWeek.from.getTime()).toBe(7 * DAY_MS)
})

test.each([
  ['another type', 'tcp-monitors', '', 404],
  ['a span and a quick one', 'url-monitors', 'quickRange=last7Days&from=1', 400],
  ['a span that ends before it begins', 'url-monitors', 'from=20&to=10', 400],
  ['too long a span', 'url-monitors', 'from=1', 400],
  ['too many steps', 'url-monitors', `from=${seconds(-24 * 60, 0)}&interval=hour`, 400],
  ['steps asked for twice', 'url-monitors', 'interval=hour&aggregationInterval=60', 400],
  ['steps of another length', 'url-monitors', 'aggregationInterval=5', 400],
  ['a filter of figures', 'url-monitors', 'filterByStatus=success', 400],
  ['an unknown figure', 'url-monitors', 'metrics=availability,speed', 400],
])('%s is refused', async (_, path, queryString, status) => {
  const asked = `/v1/analytics/${path}/${monitor.monitorId}?${queryString}`
  expect(await client.status('GET', asked)).toBe(status)
})

/** Seconds since the epoch, so many hours and seconds from the present hour. */
function seconds(hours: number, more: number): number {
  return Math.floor(NOW / HOUR_MS) * 3600 + hours * 3600 + more
}

function aResult(of: PlacedMonitor, n: number, among: Random): WireResult {
  const verdict = VERDICTS[among.below(VERDICTS.length)] ?? 'passed'
  const isAnswered = verdict !== 'missed' && verdict !== 'errored'
  const { responseTimeMs: _, ...rest } = resultAt(of, n, { verdict })
  return isAnswered ? { ...rest, responseTimeMs: 1 + among.below(2_000_000) / 1000 } : rest
}

/** Counts, availability, mean, minimum and maximum, computed plainly. */
function plainly(some: WireResult[]) {
  const count = (...of: string[]) => some.filter(({ verdict }) => of.includes(verdict)).length
  const times = some.flatMap(({ responseTimeMs }) => responseTimeMs ?? [])
  const about = count('passed', 'degraded', 'failed')
  const ratio = (100 * count('passed', 'degraded')) / about
  const mean = times.reduce((sum, one) => sum + one, 0) / times.length
  const verdicts = ['passed', 'degraded', 'failed', 'errored', 'cancelled', 'missed']
  const counts = Object.fromEntries(verdicts.map((verdict) => [verdict, count(verdict)]))
  return {
    counts: { total: some.length, ...counts },
    availability: about === 0 ? null : expect.closeTo(ratio, 3),
    responseTime_avg: times.length === 0 ? null : expect.closeTo(mean, 1),
    responseTime_sum: times.length === 0 ? null : expect.closeTo(mean * times.length, 0),
    responseTime_min: times.length === 0 ? null : expect.closeTo(Math.min(...times), 1),
    responseTime_max: times.length === 0 ? null : expect.closeTo(Math.max(...times), 1),
  }
}
