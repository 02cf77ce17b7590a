// Aim: the platform's time is its database's, whatever the machine's clock says.
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createPlatformClock } from '../../src/database/platform-clock.ts'
import type { Database } from '../../src/database/database.ts'
import { useDatabase } from '../support/database/database.ts'

const use = useDatabase()

/** A database whose clock is ahead of the machine's, or that does not answer. */
function databaseAhead(aheadMs: number): Database {
  const { database } = use()
  const query = () => Promise.resolve([{ now: Date.now() + aheadMs }])
  return { ...database, query: query as unknown as Database['query'] }
}

test('it is that of the database within the time that asking takes', async () => {
  const clock = createPlatformClock(use().database)
  const begin = performance.now()
  await clock.follow()
  const [row] = await use().database.query<{ now: number }>(
    `select (extract(epoch from clock_timestamp()) * 1000)::double precision as now`,
  )
  const tookMs = performance.now() - begin
  expect(Math.abs(clock.now() - (row?.now ?? 0))).toBeLessThanOrEqual(tookMs + 1)
})

test.each([90_000, -90_000])('it follows one that is %i ms off', async (aheadMs) => {
  const clock = createPlatformClock(databaseAhead(aheadMs))
  expect(Math.abs(clock.now() - Date.now())).toBeLessThan(1_000)
  await clock.follow()
  expect(Math.abs(clock.now() - Date.now() - aheadMs)).toBeLessThan(1_000)
})

test('a slow answer does not adjust it', async () => {
  const there = databaseAhead(90_000)
  let answerMs = 0
  const query = async (text: string) => {
    const rows = await there.query(text)
    await sleep(answerMs)
    return rows
  }
  const clock = createPlatformClock({ ...there, query: query as Database['query'] })
  await clock.follow()
  answerMs = 600
  await clock.follow()
  expect(Math.abs(clock.now() - Date.now() - 90_000)).toBeLessThan(150)
})

test('while the database does not answer it continues as before', async () => {
  let away = false
  const there = databaseAhead(90_000)
  const database = {
    ...there,
    query: ((text: string) =>
      away ? Promise.reject(new Error('away')) : there.query(text)) as Database['query'],
  }
  const clock = createPlatformClock(database)
  await clock.follow()
  away = true
  await expect(clock.follow()).rejects.toThrow('away')
  expect(Math.abs(clock.now() - Date.now() - 90_000)).toBeLessThan(1_000)
})
