// Aim: partitions exist for every day that may get results, also when several processes create them at once. Only
// expired rows are dropped, also with concurrent readers or after a process died.
import { randomUUID } from 'node:crypto'
import { beforeEach, expect, test } from 'vitest'
import { retain } from '../../../../src/platform/results/retention.ts'
import { accountOf } from '../../../../src/platform/results/queries/accounting.ts'
import type { Database } from '../../../../src/database/database.ts'
import {
  dropPartitions,
  ensurePartitions,
  partitionDays,
  partitionName,
  startOfDay,
} from '../../../../src/platform/results/queries/result-partitions.ts'
import { createTestDatabase, DATABASE_SERVERS } from '../../../support/database/database.ts'
import { addLocation, type TestLocation } from '../../../support/platform/locations.ts'
import { addResult, addRun } from '../../../support/platform/monitor-rows.ts'
import { addEra, addMonitor } from '../../../support/platform/placed-monitors.ts'

const DAY_MS = 86_400_000
const NOW = Date.parse('2026-03-10T12:00:00Z')
const KEPT_MS = 5 * DAY_MS

let database: Database

beforeEach(async () => {
  const made = await createTestDatabase(DATABASE_SERVERS[0])
  database = made.database
  return made.drop
})

const retainAt = (nowMs: number) =>
  retain(
    { database, now: () => nowMs, resultsMs: KEPT_MS, rollupsMs: 2 * KEPT_MS },
    AbortSignal.timeout(20_000),
  )

const days = async () => (await partitionDays(database)).map((day) => partitionName(day))

test('processes that start at once create each partition once', async () => {
  const from = NOW - 10 * DAY_MS
  const made = await Promise.all(
    Array.from({ length: 8 }, () => ensurePartitions(database, from, NOW + 2 * DAY_MS)),
  )
  expect(made.flat()).toHaveLength(13)
  const names = Array.from({ length: 13 }, (_, n) => partitionName(startOfDay(from) + n * DAY_MS))
  expect([names[0], await days()]).toEqual(['results_20260228', names])
})

test('a day’s partition contains its slots, to the last millisecond', async () => {
  await ensurePartitions(database, NOW, NOW)
  const here = await addLocation(database)
  const day = startOfDay(NOW)
  await insertRow(here, day)
  await insertRow(here, day + DAY_MS - 1)
  await expect(insertRow(here, day + DAY_MS)).rejects.toThrow('no partition')
})

test('as days pass, old partitions are dropped while statements read, and new ones exist', async () => {
  const here = await addLocation(database)
  await retainAt(NOW)
  for (let day = -5; day <= 0; day++) await insertRow(here, NOW + day * DAY_MS)
  const later = NOW + 3 * DAY_MS
  const read = () => database.query<{ n: number }>('select count(*)::int as n from results')
  const reads = Array.from({ length: 20 }, read)
  await retainAt(later)
  await Promise.all(reads)
  expect(await days()).toEqual(
    Array.from({ length: 9 }, (_, n) => partitionName(startOfDay(later) + (n - 5) * DAY_MS)),
  )
  expect((await read())[0]?.n).toBe(3)
})

test('continues after another process died in the middle', async () => {
  await ensurePartitions(database, NOW - 8 * DAY_MS, NOW)
  const [oldest, next] = await days()
  await database.query(`alter table results detach partition ${oldest} concurrently`)
  await dropPartitions(database, NOW - 5 * DAY_MS)
  const tables = 'select relname from pg_class where relname = any ($1)'
  expect(await database.query(tables, [[oldest, next]])).toEqual([])
})

test('a reader that does not end does not block recording', async () => {
  let dropping: Promise<unknown> | undefined
  await ensurePartitions(database, NOW - 8 * DAY_MS, NOW)
  const here = await addLocation(database)
  await database.transaction(async (tx) => {
    await tx.query('select count(*) from results')
    dropping = dropPartitions(database, NOW - 5 * DAY_MS)
    await insertRow(here, NOW)
  })
  await dropping
  expect(await days()).toHaveLength(6)
})

test('drops expired rows other than results, and the account works without them', async () => {
  const here = await addLocation(database)
  const old = NOW - 20 * DAY_MS
  const monitor = await addMonitor(database, here, { fromMs: old, untilMs: old + DAY_MS })
  await addEra(database, here.id, { ...monitor, fromMs: NOW - 7 * DAY_MS, everyMs: DAY_MS })
  await database.query(`insert into accounting (swept_until_ms) values ($1)`, [NOW])
  await retainAt(NOW)
  const count = async (table: string) => (await database.query(`select from ${table}`)).length
  expect(await count('expectations')).toBe(1)
  for (let day = -5; day < 0; day++) {
    await insertRow(here, startOfDay(NOW + (day + 1) * DAY_MS), monitor.monitorId)
  }
  const account = await accountOf(database, { fromMs: 0, toMs: NOW })
  expect(account).toMatchObject({ fromMs: startOfDay(NOW - KEPT_MS), toMs: NOW })
  expect(account.locations).toMatchObject([{ expected: 6, recorded: 5, missing: 1 }])
})

test('deletes removed monitors with the last of their results, but none that has runs', async () => {
  const here = await addLocation(database)
  const made = await Promise.all(
    ['deleted long ago', 'with a run', 'deleted lately', 'there'].map(() =>
      addMonitor(database, here, { fromMs: NOW - 20 * DAY_MS }),
    ),
  )
  const [old, withRun, lately, there] = made.map(({ monitorId }) => monitorId)
  for (const [ids, age] of [
    [[old, withRun], 7],
    [[lately], 1],
  ] as const) {
    const remove = 'update monitors set deleted_at = $2 where id = any ($1::uuid[])'
    await database.query(remove, [ids, new Date(NOW - age * DAY_MS)])
  }
  await addRun(database, here, { monitorId: withRun ?? '' })
  await retainAt(NOW)
  const left = await database.query<{ id: string }>('select id from monitors')
  expect(new Set(left.map(({ id }) => id))).toEqual(new Set([withRun, lately, there]))
  expect(await database.query('select from placements where monitor_id = $1', [old])).toEqual([])
})

const insertRow = (at: TestLocation, slotMs: number, monitorId: string = randomUUID()) =>
  addResult(database, at, { monitorId, slotMs })
