// kill -9 of a platform on a given PostgreSQL in the middle of writes, again and again: nothing that was
// acknowledged is lost, nothing is there twice, and it starts again by itself.
import { describe, expect, test } from 'vitest'
import { DATABASE_SERVERS, useDatabase } from '../support/database/database.ts'
import { killInTheMiddle, KILLS, NOTHING_LOST } from '../support/platform/kill-in-the-middle.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

describe.each(DATABASE_SERVERS.filter(({ key }) => key === 'other'))('on $name', (server) => {
  const use = useDatabase(server, { migrated: false })

  test(`${KILLS} times`, { timeout: 600_000 }, async () => {
    const dataDir = temporaryFolder()
    const aftermath = await killInTheMiddle({ DATA_DIR: dataDir, DATABASE_URL: use().url }, dataDir)
    expect(aftermath).toMatchObject(NOTHING_LOST)
    expect(aftermath.acknowledged).toBeGreaterThan(KILLS)
    expect(aftermath.unanswered).toBeGreaterThan(KILLS)
  })
})
