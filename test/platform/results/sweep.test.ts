// Aim: after a sweep every expected slot has exactly one row and there is no other row, for any eras, deliveries
// and members before. The account proves it, and late results replace filled-in rows.
import { randomUUID } from 'node:crypto'
import { beforeEach, expect, test } from 'vitest'
import { LIMITS } from '../../../src/contract/versions.ts'
import { slotAtOrAfter, slotAtOrBefore } from '../../../src/contract/timetable.ts'
import { createAssignment, neededText } from '../../../src/platform/agents/assignment.ts'
import type { OnRecorded } from '../../../src/platform/results/recorded.ts'
import { sweep, SWEEP_GRACE_MS, SWEEP_RETURN_MS } from '../../../src/platform/results/sweep.ts'
import { accountOf, readSweptSpan } from '../../../src/platform/results/queries/accounting.ts'
import type { Database } from '../../../src/database/database.ts'
import { ensurePartitions } from '../../../src/platform/results/queries/result-partitions.ts'
import { DATABASE_SERVERS, useDatabase } from '../../support/database/database.ts'
import { addLocation, type TestLocation } from '../../support/platform/locations.ts'
import { addAgent } from '../../support/platform/monitor-rows.ts'
import {
  addEra,
  addMonitor,
  type Placing,
  resultAt,
  wireResult,
} from '../../support/platform/placed-monitors.ts'
import { randomFrom, type Random } from '../../support/random.ts'
import { report } from '../../support/platform/recorded-results.ts'

const DAY_MS = 86_400_000
const RETENTION_MS = 3 * DAY_MS
/** Noon of yesterday, so that all stories are in the past. */
const START = Math.floor(Date.now() / DAY_MS) * DAY_MS - DAY_MS / 2

const use = useDatabase(DATABASE_SERVERS[0])

beforeEach(async () => {
  const { database } = use()
  await ensurePartitions(database, START - RETENTION_MS, Date.now() + DAY_MS)
  await database.query('truncate accounting, platform_pulse, results, expectations')
})

const sweepAt = (nowMs: number) =>
  sweep(
    { database: use().database, now: () => nowMs, retentionMs: RETENTION_MS },
    AbortSignal.timeout(20_000),
  )

const deliver = (
  at: TestLocation,
  nowMs: number,
  results: unknown[],
  ...onRecorded: OnRecorded[]
) => report(use().database, { at, results, nowMs, retentionMs: RETENTION_MS, onRecorded })

/** The account of the location in a span. */
const account = async ({ accountId }: TestLocation, fromMs: number, toMs: number) =>
  (
    await use().database.transaction((tx) => accountOf(tx, { fromMs, toMs, accountId }), {
      isolation: 'repeatable read',
      readOnly: true,
    })
  ).locations

const rows = (at: TestLocation) =>
  use().database.query<{
    slot_ms: number
    monitor_id: string
    missed_reason: string | null
    verdict: string
  }>(
    `select *, (extract(epoch from slot) * 1000)::bigint as slot_ms from results
     where location_id = $1 order by slot, monitor_id`,
    [at.id],
  )
const addHere = () => addLocation(use().database)
const addTo = (at: TestLocation, placing: Placing) => addMonitor(use().database, at, placing)

/** A location with one monitor. */
const placed = async (placing: Placing): Promise<TestLocation> => {
  const here = await addHere()
  await addTo(here, placing)
  return here
}

const addEpoch = (at: TestLocation, number: number, fromMs: number, members: object[]) =>
  use().database.query(
    `insert into location_epochs (location_id, epoch, from_ms, members, cause)
     values ($1, $2, $3, $4, '{}')`,
    [at.id, number, fromMs, JSON.stringify(members)],
  )

test('fills unreported slots, with a reason by the agents that were there', async () => {
  const here = await addHere()
  const monitor = await addTo(here, { fromMs: START, needs: ['DNS'] })
  const old = { id: 'a', version: '1.0.0', abilities: ['URL'] }
  const young = { id: 'b', version: '9.9.9', abilities: ['URL', 'DNS'] }
  await addEpoch(here, 1, START + 20_000, [old])
  await addEpoch(here, 2, START + 40_000, [old, young])
  const now = START + 60_000 + SWEEP_GRACE_MS
  await deliver(here, now, [resultAt(monitor, 5)])
  expect(await sweepAt(now)).toEqual({ sweptUntilMs: START + 60_000, expected: 6, filled: 5 })
  const needed = neededText(['DNS'])
  expect(await rows(here)).toMatchObject([
    { missed_reason: 'no-agent', needed: null },
    { missed_reason: 'no-agent', needed: null },
    { missed_reason: 'no-capable-agent', needed },
    { missed_reason: 'no-capable-agent', needed },
    { missed_reason: 'agent-lost', needed: null, filled: true },
    { verdict: 'passed' },
  ])
  expect(await account(here, START, now)).toMatchObject([
    {
      slugName: here.slugName,
      expected: 6,
      recorded: 6,
      missing: 0,
      unexpected: 0,
      byVerdict: { passed: 1, missed: 5 },
      byReason: { 'no-agent': 2, 'agent-lost': 1, 'no-capable-agent': 2 },
    },
  ])
  // A later result replaces the filled-in one and changes no count.
  await deliver(here, now, [resultAt(monitor, 0)])
  expect(await account(here, START, now)).toMatchObject([
    { recorded: 6, missing: 0, byVerdict: { passed: 2, missed: 4 } },
  ])
})

test('a suite that ran for an hour replaces its filled-in slot, and is not late', async () => {
  const here = await addHere()
  const { monitorId } = await addTo(here, { fromMs: START, untilMs: START + 10_000 })
  const endedAt = START + LIMITS.suiteMsMax
  await sweepAt(endedAt - 1)
  expect(await rows(here)).toMatchObject([{ verdict: 'missed', filled: true }])
  const timing = { slot: START, startedAt: START, durationMs: LIMITS.suiteMsMax }
  const lateFlags: boolean[] = []
  await deliver(
    here,
    endedAt + 1000,
    [wireResult({ monitorId, ...timing })],
    async (_, { results }) => void lateFlags.push(...results.map(({ late }) => late)),
  )
  expect(lateFlags).toEqual([false])
  expect(await rows(here)).toMatchObject([{ verdict: 'passed', filled: false }])
  expect(await account(here, START, endedAt)).toMatchObject([
    { expected: 1, recorded: 1, missing: 0, byVerdict: { passed: 1 } },
  ])
})

test('a slot that an agent reports as running is under way, and lost when no agent reports it any more', async () => {
  const here = await addHere()
  const until = { fromMs: START, untilMs: START + 10_000 }
  const [ran, died, unsaid] = [
    await addTo(here, until),
    await addTo(here, until),
    await addTo(here, until),
  ]
  await addEpoch(here, 1, START - 1, [])
  const slots = [ran, died].map(({ monitorId }) => ({ monitorId, slot: START, startedAt: START }))
  const agent = await addAgent(use().database, here.id, { queues: { scripted: { slots } } })
  const reasons = async () => {
    const found = new Map((await rows(here)).map((row) => [row.monitor_id, row]))
    const of = [ran, died, unsaid].map(({ monitorId }) => found.get(monitorId))
    return of.map((row) => row?.missed_reason ?? row?.verdict)
  }
  const first = START + SWEEP_GRACE_MS + 1
  await sweepAt(first)
  expect(await reasons()).toEqual(['under-way', 'under-way', 'agent-lost'])
  await sweepAt(first + 30 * 60_000)
  expect(await reasons()).toEqual(['under-way', 'under-way', 'agent-lost'])
  // One ends, and the agent of the other is killed.
  const endedAt = first + 30 * 60_000
  await use().database.query(`update agents set state = 'lost' where id = $1`, [agent])
  await sweepAt(endedAt + SWEEP_GRACE_MS - 1)
  expect(await reasons()).toEqual(['under-way', 'under-way', 'agent-lost'])
  await deliver(here, endedAt, [resultAt(ran, 0)])
  await sweepAt(endedAt + SWEEP_GRACE_MS + 1)
  expect(await reasons()).toEqual(['passed', 'agent-lost', 'agent-lost'])
  expect(await account(here, START, endedAt)).toMatchObject([
    { expected: 3, recorded: 3, missing: 0 },
  ])
})

const LEFT = [
  [1, -30_000, 1],
  [2, -20_000, 0],
] as const

test.each([
  ['a location that never had an agent', [], 'no-agent'],
  ['an agent that came later', [[1, 30_000, 1]], 'no-agent'],
  ['an agent that had left or was lost', LEFT, 'agent-lost'],
  ['one for which only a later epoch is stored', [[7, 30_000, 1]], 'agent-lost'],
] as const)('a slot of %s is missed for the reason of that', async (_, epochs, reason) => {
  const here = await placed({ fromMs: START, untilMs: START + 10_000 })
  for (const [number, fromMs, count] of epochs) {
    const members = Array.from({ length: count }, () => ({ id: 'a', abilities: ['URL'] }))
    await addEpoch(here, number, START + fromMs, members)
  }
  await sweepAt(START + 60_000 + SWEEP_GRACE_MS)
  expect(await rows(here)).toMatchObject([{ missed_reason: reason, needed: null }])
})

test('a slot that its agent did not deliver is distinguished from one that was lost with it', async () => {
  const here = await addHere()
  const agents: [state: string, sinceMs: number, reasons: string[]][] = [
    ['live', -1000, ['not-delivered', 'not-delivered']],
    // It was restarted.
    ['live', 5000, ['agent-lost', 'not-delivered']],
    ['lost', -1000, ['agent-lost', 'agent-lost']],
  ]
  const reasonsOf = new Map<string, string[]>()
  // The next heartbeat of a live agent may be due after the grace period.
  for (const [state, sinceMs, reasons] of agents) {
    const row = { state, liveSinceMs: START + sinceMs, lastSeenMs: START }
    reasonsOf.set(await addAgent(use().database, here.id, row), reasons)
  }
  const members = [...reasonsOf.keys()].map((id) => ({ id, abilities: ['URL'] }))
  await addEpoch(here, 1, START - 1, members)
  const assignment = createAssignment(members)
  const expected: Record<string, string[]> = {}
  for (let n = 0; n < 60; n++) {
    const { monitorId } = await addTo(here, { fromMs: START, untilMs: START + 20_000 })
    const owner = assignment.owner(monitorId, ['URL'])
    expected[monitorId] = reasonsOf.get(owner?.id ?? '') ?? []
  }
  await sweepAt(START + 60_000 + SWEEP_GRACE_MS)
  const found = Object.groupBy(await rows(here), ({ monitor_id }) => monitor_id)
  const reasons = Object.entries(found).map(([id, own = []]) => [
    id,
    own.map(({ missed_reason }) => missed_reason),
  ])
  expect(Object.fromEntries(reasons)).toEqual(expected)
  expect(new Set(Object.values(expected)).size).toBe(agents.length)
})

test('leaves agents time to deliver after a pause of the platform', async () => {
  await placed({ fromMs: START })
  const now = START + DAY_MS / 4
  await use().database.query(
    `insert into platform_pulse (since, last) values (to_timestamp($1::float8 / 1000), now())`,
    [now - SWEEP_RETURN_MS + 1000],
  )
  expect(await sweepAt(now)).toMatchObject({ filled: 0 })
  expect(await sweepAt(now + 1000)).toMatchObject({ filled: 6 * 60 * 6 - 12 + 1 })
})

test('counts a first slot before the placement of the monitor', async () => {
  const here = await placed({ fromMs: START })
  const placedMs = START + DAY_MS / 4
  await sweepAt(placedMs)
  const daily = { everyMs: DAY_MS, offsetMs: 5_000 }
  const fromMs = slotAtOrBefore(daily, placedMs)
  await addTo(here, { ...daily, fromMs, openedMs: placedMs })
  expect(await account(here, 0, placedMs)).toMatchObject([{ missing: 0 }])
  await sweepAt(placedMs + 2 * SWEEP_GRACE_MS)
  const even = { missing: 0, unexpected: 0 }
  expect(await account(here, 0, placedMs + DAY_MS)).toMatchObject([even])
  expect((await rows(here)).filter(({ slot_ms }) => slot_ms === fromMs)).toHaveLength(1)
})

test('skips slots that are too old to be retained', async () => {
  await placed({ fromMs: START - 100 * DAY_MS, everyMs: DAY_MS / 24 })
  const { filled } = await sweepAt(START)
  expect([filled > 24 * 3, filled < 24 * 5]).toEqual([true, true])
})

test('two concurrent sweeps fill each slot once', async () => {
  await placed({ fromMs: START })
  const now = START + 600_000 + SWEEP_GRACE_MS
  const swept = await Promise.all([sweepAt(now), sweepAt(now), sweepAt(now)])
  expect(swept.reduce((sum, { filled }) => sum + filled, 0)).toBe(60)
  const even = { expectedTotal: 60, recordedTotal: 60 }
  expect(await readSweptSpan(use().database)).toMatchObject(even)
})

test.each(Array.from({ length: 6 }, (_, seed) => seed))('random story %i', async (seed) => {
  const random = randomFrom(seed)
  const here = await addHere()
  const stories = await Promise.all(
    Array.from({ length: 1 + random.below(6) }, () => story(use().database, here, random)),
  )
  const expected = new Set(stories.flat())
  let now = START
  while (now < STORY_END + SWEEP_GRACE_MS) {
    now = Math.min(now + 1 + random.below(200_000), STORY_END + SWEEP_GRACE_MS)
    const due = [...expected].filter((one) => slotIn(one) < now && slotIn(one) > now - 400_000)
    const batch = due.filter(() => random.below(3) === 0).map(reported)
    const foreign = due.map((one) => ({ ...reported(one), slot: slotIn(one) + 1 }))
    const answers = await Promise.all([
      deliver(here, now, [...batch, ...foreign]),
      deliver(here, now, batch),
      sweepAt(now),
    ])
    expect(answers[0].refused).toHaveLength(foreign.length)
  }
  await sweepAt(STORY_END + SWEEP_GRACE_MS)
  const found = (await rows(here)).map(({ monitor_id, slot_ms }) => `${monitor_id} ${slot_ms}`)
  expect(found.toSorted()).toEqual([...expected].toSorted())
  for (const [from, to] of [
    [0, STORY_END],
    [START + 100_001, STORY_END - 100_001],
  ] as const) {
    const n = [...expected].filter((one) => slotIn(one) >= from && slotIn(one) < to).length
    const even = { expected: n, recorded: n, missing: 0, unexpected: 0 }
    expect(await account(here, from, to)).toMatchObject([even])
  }
})

const STORY_END = START + 20 * 60_000

/** Eras of a monitor that is changed repeatedly; returns its slots. */
async function story(database: Database, here: TestLocation, random: Random): Promise<string[]> {
  const slots: string[] = []
  const monitorId = randomUUID()
  let at = START + random.below(600_000)
  let endOfLast = 0
  while (at < STORY_END) {
    const everyMs = 1000 * (1 + random.below(60))
    const timing = { everyMs, offsetMs: random.below(everyMs) }
    // As for a monitor that is placed or activated: its newest slot must run at once.
    const fromMs = random.below(2) === 0 ? at : Math.max(endOfLast, slotAtOrBefore(timing, at))
    const untilMs = at + 1 + random.below(600_000)
    const isOpen = untilMs > STORY_END + SWEEP_GRACE_MS
    const era: Placing = { ...timing, fromMs, openedMs: at, ...(isOpen ? {} : { untilMs }) }
    if (slots.length === 0) await addMonitor(database, here, { ...era, monitorId })
    else await addEra(database, here.id, { ...era, ...timing, monitorId })
    const last = Math.min(untilMs, STORY_END)
    for (let slot = slotAtOrAfter(timing, fromMs); slot < last; slot += everyMs) {
      slots.push(`${monitorId} ${slot}`)
    }
    if (isOpen) break
    endOfLast = untilMs
    at = untilMs + random.below(100_000)
  }
  return slots
}

function slotIn(one: string): number {
  return Number(one.split(' ')[1])
}

function reported(one: string) {
  return wireResult({ monitorId: one.split(' ')[0] ?? '', slot: slotIn(one) })
}
