// Aim: the platform's time is its database's, whatever the machine's clock says.
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createPlatformClock } from '../../src/database/platform-clock.ts'
import type { Database } from '../../src/database/database.ts'
import { useDatabase } from '../support/database/database.ts'

const use = useDatabase()

/** A database whose clock is ahead of the machine's; it answers after a time, or fails where that is undefined. */
function databaseAhead(aheadMs: number) {
  const state: { answerMs: number | undefined } = { answerMs: 0 }
  const query = async () => {
    const { answerMs } = state
    if (answerMs === undefined) throw new Error('away')
    if (answerMs > 0) await sleep(answerMs / 2)
    const now = Date.now() + aheadMs
    if (answerMs > 0) await sleep(answerMs / 2)
    return [{ now }]
  }
  return { state, database: { query } as unknown as Database }
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
  const { state, database } = databaseAhead(aheadMs)
  const clock = createPlatformClock(database)
  const offMs = () => Math.abs(clock.now() - Date.now() - aheadMs)
  expect(offMs()).toBeGreaterThan(80_000)
  await clock.follow()
  expect(offMs()).toBeLessThan(150)
  // A slow answer does not adjust it, and none neither.
  state.answerMs = 400
  await clock.follow()
  state.answerMs = undefined
  await expect(clock.follow()).rejects.toThrow('away')
  expect(offMs()).toBeLessThan(150)
})
