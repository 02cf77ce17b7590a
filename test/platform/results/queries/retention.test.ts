// Aim: partitions exist for every day that may get results, also when several processes create them at once. Only
// expired rows are dropped, also with concurrent readers or after a process died.
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
  expect(await days()).toEqual(
    Array.from({ length: 13 }, (_, n) => partitionName(startOfDay(from) + n * DAY_MS)),
  )
  expect((await days())[0]).toBe('results_20260228')
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
  const tables = await database.query<{ relname: string }>(
    `select relname from pg_class where relname = any ($1)`,
    [[oldest, next]],
  )
  expect(tables).toEqual([])
})

test('a reader that does not end does not block recording', async () => {
  await ensurePartitions(database, NOW - 8 * DAY_MS, NOW)
  const here = await addLocation(database)
  const { promise: hold, resolve: letGo } = Promise.withResolvers<void>()
  const { promise: reading, resolve: isReading } = Promise.withResolvers<void>()
  const reader = database.transaction(async (tx) => {
    await tx.query('select count(*) from results')
    isReading()
    await hold
  })
  await reading
  const dropping = dropPartitions(database, NOW - 5 * DAY_MS)
  await insertRow(here, NOW)
  letGo()
  await reader
  await dropping
  expect(await days()).toHaveLength(6)
})

test('drops expired rows other than results, and the account works without them', async () => {
  const here = await addLocation(database)
  const old = NOW - 20 * DAY_MS
  const monitor = await addMonitor(database, here, { fromMs: old, untilMs: old + DAY_MS })
  await addEra(database, here, { ...monitor, fromMs: NOW - 7 * DAY_MS, everyMs: DAY_MS })
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
  await database.query('update monitors set deleted_at = $2 where id = any ($1::uuid[])', [
    [old, withRun],
    new Date(NOW - 7 * DAY_MS),
  ])
  await database.query('update monitors set deleted_at = $2 where id = $1', [
    lately,
    new Date(NOW - DAY_MS),
  ])
  await database.query(
    `insert into runs (id, account_id, monitor_id, location_id, state, asked_by)
     values (gen_random_uuid(), $1, $2, $3, 'queued', 'somebody')`,
    [here.accountId, withRun, here.id],
  )
  await retainAt(NOW)
  const left = await database.query<{ id: string }>('select id from monitors')
  expect(new Set(left.map(({ id }) => id))).toEqual(new Set([withRun, lately, there]))
  const [placed] = await database.query<{ n: number }>(
    'select count(*)::int as n from placements where monitor_id = $1',
    [old],
  )
  expect(placed).toEqual({ n: 0 })
})

async function insertRow(
  { id: locationId, accountId }: TestLocation,
  slotMs: number,
  monitorId?: string,
): Promise<void> {
  await database.query(
    `insert into results (location_id, monitor_id, slot, account_id, verdict, started_at,
       duration_ms, attempts)
     values ($1, coalesce($4, gen_random_uuid()), $2, $3, 'passed', $2, 1, 1)`,
    [locationId, new Date(slotMs), accountId, monitorId ?? null],
  )
}
