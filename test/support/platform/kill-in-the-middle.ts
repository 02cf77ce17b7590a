// Starts a platform, writes through it, kills it in the middle, and restarts it; in the end compares acknowledged
// writes with stored ones.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type StartedPlatform, startPlatform } from './platform-process.ts'
import {
  createIncident,
  createService,
  storedCredentials,
  listNames,
  type Writer,
} from './written-incidents.ts'

/** Number of kills. */
export const KILLS = 50

const RATE_LIMIT = '10000000'
const WRITERS = 4
/** Acknowledged writes before a kill, so that others are in progress. */
const WRITES_MAX = 24

/** The state at the end. */
export interface Aftermath {
  /** Exit code of the last platform, which was stopped by a signal. */
  exitCode: number | null
  acknowledged: number
  /** Interrupted by a kill; they may be stored or not. */
  unanswered: number
  /** Acknowledged but not stored. */
  lost: string[]
  doubled: string[]
  updatesPerIncident: number[]
}

/** Invariants at the end; an incident and its update are stored together or not at all. */
export const NOTHING_LOST = { exitCode: 0, lost: [], doubled: [], updatesPerIncident: [1] }

/** Runs the whole sequence on the database that `env` names; `dataDir` has the credentials. */
export async function killInTheMiddle(
  env: Record<string, string>,
  dataDir: string,
): Promise<Aftermath> {
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
  return {
    exitCode: (await platform.ended).code,
    acknowledged: acknowledged.length,
    unanswered: asked - acknowledged.length,
    lost: acknowledged.filter((name) => !counts.has(name)),
    doubled: [...counts].filter(([, count]) => count !== 1).map(([name]) => name),
    updatesPerIncident: [...updates],
  }
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
