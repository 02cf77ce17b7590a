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
import {
  addEra,
  addMonitor,
  type Placing,
  resultAt,
  slotOf,
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
  onRecorded: OnRecorded[] = [],
) => report(use().database, { at, results, nowMs, retentionMs: RETENTION_MS, onRecorded })

const account = (fromMs: number, toMs: number, accountId?: string) =>
  use().database.transaction(
    (tx) => accountOf(tx, { fromMs, toMs, ...(accountId && { accountId }) }),
    { isolation: 'repeatable read', readOnly: true },
  )

const rows = async (at: TestLocation) =>
  use().database.query<{
    slot_ms: number
    monitor_id: string
    verdict: string
    missed_reason: string | null
    needed: string | null
  }>(
    `select *, (extract(epoch from slot) * 1000)::bigint as slot_ms from results
     where location_id = $1 order by slot, monitor_id`,
    [at.id],
  )

/** A location with one monitor. */
const placed = async (placing: Placing): Promise<TestLocation> => {
  const here = await addLocation(use().database)
  await addMonitor(use().database, here, placing)
  return here
}

const addEpoch = (
  at: TestLocation,
  { number, fromMs, members }: { number: number; fromMs: number; members: object[] },
) =>
  use().database.query(
    `insert into location_epochs (location_id, epoch, from_ms, members, cause)
     values ($1, $2, $3, $4, '{}')`,
    [at.id, number, fromMs, JSON.stringify(members)],
  )

test('fills unreported slots, with a reason by the agents that were there', async () => {
  const { database } = use()
  const here = await addLocation(database)
  const monitor = await addMonitor(database, here, { fromMs: START, needs: ['DNS'] })
  const old = { id: 'a', version: '1.0.0', abilities: ['URL'] }
  const young = { id: 'b', version: '9.9.9', abilities: ['URL', 'DNS'] }
  await addEpoch(here, { number: 1, fromMs: START + 20_000, members: [old] })
  await addEpoch(here, { number: 2, fromMs: START + 40_000, members: [old, young] })
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
  expect((await account(START, now, here.accountId)).locations).toMatchObject([
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
  expect((await account(START, now, here.accountId)).locations).toMatchObject([
    { recorded: 6, missing: 0, byVerdict: { passed: 2, missed: 4 } },
  ])
})

test('a suite that ran for an hour replaces its filled-in slot, and is not late', async () => {
  const { database } = use()
  const here = await addLocation(database)
  const monitor = await addMonitor(database, here, { fromMs: START, untilMs: START + 10_000 })
  const slot = slotOf(monitor, 0)
  const endedAt = slot + LIMITS.suiteMsMax
  await sweepAt(endedAt - 1)
  expect(await rows(here)).toMatchObject([{ verdict: 'missed', filled: true }])
  const result = { slot, startedAt: slot, durationMs: LIMITS.suiteMsMax }
  const lateFlags: boolean[] = []
  const onRecorded: OnRecorded = async (_, { results }) =>
    void lateFlags.push(...results.map(({ late }) => late))
  await deliver(here, endedAt + 1000, [wireResult({ ...monitor, ...result })], [onRecorded])
  expect(lateFlags).toEqual([false])
  expect(await rows(here)).toMatchObject([{ verdict: 'passed', filled: false }])
  expect((await account(START, endedAt, here.accountId)).locations).toMatchObject([
    { expected: 1, recorded: 1, missing: 0, byVerdict: { passed: 1 } },
  ])
})

test('a slot that an agent reports as running is under way, and lost when no agent reports it any more', async () => {
  const { database } = use()
  const here = await addLocation(database)
  const until = { fromMs: START, untilMs: START + 10_000 }
  const ran = await addMonitor(database, here, until)
  const died = await addMonitor(database, here, until)
  const unsaid = await addMonitor(database, here, until)
  await addEpoch(here, { number: 1, fromMs: START - 1, members: [] })
  const say = async (monitors: { monitorId: string }[], state = 'live') => {
    const slots = monitors.map(({ monitorId }) => ({ monitorId, slot: START, startedAt: START }))
    await database.query(
      `insert into agents (id, location_id, instance, version, image, abilities, state, queues)
       values ($1, $1, $1, '9.9.9', 'agent', '{}', $2, $3)
       on conflict (location_id, id) do update set state = $2, queues = $3`,
      [here.id, state, JSON.stringify({ scripted: { slots } })],
    )
  }
  const reasons = async () => {
    const found = await rows(here)
    const of = ({ monitorId }: { monitorId: string }) =>
      found.find((row) => row.monitor_id === monitorId)
    return [ran, died, unsaid].map((one) => of(one)?.missed_reason ?? of(one)?.verdict)
  }
  const first = START + SWEEP_GRACE_MS + 1
  await say([ran, died])
  await sweepAt(first)
  expect(await reasons()).toEqual(['under-way', 'under-way', 'agent-lost'])
  await sweepAt(first + 30 * 60_000)
  expect(await reasons()).toEqual(['under-way', 'under-way', 'agent-lost'])
  // One ends, and the agent of the other is killed.
  const endedAt = first + 30 * 60_000
  await say([ran, died], 'lost')
  await sweepAt(endedAt + SWEEP_GRACE_MS - 1)
  expect(await reasons()).toEqual(['under-way', 'under-way', 'agent-lost'])
  await deliver(here, endedAt, [resultAt(ran, 0)])
  await sweepAt(endedAt + SWEEP_GRACE_MS + 1)
  expect(await reasons()).toEqual(['passed', 'agent-lost', 'agent-lost'])
  expect((await account(START, endedAt, here.accountId)).locations).toMatchObject([
    { expected: 3, recorded: 3, missing: 0 },
  ])
})

test.each([
  ['a location that never had an agent', [], 'no-agent'],
  ['an agent that came later', [[1, 30_000, 1]], 'no-agent'],
  [
    'an agent that had left or was lost',
    [
      [1, -30_000, 1],
      [2, -20_000, 0],
    ],
    'agent-lost',
  ],
  ['one for which only a later epoch is stored', [[7, 30_000, 1]], 'agent-lost'],
] as const)('a slot of %s is missed for the reason of that', async (_, epochs, reason) => {
  const here = await placed({ fromMs: START, untilMs: START + 10_000 })
  for (const [number, fromMs, count] of epochs) {
    const members = Array.from({ length: count }, () => ({ id: 'a', abilities: ['URL'] }))
    await addEpoch(here, { number, fromMs: START + fromMs, members })
  }
  await sweepAt(START + 60_000 + SWEEP_GRACE_MS)
  expect(await rows(here)).toMatchObject([{ missed_reason: reason, needed: null }])
})

test('a slot that its agent did not deliver is distinguished from one that was lost with it', async () => {
  const { database } = use()
  const here = await addLocation(database)
  const [there, restarted, lost, silent] = Array.from({ length: 4 }, (): string => randomUUID())
  const members = [there, restarted, lost, silent].map((id = '') => ({ id, abilities: ['URL'] }))
  await addEpoch(here, { number: 1, fromMs: START - 1, members })
  const live = [
    [there, 'live', START - 1000, START + 60_000],
    [restarted, 'live', START + 5000, START + 60_000],
    [lost, 'lost', START - 1000, START + 60_000],
    // Killed, and not yet lost.
    [silent, 'live', START - 1000, START + 10_001],
  ]
  for (const [id, state, sinceMs, seenMs] of live) {
    await database.query(
      `insert into agents (id, location_id, instance, version, image, abilities, state, live_since,
         last_seen_at)
       values ($1, $2, $1, '9.9.9', 'agent', '{URL}', $3, to_timestamp($4::float8 / 1000),
         to_timestamp($5::float8 / 1000))`,
      [id, here.id, state, sinceMs, seenMs],
    )
  }
  const assignment = createAssignment(members)
  const reasons: Record<string, string[]> = {
    [there ?? '']: ['not-delivered', 'not-delivered'],
    [restarted ?? '']: ['agent-lost', 'not-delivered'],
    [lost ?? '']: ['agent-lost', 'agent-lost'],
    [silent ?? '']: ['not-delivered', 'agent-lost'],
  }
  const ofMonitors = new Map<string, string[] | undefined>()
  for (let n = 0; n < 60; n++) {
    const era = { fromMs: START, untilMs: START + 20_000 }
    const { monitorId } = await addMonitor(database, here, era)
    ofMonitors.set(monitorId, reasons[assignment.owner(monitorId, ['URL'])?.id ?? ''])
  }
  await sweepAt(START + 60_000 + SWEEP_GRACE_MS)
  const found = await rows(here)
  for (const [monitorId, expected] of ofMonitors) {
    const own = found.filter(({ monitor_id }) => monitor_id === monitorId)
    expect(own.map(({ missed_reason }) => missed_reason)).toEqual(expected)
  }
  expect(new Set(ofMonitors.values()).size).toBe(4)
})

test('leaves agents time to deliver after a pause of the platform', async () => {
  const { database } = use()
  await placed({ fromMs: START })
  const now = START + DAY_MS / 4
  await database.query(
    `insert into platform_pulse (since, last) values (to_timestamp($1::float8 / 1000), now())`,
    [now - SWEEP_RETURN_MS + 1000],
  )
  expect(await sweepAt(now)).toMatchObject({ filled: 0 })
  expect(await sweepAt(now + 1000)).toMatchObject({ filled: 6 * 60 * 6 - 12 + 1 })
})

test('counts a first slot before the placement of the monitor', async () => {
  const { database } = use()
  const here = await placed({ fromMs: START })
  await sweepAt(START + DAY_MS / 4)
  const placedMs = START + DAY_MS / 4
  const daily = { everyMs: DAY_MS, offsetMs: 5_000 }
  const fromMs = slotAtOrBefore(daily, placedMs)
  await addMonitor(database, here, { ...daily, fromMs, openedMs: placedMs })
  expect((await account(0, placedMs, here.accountId)).locations).toMatchObject([{ missing: 0 }])
  await sweepAt(placedMs + 2 * SWEEP_GRACE_MS)
  const { locations } = await account(0, placedMs + DAY_MS, here.accountId)
  expect(locations).toMatchObject([{ missing: 0, unexpected: 0 }])
  expect((await rows(here)).filter(({ slot_ms }) => slot_ms === fromMs)).toHaveLength(1)
})

test('skips slots that are too old to be retained', async () => {
  await placed({ fromMs: START - 100 * DAY_MS, everyMs: DAY_MS / 24 })
  const { filled } = await sweepAt(START)
  expect(filled).toBeGreaterThan(24 * 3)
  expect(filled).toBeLessThan(24 * 5)
})

test('two concurrent sweeps fill each slot once', async () => {
  await placed({ fromMs: START })
  const now = START + 600_000 + SWEEP_GRACE_MS
  const swept = await Promise.all([sweepAt(now), sweepAt(now), sweepAt(now)])
  expect(swept.reduce((sum, { filled }) => sum + filled, 0)).toBe(60)
  expect(await readSweptSpan(use().database)).toMatchObject({
    expectedTotal: 60,
    recordedTotal: 60,
  })
})

test.each(Array.from({ length: 6 }, (_, seed) => seed))('random story %i', async (seed) => {
  const random = randomFrom(seed)
  const { database } = use()
  const here = await addLocation(database)
  const stories = await Promise.all(
    Array.from({ length: 1 + random.below(6) }, () => story(database, here, random)),
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
  const { locations } = await account(0, STORY_END, here.accountId)
  const all = expected.size
  expect(locations).toMatchObject([{ expected: all, recorded: all, missing: 0, unexpected: 0 }])
  const part = [START + 100_001, STORY_END - 100_001] as const
  const inPart = [...expected].filter((one) => slotIn(one) >= part[0] && slotIn(one) < part[1])
  const { locations: parts } = await account(...part, here.accountId)
  expect(parts).toMatchObject([{ expected: inPart.length, recorded: inPart.length, missing: 0 }])
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
    else await addEra(database, here, { ...era, ...timing, monitorId })
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
