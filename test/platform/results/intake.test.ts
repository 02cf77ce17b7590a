// Aim: each slot is recorded once, by the first real result. A wrong result alone is refused, with its code, and
// does not affect others, also when the same batches arrive concurrently. A batch is accepted compressed or plain;
// a broken or too large one or a gzip bomb is refused as a whole.
import { randomUUID } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { beforeAll, expect, test } from 'vitest'
import { PROTOCOL_BOUNDS, type WireResult } from '../../../src/contract/protocol/agent-protocol.ts'
import type { OnRecorded, Recorded } from '../../../src/platform/results/recorded.ts'
import { recordDropped } from '../../../src/platform/results/intake.ts'
import { ensurePartitions } from '../../../src/platform/results/queries/result-partitions.ts'
import { useAgentsApi } from '../../support/platform/agents-api.ts'
import { DATABASE_SERVERS, useDatabase } from '../../support/database/database.ts'
import { addLocation, type TestLocation } from '../../support/platform/locations.ts'
import { addResult, addRun } from '../../support/platform/monitor-rows.ts'
import {
  addMonitor,
  type PlacedMonitor,
  resultAt,
  slotOf,
} from '../../support/platform/placed-monitors.ts'
import { keyOf, report } from '../../support/platform/recorded-results.ts'

const DAY_MS = 86_400_000
const NOW = Math.floor(Date.now() / 10_000) * 10_000
const WHEN = { nowMs: NOW, retentionMs: DAY_MS / 2 }

const use = useDatabase(DATABASE_SERVERS[0])
const query = (text: string, values: unknown[]) => use().database.query(text, values)
const { api } = useAgentsApi(use)
let here: TestLocation

beforeAll(async () => {
  await ensurePartitions(use().database, NOW - 2 * DAY_MS, NOW + DAY_MS)
  here = await addLocation(use().database)
})

const record = (
  results: unknown[],
  more: { at?: TestLocation; onRecorded?: OnRecorded[]; agentId?: string } = {},
) => report(use().database, { at: here, results, ...WHEN, ...more })

const rowsOf = ({ monitorId }: Pick<PlacedMonitor, 'monitorId'>) =>
  query(
    `select *, (extract(epoch from slot) * 1000)::bigint as slot_ms
     from results where monitor_id = $1 order by slot`,
    [monitorId],
  )

const another = (placing = {}) =>
  addMonitor(use().database, here, { fromMs: NOW - 3_600_000, ...placing })

test('a batch is recorded, and onRecorded is called in the same transaction', async () => {
  const one = await another()
  const batches: Recorded[] = []
  const failed = resultAt(one, 350, {
    monitorId: one.monitorId.toUpperCase(),
    verdict: 'failed',
    attempts: 2,
    failures: [{ code: 'CONNECTION_REFUSED', message: 'refused by 127.0.0.1' }],
    detail: { observed: { ip: '127.0.0.1' }, attempts: [{ verdict: 'failed' }] },
  })
  const missed = resultAt(one, 1, { verdict: 'missed' })
  const agentId = randomUUID()
  const answer = await record([failed, resultAt(one, 0), missed], {
    agentId,
    onRecorded: [async (_, recorded) => void batches.push(recorded)],
  })
  expect(answer).toEqual({ recorded: 3, known: 0, refused: [] })
  const results = [{ late: false }, { late: true }, { late: true }]
  expect(batches).toMatchObject([{ accountId: here.accountId, agentId, results }])
  expect(await rowsOf(one)).toMatchObject([
    { verdict: 'passed', detail: null, response_time_ms: 11.5, agent_id: agentId },
    { verdict: 'missed', missed_reason: 'overloaded', filled: false },
    {
      slot_ms: slotOf(one, 350),
      verdict: 'failed',
      failure_code: 'CONNECTION_REFUSED',
      detail: { observed: { ip: '127.0.0.1' }, failures: [{ message: 'refused by 127.0.0.1' }] },
    },
  ])
})

test('a batch is rolled back when onRecorded fails', async () => {
  const one = await another()
  const refuse: OnRecorded = () => Promise.reject(new Error('no'))
  await expect(record([resultAt(one, 0)], { onRecorded: [refuse] })).rejects.toThrow('no')
  expect(await rowsOf(one)).toEqual([])
})

const refusals: [string, (of: PlacedMonitor) => unknown, string][] = [
  ['no object', () => 'passed', 'MALFORMED'],
  ['null', () => null, 'MALFORMED'],
  ['an unknown verdict', () => ({ verdict: 'fine' }), 'MALFORMED'],
  ['a slot that is no whole number', () => ({ slot: 1.5 }), 'MALFORMED'],
  ['missed without a reason', () => ({ verdict: 'missed' }), 'MALFORMED'],
  ['a missing field', () => ({ startedAt: undefined }), 'MALFORMED'],
  ['nesting without end', () => ({ detail: nested(100_000) }), 'MALFORMED'],
  ['ten megabytes', () => ({ detail: large(10_000_000) }), 'TOO_LARGE'],
  ['no monitor at all', () => ({ monitorId: randomUUID() }), 'MONITOR_UNKNOWN'],
  ['no slot of it', (of) => ({ slot: slotOf(of, 3) + 1 }), 'SLOT_UNKNOWN'],
  ['before it was placed', (of) => ({ slot: slotOf(of, -1) }), 'SLOT_UNKNOWN'],
  ['that started before anybody could know of it', () => ({ startedAt: 0 }), 'MALFORMED'],
  ['that starts in another age', () => ({ startedAt: 8.64e15 }), 'MALFORMED'],
  ['missed for a reason of the platform', () => NO_CAPABLE_AGENT, 'MALFORMED'],
  ['ten seconds ahead', () => ({ slot: NOW + 10_000 }), 'SLOT_AHEAD'],
  ['older than retention', () => ({ slot: NOW - DAY_MS }), 'TOO_OLD'],
  ['a run of nobody', () => ({ onDemand: randomUUID() }), 'RUN_UNKNOWN'],
]
const NO_CAPABLE_AGENT = { verdict: 'missed', missedReason: 'no-capable-agent' }
const large = (bytes: number) => ({ observed: { body: 'x'.repeat(bytes) }, attempts: [] })

test.each(refusals)('%s is refused, and its neighbours are recorded', async (_, make, code) => {
  const one = await another()
  const odd = make(one)
  const result = typeof odd === 'object' && odd !== null ? { ...resultAt(one, 0), ...odd } : odd
  const answer = await record([resultAt(one, 0), result, resultAt(one, 1)])
  expect(answer).toMatchObject({ recorded: 2, known: 0, refused: [{ index: 1, code }] })
  expect(await rowsOf(one)).toHaveLength(2)
})

test('a monitor of another location is unknown, also in the same account', async () => {
  const elsewhere = await addLocation(use().database, { accountId: here.accountId })
  const answer = await record([resultAt(await another(), 0)], { at: elsewhere })
  expect(answer).toMatchObject({ recorded: 0, refused: [{ index: 0, code: 'MONITOR_UNKNOWN' }] })
})

test('text that PostgreSQL cannot store is replaced, in keys as well', async () => {
  const one = await another()
  const text = 'a\0b\uD800c 😀 "\\u0000" \\'
  const failures = [{ code: 'X\0', message: text, details: { ['k\0']: text } }]
  await record([resultAt(one, 0, { verdict: 'failed', failures })])
  const stored = 'a\uFFFDb\uFFFDc 😀 "\\u0000" \\'
  expect(await rowsOf(one)).toMatchObject([
    {
      failure_code: 'X\uFFFD',
      detail: { failures: [{ message: stored, details: { 'k\uFFFD': stored } }] },
    },
  ])
})

test('numbers at their bounds are stored', async () => {
  const one = await another()
  const tiny = { durationMs: 1e-300, responseTimeMs: Number.MIN_VALUE }
  const huge = { durationMs: 86_400_000, attempts: 100 }
  const answer = await record([resultAt(one, 0, tiny), resultAt(one, 1, huge)])
  expect(answer).toEqual({ recorded: 2, known: 0, refused: [] })
})

test('of a slot that occurs twice in a batch the first stays, but a missed one is replaced', async () => {
  const one = await another()
  const batch = [
    resultAt(one, 0, { verdict: 'failed' }),
    resultAt(one, 0),
    resultAt(one, 1, { verdict: 'missed' }),
    resultAt(one, 1),
  ]
  expect(await record(batch)).toEqual({ recorded: 2, known: 2, refused: [] })
  expect(await rowsOf(one)).toMatchObject([{ verdict: 'failed' }, { verdict: 'passed' }])
})

/** The row of a slot as the platform fills it in. */
const fillIn = (of: PlacedMonitor, n: number, reason: string) => {
  const row = { monitorId: of.monitorId, slotMs: slotOf(of, n), reason, filled: true }
  return addResult(use().database, here, row)
}

test('the first real result wins; it replaces a missed one, and anything replaces a filled-in one', async () => {
  const one = await another()
  const send = async (verdict: WireResult['verdict']) => {
    const { recorded } = await record([resultAt(one, 0, { verdict })])
    const [row] = await rowsOf(one)
    return [recorded, row?.['verdict'], row?.['missed_reason'], row?.['filled']]
  }
  await fillIn(one, 0, 'agent-lost')
  expect(await send('missed')).toEqual([1, 'missed', 'overloaded', false])
  expect(await send('missed')).toEqual([0, 'missed', 'overloaded', false])
  expect(await send('errored')).toEqual([1, 'errored', null, false])
  expect(await send('passed')).toEqual([0, 'errored', null, false])
  expect(await send('missed')).toEqual([0, 'errored', null, false])
})

const drop = (dropped: { monitorId: string; from: number; to: number }[], agentId: string) =>
  recordDropped(use().database, { ...WHEN, key: keyOf(here), agentId, dropped })

test('slots of dropped results get that reason unless a result or a more precise reason exists', async () => {
  const [one, other] = [await another(), await another()]
  await record([resultAt(one, 2), resultAt(one, 3, { verdict: 'missed' })])
  await fillIn(one, 4, 'agent-lost')
  await fillIn(one, 5, 'under-way')
  const agentId = randomUUID()
  const dropped = [
    { monitorId: one.monitorId, from: slotOf(one, 1), to: slotOf(one, 4) + 1 },
    { monitorId: one.monitorId, from: slotOf(one, 3), to: slotOf(one, 6) },
    { monitorId: other.monitorId, from: 0, to: slotOf(other, 0) },
    // Neither future slots nor expired ones, nor those of other locations.
    { monitorId: other.monitorId, from: NOW + 1, to: 8.64e15 },
    { monitorId: randomUUID(), from: 0, to: 8.64e15 },
  ]
  await Promise.all([1, 2, 3].map(() => drop(dropped, agentId)))
  expect(await rowsOf(one)).toMatchObject([
    { slot_ms: slotOf(one, 1), missed_reason: 'spool-full', filled: true, agent_id: agentId },
    { slot_ms: slotOf(one, 2), verdict: 'passed', missed_reason: null },
    { slot_ms: slotOf(one, 3), missed_reason: 'overloaded', filled: false },
    { slot_ms: slotOf(one, 4), missed_reason: 'spool-full', agent_id: agentId },
    { slot_ms: slotOf(one, 5), missed_reason: 'under-way' },
    { slot_ms: slotOf(one, 6), missed_reason: 'spool-full' },
  ])
  expect(await rowsOf(other)).toHaveLength(1)
  // A later result replaces it.
  expect(await record([resultAt(one, 1)])).toMatchObject({ recorded: 1 })
  expect((await rowsOf(one))[0]).toMatchObject({ verdict: 'passed', filled: false })
})

test('of endless spans no more slots are filled than a batch may have', async () => {
  const one = await another({ fromMs: NOW - DAY_MS, everyMs: 1000 })
  await drop([{ monitorId: one.monitorId, from: 0, to: 8.64e15 }], randomUUID())
  expect(await rowsOf(one)).toHaveLength(PROTOCOL_BOUNDS.droppedSlotsPerBatchMax)
})

test('many agents that replay the same batches at once record each slot once', async () => {
  const monitors = await Promise.all(Array.from({ length: 10 }, () => another()))
  const batch = monitors.flatMap((one) => Array.from({ length: 30 }, (_, n) => resultAt(one, n)))
  const slots: string[] = []
  const onRecorded: OnRecorded = async (_, { results }) => {
    for (const { result } of results) slots.push(`${result.monitorId} ${result.slot}`)
  }
  const shuffled = Array.from({ length: 12 }, () =>
    batch.toSorted(() => Math.random() - 0.5).slice(0, 200),
  )
  const answers = await Promise.all(
    [...shuffled, batch].map((results) => record(results, { onRecorded: [onRecorded] })),
  )
  const sum = (of: 'recorded' | 'known') => answers.reduce((all, one) => all + one[of], 0)
  expect([sum('recorded'), sum('known')]).toEqual([300, 12 * 200])
  expect([slots.length, new Set(slots).size]).toEqual([300, 300])
  for (const one of monitors) expect(await rowsOf(one)).toHaveLength(30)
})

test('a run on demand is passed to onRecorded once and is not recorded as a slot', async () => {
  const one = await another()
  const { monitorId } = one
  const onDemand = await addRun(use().database, here, { monitorId, state: 'running' })
  const result = resultAt(one, 0, { slot: NOW - 7, onDemand })
  const finish: OnRecorded = async (tx, { results }) => {
    expect(results.map(({ result: each }) => each.onDemand)).toEqual([onDemand])
    await tx.query(
      `update runs set state = 'finished', finished_at = now(), verdict = 'passed', result = '{}'
       where id = $1`,
      [onDemand],
    )
  }
  const send = () => record([result], { onRecorded: [finish] })
  const answers = await Promise.all([send(), send(), send()])
  expect(answers.reduce((sum, { recorded }) => sum + recorded, 0)).toBe(1)
  expect(await rowsOf(one)).toEqual([])
  const other = await another()
  const foreign = await record([{ ...result, monitorId: other.monitorId }])
  expect(foreign.refused).toMatchObject([{ code: 'RUN_UNKNOWN' }])
})

test('a run that was reassigned is not cancelled by its former agent', async () => {
  const one = await another()
  const [former, present] = [randomUUID(), randomUUID()]
  const running = { monitorId: one.monitorId, state: 'running', agentId: present }
  const onDemand = await addRun(use().database, here, running)
  const send = async (verdict: WireResult['verdict'], agentId: string) =>
    (await record([resultAt(one, 0, { onDemand, verdict })], { agentId })).recorded
  expect(await send('cancelled', former)).toBe(0)
  expect(await send('passed', former)).toBe(1)
  expect(await send('cancelled', present)).toBe(1)
  await query('update runs set cancel_asked_at = now() where id = $1', [onDemand])
  expect(await send('cancelled', former)).toBe(1)
})

test('late results ask for new rollups of hours that were rolled up', async () => {
  const one = await another()
  const hourOf = (ms: number) => Math.floor(ms / 3_600_000) * 3_600_000
  const done = hourOf(NOW)
  await query(
    `insert into rollups_done (until_hour) values ($1)
     on conflict (one) do update set until_hour = $1`,
    [new Date(done)],
  )
  const numbers = [0, 1, 2, 355]
  await record(numbers.map((n) => resultAt(one, n)))
  const due = await query('select hour from rollups_due where monitor_id = $1', [one.monitorId])
  const past = numbers.map((n) => hourOf(slotOf(one, n))).filter((start) => start < done)
  const hours = due.map(({ hour }) => (hour as Date).getTime())
  expect(new Set(hours)).toEqual(new Set(past))
})

const post = (raw: string | Buffer<ArrayBuffer>, headers: Record<string, string> = {}) =>
  api.post('/agent/v1/results', { secret: here.secret, raw, headers })
const packed = (value: unknown) => gzipSync(JSON.stringify(value))
const GZIP = { 'content-encoding': 'gzip' }
const agentId = randomUUID()

test('a batch is accepted plain and compressed, and recorded once', async () => {
  const one = await another({ fromMs: NOW - DAY_MS / 2 })
  const results = Array.from({ length: 1000 }, (_, n) => resultAt(one, n))
  const plain = await post(JSON.stringify({ agentId, results: results.slice(0, 10) }))
  expect(plain).toMatchObject({ status: 200, body: { recorded: 10, known: 0, refused: [] } })
  const again = await post(packed({ agentId, results }), GZIP)
  expect(again).toMatchObject({ status: 200, body: { recorded: 990, known: 10, refused: [] } })
})

const bomb = gzipSync(Buffer.alloc(PROTOCOL_BOUNDS.batchUnpackedBytesMax + 1, 32))
const wrong: [string, () => string | Buffer<ArrayBuffer>, Record<string, string>, number][] = [
  ['no JSON', () => '{', {}, 400],
  ['no batch', () => '[]', {}, 400],
  ['no agent', () => JSON.stringify({ results: [] }), {}, 400],
  ['no gzip', () => 'plain', GZIP, 400],
  ['a torn gzip', () => packed({ agentId, results: [] }).subarray(0, -9), GZIP, 400],
  ['a bomb', () => bomb, GZIP, 413],
  ['too many bytes', () => 'x'.repeat(PROTOCOL_BOUNDS.batchBytesMax + 1), {}, 413],
  ['too many results', () => packed({ agentId, results: Array(1001).fill(0) }), GZIP, 413],
  ['another coding', () => '{}', { 'content-encoding': 'br' }, 415],
  ['another type', () => '{}', { 'content-type': 'text/plain' }, 415],
  ['another key', () => '{}', { authorization: 'Bearer pl_unknown' }, 401],
]

test.each(wrong)('a batch: %s is refused', async (_, body, headers, status) => {
  expect((await post(body(), headers)).status).toBe(status)
})

test('bytes that are not UTF-8 affect one result at most', async () => {
  const results = [resultAt(await another(), 0), { monitorId: '#' }]
  const text = JSON.stringify({ agentId, results }).replace('#', '\xFF')
  expect(await post(Buffer.from(text, 'latin1'))).toMatchObject({
    body: { recorded: 1, refused: [{ index: 1, code: 'MALFORMED' }] },
  })
})

function nested(levels: number): unknown {
  return { observed: JSON.parse(`{"a":${'['.repeat(levels)}${']'.repeat(levels)}}`), attempts: [] }
}
