// Aim: kill -9 of a platform in the middle of writes: nothing acknowledged is lost, nothing is there twice.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { DATABASE_SERVERS, useDatabase } from '../support/database/database.ts'
import { startPlatform } from '../support/platform/platform-process.ts'
import * as incidents from '../support/platform/written-incidents.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const { createIncident, createService, storedCredentials, listNames } = incidents
/** Number of kills. */
const KILLS = 50

const RATE_LIMIT = '10000000'
const WRITERS = 4
/** Acknowledged writes before a kill, so that others are in progress. */
const WRITES_MAX = 24

/** Invariants at the end; an incident and its update are stored together or not at all. */
const NOTHING_LOST = { exitCode: 0, lost: [], doubled: [], updatesPerIncident: [1] }

/** Kills a platform on the database that `env` names again and again; `dataDir` has the credentials. */
async function killInTheMiddle(env: Record<string, string>, dataDir: string) {
  const acknowledged: string[] = []
  let asked = 0
  let serviceId = ''
  for (let kill = 0; kill < KILLS; kill++) {
    const platform = await startPlatform({ ...env, RATE_LIMIT })
    const writer = storedCredentials(dataDir)
    serviceId ||= await createService(platform.url, writer)
    const write = async () => {
      const name = `write ${asked++}`
      if ((await createIncident(platform.url, writer, { name, serviceId })) !== 201) return false
      return acknowledged.push(name) > 0
    }
    await writeUntilKilled(write, 1 + (kill % WRITES_MAX), () => {
      if (env['DATABASE_URL'] === undefined && kill % 2 === 1) killPostgres(dataDir)
      platform.kill('SIGKILL')
    })
    await platform.ended
  }
  const platform = await startPlatform({ ...env, RATE_LIMIT })
  const { counts, updates } = await listNames(platform.url, storedCredentials(dataDir))
  platform.kill('SIGTERM')
  const aftermath = {
    exitCode: (await platform.ended).code,
    lost: acknowledged.filter((name) => !counts.has(name)),
    doubled: [...counts].filter(([, count]) => count !== 1).map(([name]) => name),
    updatesPerIncident: [...updates],
  }
  expect(acknowledged.length).toBeGreaterThan(KILLS)
  // The unanswered were interrupted by a kill; they may be stored or not.
  expect(asked - acknowledged.length).toBeGreaterThan(KILLS)
  return aftermath
}

/** Several concurrent writers; after so many acknowledged writes it kills. */
async function writeUntilKilled(write: () => Promise<boolean>, writes: number, kill: () => void) {
  let answered = 0
  let isKilled = false
  const work = async (): Promise<void> => {
    while (!isKilled) {
      if (!(await write()) || ++answered < writes || isKilled) continue
      isKilled = true
      kill()
    }
  }
  await Promise.all(Array.from({ length: WRITERS }, work))
}

function killPostgres(dataDir: string): void {
  const file = join(dataDir, 'postgres/data/postmaster.pid')
  process.kill(Number.parseInt(readFileSync(file, 'utf8'), 10), 'SIGKILL')
}

test('every second time its own PostgreSQL with it', { timeout: 600_000 }, async () => {
  const dataDir = temporaryFolder()
  expect(await killInTheMiddle({ DATA_DIR: dataDir }, dataDir)).toEqual(NOTHING_LOST)
})

describe.each(DATABASE_SERVERS.filter(({ key }) => key === 'other'))('on $name', (server) => {
  const use = useDatabase(server, { migrated: false })

  test('again and again', { timeout: 600_000 }, async () => {
    const dataDir = temporaryFolder()
    const env = { DATA_DIR: dataDir, DATABASE_URL: use().url }
    expect(await killInTheMiddle(env, dataDir)).toEqual(NOTHING_LOST)
  })
})
