// Aim: kill -9 of a platform in the middle of writes, again and again: nothing that was acknowledged is lost,
// nothing is there twice, and it starts again by itself.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { DATABASE_SERVERS, useDatabase } from '../support/database/database.ts'
import { type StartedPlatform, startPlatform } from '../support/platform/platform-process.ts'
import {
  createIncident,
  createService,
  storedCredentials,
  listNames,
  type Writer,
} from '../support/platform/written-incidents.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

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
    const writes = 1 + (kill % WRITES_MAX)
    asked += await writeUntilKilled(
      { platform, writer, serviceId, acknowledged, writes, kill },
      () =>
        killAll(
          platform,
          env['DATABASE_URL'] === undefined && kill % 2 === 1 ? dataDir : undefined,
        ),
    )
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
  // The unanswered were interrupted by a kill; they may be stored or not.
  return { aftermath, acknowledged: acknowledged.length, unanswered: asked - acknowledged.length }
}

interface Round {
  platform: StartedPlatform
  writer: Writer
  serviceId: string
  acknowledged: string[]
  writes: number
  kill: number
}

/** Several concurrent writers; resolves with the number of requested writes. */
async function writeUntilKilled(round: Round, kill: () => void): Promise<number> {
  const { platform, writer, serviceId, acknowledged, writes } = round
  let asked = 0
  let answered = 0
  let isKilled = false
  const write = async (): Promise<void> => {
    while (!isKilled) {
      const name = `kill ${round.kill} write ${asked++}`
      const status = await createIncident(platform.url, writer, { name, serviceId })
      if (status !== 201) continue
      acknowledged.push(name)
      if (++answered < writes || isKilled) continue
      isKilled = true
      kill()
    }
  }
  await Promise.all(Array.from({ length: WRITERS }, write))
  return asked
}

function killAll(platform: StartedPlatform, dataDir: string | undefined): void {
  if (dataDir !== undefined) {
    const file = join(dataDir, 'postgres/data/postmaster.pid')
    process.kill(Number.parseInt(readFileSync(file, 'utf8'), 10), 'SIGKILL')
  }
  platform.kill('SIGKILL')
}

type Killed = Awaited<ReturnType<typeof killInTheMiddle>>

function expectNothingLost({ aftermath, acknowledged, unanswered }: Killed): void {
  expect(aftermath).toEqual(NOTHING_LOST)
  expect(acknowledged).toBeGreaterThan(KILLS)
  expect(unanswered).toBeGreaterThan(KILLS)
}

test('every second time its own PostgreSQL with it', { timeout: 600_000 }, async () => {
  expect.hasAssertions()
  const dataDir = temporaryFolder()
  expectNothingLost(await killInTheMiddle({ DATA_DIR: dataDir }, dataDir))
})

describe.each(DATABASE_SERVERS.filter(({ key }) => key === 'other'))('on $name', (server) => {
  const use = useDatabase(server, { migrated: false })

  test('again and again', { timeout: 600_000 }, async () => {
    expect.hasAssertions()
    const dataDir = temporaryFolder()
    const env = { DATA_DIR: dataDir, DATABASE_URL: use().url }
    expectNothingLost(await killInTheMiddle(env, dataDir))
  })
})
