// Aim: results are listed newest first without repeating or dropping one while others come, each can be read
// in full by a computed id. The state of a monitor is its newest verdict about the target, and separately why
// newer slots say nothing about it.
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { artifactOwner, type WireResult } from '../../../src/contract/protocol/agent-protocol.ts'
import { TARGET_VERDICTS, VERDICTS } from '../../../src/contract/result.ts'
import {
  noteArriving,
  noteRefused,
  settleArtifact,
} from '../../../src/platform/artifacts/queries.ts'
import { DATABASE_SERVERS, useDatabase } from '../../support/database/database.ts'
import { type TestLocation } from '../../support/platform/locations.ts'
import {
  addMonitor,
  type PlacedMonitor,
  resultAt,
  slotOf,
  wireResult,
} from '../../support/platform/placed-monitors.ts'
import { addClient, type ApiClient } from '../../support/platform/public-api.ts'
import type { Loose, PublicApi } from '../../support/platform/public-api.ts'
import { randomFrom } from '../../support/random.ts'
import {
  keyOf,
  report,
  rollUpUntil,
  startResultsApi,
} from '../../support/platform/recorded-results.ts'

const DAY_MS = 86_400_000
const isAboutTarget = (verdict: string) => TARGET_VERDICTS.some((one) => one === verdict)
const NOW = Math.floor(Date.now() / 10_000) * 10_000

const use = useDatabase(DATABASE_SERVERS[0])
let api: PublicApi
let client: ApiClient
let office: TestLocation
let plant: TestLocation

beforeAll(async () => {
  ;({ api, client, office, plant } = await startResultsApi(use().database, {
    nowMs: NOW,
    days: 3,
  }))
})
afterAll(() => api.close())

const record = (at: TestLocation, results: WireResult[]) =>
  report(use().database, { at, results, nowMs: NOW, retentionMs: 2 * DAY_MS })

/** A monitor in both locations. */
const inBoth = async (placing = {}): Promise<PlacedMonitor> => {
  const { database } = use()
  const one = await addMonitor(database, office, { fromMs: NOW - 3_600_000, ...placing })
  await addMonitor(database, plant, { ...placing, ...one })
  return one
}

const walk = async (path: string, between: () => Promise<unknown> = async () => undefined) => {
  const seen: Loose[] = []
  let nextId: string | null = ''
  while (nextId !== null) {
    const join = path.includes('?') ? '&' : '?'
    const cursor: string = nextId === '' ? '' : `${join}nextId=${nextId}`
    const { status, body } = await client.call('GET', `${path}${cursor}`)
    expect(status).toBe(200)
    expect(body.length).toBe(body.entries.length)
    seen.push(...body.entries)
    nextId = body.nextId
    await between()
  }
  return seen
}

test('a walk shows every row once, newest slot first, while rows are added', async () => {
  const one = await inBoth()
  const at = (n: number) => resultAt(one, n)
  const there = Array.from({ length: 30 }, (_, n) => at(2 * n))
  for (const location of [office, plant]) await record(location, there)
  let added = 0
  const seen = await walk(`/v2/check-results/${one.monitorId}?limit=7`, async () => {
    for (const n of [1 + 2 * added, 200 + added]) await record(office, [at(n)])
    added++
  })
  const keys = seen.map(({ slot, location }) => `${slot} ${location}`)
  expect(new Set(keys).size).toBe(keys.length)
  expect(seen.map(({ slot }) => slot)).toEqual(
    seen.map(({ slot }) => slot).toSorted((a, b) => (a < b ? 1 : -1)),
  )
  for (const { slot } of there) {
    for (const slug of ['office', 'plant']) {
      expect(keys).toContain(`${new Date(slot).toISOString()} ${slug}`)
    }
  }
  expect(new Set(seen.map(({ id }) => id)).size).toBe(seen.length)
})

test('filters by location, verdict and time', async () => {
  const one = await inBoth()
  const verdicts = ['passed', 'failed', 'degraded', 'errored', 'passed'] as const
  const batch = verdicts.map((verdict, n) => resultAt(one, n, { verdict }))
  await record(office, batch)
  await record(plant, batch.slice(0, 2))
  const count = async (queryString: string) =>
    (await walk(`/v2/check-results/${one.monitorId}?limit=2${queryString}`)).length
  expect(await count('')).toBe(7)
  expect(await count('&location=plant')).toBe(2)
  expect(await count('&location=nowhere')).toBe(0)
  expect(await count('&verdict=failed,errored')).toBe(3)
  for (const yes of ['true', '1']) expect(await count(`&hasFailures=${yes}`)).toBe(2)
  for (const no of ['false', '0']) expect(await count(`&hasFailures=${no}`)).toBe(5)
  const from = slotOf(one, 1) / 1000
  expect(await count(`&location=office&from=${from}&to=${from + 20}`)).toBe(2)
})

test('shows a result with all its stored details', async () => {
  const one = await inBoth()
  const failed = resultAt(one, 3, {
    verdict: 'failed',
    attempts: 2,
    failures: [{ code: 'CONNECTION_REFUSED', message: 'refused', details: { port: 1 } }],
    detail: { observed: { ip: '127.0.0.1' }, attempts: [{ n: 1 }, { n: 2 }] },
    artifacts: [{ name: 'a.log', bytes: 1, sha256: '0'.repeat(64), contentType: 'text/plain' }],
  })
  await record(office, [failed])
  const { responseTimeMs: _, ...silent } = wireResult({ ...one, slot: failed.slot })
  await record(plant, [{ ...silent, durationMs: 12.6 }])
  const path = `/v1/check-results/${one.monitorId}`
  const { body } = await client.call('GET', path)
  const ids = Object.fromEntries(body.map((row: Loose) => [row.location, row.id]))
  const { body: full } = await client.call('GET', `${path}/${ids['office']}`)
  expect(full).toMatchObject({
    location: 'office',
    slot: new Date(failed.slot).toISOString(),
    hasFailures: true,
    hasErrors: false,
    failureCode: 'CONNECTION_REFUSED',
    attempts: 2,
    attemptResults: [{ n: 1 }, { n: 2 }],
    observed: { ip: '127.0.0.1' },
    failures: failed.failures,
    artifacts: [{ ...failed.artifacts?.[0], id: null, state: 'awaited', refusal: null }],
    responseTime: 12,
  })
  const { body: short } = await client.call('GET', `${path}/${ids['plant']}`)
  expect(short).toMatchObject({ location: 'plant', verdict: 'passed', observed: null })
  expect(short.responseTime).toBe(13)
})

test('shows the state of each artifact: stored, refused, or missing after a day, until it arrives', async () => {
  const { database } = use()
  const one = await inBoth()
  const result = resultAt(one, 4)
  const about = { bytes: 1, sha256: '0'.repeat(64), contentType: 'text/plain' }
  const artifacts = ['a.log', 'b.zip', 'c.png'].map((name) => ({ ...about, name }))
  await record(office, [{ ...result, artifacts }])
  const of = { ...keyOf(office), ownerKey: artifactOwner(result), contentType: 'text/plain' }
  const refused = { ...of, id: randomUUID(), name: 'b.zip' }
  await noteRefused(database, refused, { refusal: 'TOO_LARGE', bytes: 9 })
  const path = `/v1/check-results/${one.monitorId}`
  const [{ id }] = (await client.call('GET', path)).body
  const states = async () => {
    const { body } = await client.call('GET', `${path}/${id}`)
    return body.artifacts.map(({ state, id: own, refusal }: Loose) => [state, own, refusal])
  }
  const refusal = ['refused', null, 'TOO_LARGE']
  const age = (interval: string) =>
    database.query(
      `update results set received_at = clock_timestamp() - $2::interval where monitor_id = $1`,
      [one.monitorId, interval],
    )
  await age('23 h')
  expect(await states()).toEqual([['awaited', null, null], refusal, ['awaited', null, null]])
  await age('25 h')
  const stored = randomUUID()
  await noteArriving(database, { ...of, id: stored, name: 'a.log', storedAs: 'x' })
  await settleArtifact(database, stored, { bytes: 1, sha256: Buffer.alloc(32) })
  expect(await states()).toEqual([['stored', stored, null], refusal, ['missing', null, null]])
})

test('an unknown result or one of another account is not found', async () => {
  const one = await inBoth()
  await record(office, [resultAt(one, 0)])
  const path = `/v1/check-results/${one.monitorId}`
  const stranger = await addClient(api, use().database)
  const [row] = (await client.call('GET', path)).body
  const asks: [ApiClient, string][] = [
    [client, `/v1/check-results/${randomUUID()}`],
    [client, `${path}/${randomUUID()}`],
    [stranger, path],
    [stranger, `${path}/${row.id}`],
    [stranger, `/v1/check-statuses/${one.monitorId}`],
    [stranger, `/v1/analytics/url-monitors/${one.monitorId}`],
  ]
  for (const [who, where] of asks) expect((await who.call('GET', where)).status).toBe(404)
  expect((await stranger.call('GET', '/v1/check-statuses')).body).toEqual([])
})

test.each([
  'verdict=fine',
  'from=x',
  'nextId=AAAA',
  'limit=0',
  'resultType=ALL',
  'fields=id,apiCheckResult',
])('%s is refused', async (queryString) => {
  const one = await inBoth()
  const { status } = await client.call('GET', `/v2/check-results/${one.monitorId}?${queryString}`)
  expect(status).toBe(400)
})

test('pages of the first version are arrays, and fields of the second are chosen', async () => {
  const one = await inBoth()
  const verdicts = ['passed', 'failed', 'passed'] as const
  const batch = verdicts.map((verdict, n) => resultAt(one, n, { verdict }))
  await record(office, batch)
  const ask = async (path: string) =>
    (await client.call('GET', path.replace('ID', one.monitorId))).body
  const { entries } = await ask('/v2/check-results/ID')
  expect(entries).toHaveLength(3)
  expect(await ask('/v1/check-results/ID?limit=2')).toEqual(entries.slice(0, 2))
  expect(await ask('/v1/check-results/ID?limit=2&page=2')).toEqual(entries.slice(2))
  expect(await ask('/v1/check-results/ID?hasFailures=true')).toEqual([entries[1]])
  expect(await ask('/v1/check-results/ID?hasFailures=false&checkType=URL')).toHaveLength(2)
  expect(await ask('/v1/check-results/ID?checkType=TCP')).toEqual([])
  const { id, runLocation } = entries[0]
  expect(runLocation).toBe('office')
  const few = await ask('/v2/check-results/ID?fields=id,runLocation&resultType=FINAL&limit=1')
  expect(few.entries).toEqual([{ id, runLocation }])
  const repeated = await ask('/v2/check-results/ID?fields=id&fields[]=runLocation&limit=1')
  expect(repeated.entries).toEqual([{ id, runLocation }])
})

describe('the state of a monitor', () => {
  const send = (at: TestLocation, of: PlacedMonitor, verdicts: WireResult['verdict'][]) =>
    record(
      at,
      verdicts.map((verdict, n) => resultAt(of, n, { verdict })),
    )
  const iso = (of: PlacedMonitor, n: number) => new Date(slotOf(of, n)).toISOString()

  test('is that of its newest slots, with its start', async () => {
    const one = await inBoth()
    const path = `/v1/check-statuses/${one.monitorId}`
    expect((await client.call('GET', path)).body).toMatchObject({
      verdict: null,
      locations: [
        { location: 'office', verdict: null, lastSlot: null, since: null },
        { location: 'plant', lastCheckResultId: null },
      ],
    })
    await send(office, one, ['passed', 'failed', 'passed', 'passed', 'passed'])
    await send(plant, one, ['passed', 'degraded', 'missed', 'missed'])
    const { body } = await client.call('GET', path)
    expect(body).toMatchObject({
      verdict: 'degraded',
      hasFailures: false,
      hasErrors: true,
      isDegraded: true,
      locations: [
        { verdict: 'passed', lastSlot: iso(one, 4), since: iso(one, 2), silence: null },
        {
          verdict: 'degraded',
          lastSlot: iso(one, 1),
          since: iso(one, 1),
          silence: {
            verdict: 'missed',
            missedReason: 'overloaded',
            lastSlot: iso(one, 3),
            since: iso(one, 2),
          },
        },
      ],
    })
    const id = body.locations[0].lastCheckResultId
    const newest = await client.call('GET', `/v1/check-results/${one.monitorId}/${id}`)
    expect(newest.body.slot).toBe(iso(one, 4))
  })

  test('is failed while a failing monitor is still running at its next slots', async () => {
    const one = await inBoth()
    await send(office, one, ['passed', 'failed', 'missed', 'missed', 'failed', 'missed'])
    await send(plant, one, ['missed', 'errored'])
    const { body } = await client.call('GET', `/v1/check-statuses/${one.monitorId}`)
    expect(body).toMatchObject({
      verdict: 'failed',
      hasFailures: true,
      hasErrors: true,
      locations: [
        {
          verdict: 'failed',
          lastSlot: iso(one, 4),
          since: iso(one, 1),
          silence: { verdict: 'missed', lastSlot: iso(one, 5), since: iso(one, 5) },
        },
        {
          verdict: null,
          lastSlot: null,
          since: null,
          lastCheckResultId: null,
          silence: { verdict: 'errored', missedReason: null, since: iso(one, 0) },
        },
      ],
    })
  })

  const storyOf = (seed: number): WireResult['verdict'][] => {
    // One that failed once, long ago.
    if (seed === 0) return Array.from({ length: 100 }, (_, n) => (n === 20 ? 'failed' : 'passed'))
    const random = randomFrom(seed)
    const among = [...VERDICTS].slice(random.below(3))
    let verdict: WireResult['verdict'] = 'passed'
    return Array.from({ length: 100 }, () => {
      if (random.below(12) === 0) verdict = among[random.below(among.length)] ?? 'missed'
      return random.below(4) === 0 ? 'missed' : verdict
    })
  }

  test.each([0, 1, 2, 3, 4])(
    'is the same whether hours were rolled up or not (story %i)',
    async (seed) => {
      const one = await inBoth({ fromMs: NOW - DAY_MS, everyMs: 600_000 })
      const verdicts = storyOf(seed)
      await send(office, one, verdicts)
      const at = verdicts.findLastIndex((verdict) => isAboutTarget(verdict))
      const verdict = verdicts[at]
      const others = verdicts.findLastIndex((it) => isAboutTarget(it) && it !== verdict)
      const first = verdicts.findIndex((it, n) => n > others && it === verdict)
      const own = verdicts.at(-1)
      const plain = {
        verdict: verdict ?? null,
        lastSlot: at < 0 ? null : iso(one, at),
        since: at < 0 ? null : iso(one, first),
        silence:
          at === 99 ? null : { verdict: own, lastSlot: iso(one, 99), since: iso(one, at + 1) },
      }
      const path = `/v1/check-statuses/${one.monitorId}`
      await use().database.query('truncate rollups, rollups_done, rollups_due')
      expect((await client.call('GET', path)).body.locations[0]).toMatchObject(plain)
      await rollUpUntil(use().database, NOW - 200_000)
      expect((await client.call('GET', path)).body.locations[0]).toMatchObject(plain)
    },
  )

  test('is listed for all monitors', async () => {
    const { body: all } = await client.call<Loose[]>('GET', '/v1/check-statuses')
    const rows = await use().database.query<{ id: string }>(
      'select id from monitors where account_id = $1 order by created_at desc, id desc',
      [client.accountId],
    )
    expect(all.map(({ checkId }) => checkId)).toEqual(rows.map(({ id }) => id))
  })
})
