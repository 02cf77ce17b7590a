// Aim: results are listed newest first without repeating or dropping one while others come, each can be read
// in full by a computed id. The state of a monitor is its newest verdict about the target, and separately why
// newer slots say nothing about it.
import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
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
import type { ApiClient, Loose } from '../../support/platform/public-api.ts'
import { randomFrom } from '../../support/random.ts'
import {
  keyOf,
  report,
  rollUpUntil,
  useResultsApi,
} from '../../support/platform/recorded-results.ts'

const DAY_MS = 86_400_000
const isAboutTarget = (verdict: string) => TARGET_VERDICTS.some((one) => one === verdict)
const NOW = Math.floor(Date.now() / 10_000) * 10_000

const use = useDatabase(DATABASE_SERVERS[0])
const api = useResultsApi(use, { nowMs: NOW, days: 3 })

const record = (at: TestLocation, results: WireResult[]) =>
  report(use().database, { at, results, nowMs: NOW, retentionMs: 2 * DAY_MS })

const batchOf = (of: PlacedMonitor, ...verdicts: WireResult['verdict'][]) =>
  verdicts.map((verdict, n) => resultAt(of, n, { verdict }))

/** A monitor in both locations, and the paths of its results and its state. */
const inBoth = async (placing = {}) => {
  const { database } = use()
  const one = await addMonitor(database, api.office, { fromMs: NOW - 3_600_000, ...placing })
  await addMonitor(database, api.plant, { ...placing, ...one })
  const path = `/v1/check-results/${one.monitorId}`
  return { ...one, path, status: `/v1/check-statuses/${one.monitorId}` }
}

const walk = async (
  { monitorId }: PlacedMonitor,
  query: string,
  between: () => Promise<unknown> = async () => undefined,
) => {
  const seen: Loose[] = []
  let nextId: string | null = ''
  while (nextId !== null) {
    const cursor: string = nextId === '' ? '' : `&nextId=${nextId}`
    const body = await api.client.get(`/v2/check-results/${monitorId}?${query}${cursor}`)
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
  for (const location of [api.office, api.plant]) await record(location, there)
  let added = 0
  const seen = await walk(one, 'limit=7', async () => {
    for (const n of [1 + 2 * added, 200 + added]) await record(api.office, [at(n)])
    added++
  })
  const slots: string[] = seen.map(({ slot }) => slot)
  expect(slots).toEqual(slots.toSorted().toReversed())
  const keys = seen.map(({ slot, location }) => `${slot} ${location}`)
  const wanted = there.flatMap(({ slot }) =>
    ['office', 'plant'].map((slug) => `${new Date(slot).toISOString()} ${slug}`),
  )
  expect(keys).toEqual(expect.arrayContaining(wanted))
  const sizes = [keys, seen.map(({ id }) => id)].map((all) => new Set(all).size)
  expect(sizes).toEqual([seen.length, seen.length])
})

test('filters by location, verdict and time', async () => {
  const one = await inBoth()
  const batch = batchOf(one, 'passed', 'failed', 'degraded', 'errored', 'passed')
  await record(api.office, batch)
  await record(api.plant, batch.slice(0, 2))
  const count = async (query: string) => (await walk(one, `limit=2${query}`)).length
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
  await record(api.office, [failed])
  const { responseTimeMs: _, ...silent } = wireResult({ ...one, slot: failed.slot })
  await record(api.plant, [{ ...silent, durationMs: 12.6 }])
  const rows: Loose[] = await api.client.get(one.path)
  const of = (slug: string) =>
    api.client.get(`${one.path}/${rows.find((row) => row.location === slug).id}`)
  expect(await of('office')).toMatchObject({
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
  const short = { location: 'plant', verdict: 'passed', observed: null, responseTime: 13 }
  expect(await of('plant')).toMatchObject(short)
})

test('shows the state of each artifact: stored, refused, or missing after a day, until it arrives', async () => {
  const { database } = use()
  const one = await inBoth()
  const result = resultAt(one, 4)
  const about = { bytes: 1, sha256: '0'.repeat(64), contentType: 'text/plain' }
  const artifacts = ['a.log', 'b.zip', 'c.png'].map((name) => ({ ...about, name }))
  await record(api.office, [{ ...result, artifacts }])
  const of = { ...keyOf(api.office), ownerKey: artifactOwner(result), contentType: 'text/plain' }
  const refused = { ...of, id: randomUUID(), name: 'b.zip' }
  await noteRefused(database, refused, { refusal: 'TOO_LARGE', bytes: 9 })
  const [{ id }] = await api.client.get(one.path)
  const states = async () =>
    (await api.client.get(`${one.path}/${id}`)).artifacts.map((own: Loose) => [
      own.state,
      own.id,
      own.refusal,
    ])
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
  await record(api.office, [resultAt(one, 0)])
  const stranger = await api.addClient()
  const [row] = await api.client.get(one.path)
  const asks: [ApiClient, string][] = [
    [api.client, `/v1/check-results/${randomUUID()}`],
    [api.client, `${one.path}/${randomUUID()}`],
    [stranger, one.path],
    [stranger, `${one.path}/${row.id}`],
    [stranger, one.status],
    [stranger, `/v1/analytics/url-monitors/${one.monitorId}`],
  ]
  for (const [who, where] of asks) expect(await who.status('GET', where)).toBe(404)
  expect(await stranger.get('/v1/check-statuses')).toEqual([])
})

test.each(
  'verdict=fine from=x nextId=AAAA limit=0 resultType=ALL fields=id,apiCheckResult'.split(' '),
)('%s is refused', async (query) => {
  const path = `/v2/check-results/${(await inBoth()).monitorId}?${query}`
  expect(await api.client.status('GET', path)).toBe(400)
})

test('pages of the first version are arrays, and fields of the second are chosen', async () => {
  const one = await inBoth()
  await record(api.office, batchOf(one, 'passed', 'failed', 'passed'))
  const ask = (path: string) => api.client.get(path.replace('ID', one.monitorId))
  const { entries } = await ask('/v2/check-results/ID')
  expect(entries).toHaveLength(3)
  expect(await ask('/v1/check-results/ID?limit=2')).toEqual(entries.slice(0, 2))
  expect(await ask('/v1/check-results/ID?limit=2&page=2')).toEqual(entries.slice(2))
  expect(await ask('/v1/check-results/ID?hasFailures=true')).toEqual([entries[1]])
  expect(await ask('/v1/check-results/ID?hasFailures=false&checkType=URL')).toHaveLength(2)
  expect(await ask('/v1/check-results/ID?checkType=TCP')).toEqual([])
  const { id, runLocation } = entries[0]
  expect(runLocation).toBe('office')
  for (const fields of [
    'fields=id,runLocation&resultType=FINAL',
    'fields=id&fields[]=runLocation',
  ]) {
    const few = await ask(`/v2/check-results/ID?${fields}&limit=1`)
    expect(few.entries).toEqual([{ id, runLocation }])
  }
})

describe('the state of a monitor', () => {
  const iso = (of: PlacedMonitor, n: number) => new Date(slotOf(of, n)).toISOString()

  test('is that of its newest slots, with its start', async () => {
    const one = await inBoth()
    expect(await api.client.get(one.status)).toMatchObject({
      verdict: null,
      locations: [
        { location: 'office', verdict: null, lastSlot: null, since: null },
        { location: 'plant', lastCheckResultId: null },
      ],
    })
    await record(api.office, batchOf(one, 'passed', 'failed', 'passed', 'passed', 'passed'))
    await record(api.plant, batchOf(one, 'passed', 'degraded', 'missed', 'missed'))
    const body = await api.client.get(one.status)
    const missed = { verdict: 'missed', missedReason: 'overloaded' }
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
          silence: { ...missed, lastSlot: iso(one, 3), since: iso(one, 2) },
        },
      ],
    })
    const newest = await api.client.get(`${one.path}/${body.locations[0].lastCheckResultId}`)
    expect(newest.slot).toBe(iso(one, 4))
  })

  test('is failed while a failing monitor is still running at its next slots', async () => {
    const one = await inBoth()
    const verdicts = ['passed', 'failed', 'missed', 'missed', 'failed', 'missed'] as const
    await record(api.office, batchOf(one, ...verdicts))
    await record(api.plant, batchOf(one, 'missed', 'errored'))
    expect(await api.client.get(one.status)).toMatchObject({
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

  test.each([0, 1, 2, 3, 4])('is the same with and without rollups (story %i)', async (seed) => {
    const one = await inBoth({ fromMs: NOW - DAY_MS, everyMs: 600_000 })
    const verdicts = storyOf(seed)
    await record(api.office, batchOf(one, ...verdicts))
    const at = verdicts.findLastIndex((it) => isAboutTarget(it))
    const verdict = verdicts[at]
    const others = verdicts.findLastIndex((it) => isAboutTarget(it) && it !== verdict)
    const first = verdicts.findIndex((it, n) => n > others && it === verdict)
    const silence = { verdict: verdicts[99], lastSlot: iso(one, 99), since: iso(one, at + 1) }
    const plain = {
      verdict: verdict ?? null,
      lastSlot: at < 0 ? null : iso(one, at),
      since: at < 0 ? null : iso(one, first),
      silence: at === 99 ? null : silence,
    }
    await use().database.query('truncate rollups, rollups_done, rollups_due')
    expect((await api.client.get(one.status)).locations[0]).toMatchObject(plain)
    await rollUpUntil(use().database, NOW - 200_000)
    expect((await api.client.get(one.status)).locations[0]).toMatchObject(plain)
  })

  test('is listed for all monitors', async () => {
    const all: Loose[] = await api.client.get('/v1/check-statuses')
    const rows = await use().database.query(
      'select id from monitors where account_id = $1 order by created_at desc, id desc',
      [api.client.accountId],
    )
    expect(all.map(({ checkId }) => checkId)).toEqual(rows.map(({ id }) => id))
  })
})
