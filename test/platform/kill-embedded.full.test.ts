// kill -9 of a platform with its own PostgreSQL in the middle of writes, again and again: nothing that
// was acknowledged is lost, nothing is there twice, and it starts again by itself.
import { expect, test } from 'vitest'
import { killInTheMiddle, KILLS, NOTHING_LOST } from '../support/platform/kill-in-the-middle.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

test(`${KILLS} times, every second time PostgreSQL with it`, { timeout: 600_000 }, async () => {
  const dataDir = temporaryFolder()
  const aftermath = await killInTheMiddle({ DATA_DIR: dataDir }, dataDir)
  expect(aftermath).toMatchObject(NOTHING_LOST)
  expect(aftermath.acknowledged).toBeGreaterThan(KILLS)
  expect(aftermath.unanswered).toBeGreaterThan(KILLS)
})
