// Results recorded as a platform records them, without agents: in locations of an account with a client that reads
// them.
import { randomUUID } from 'node:crypto'
import { beforeAll } from 'vitest'
import type { ResultsAnswer } from '../../../src/contract/protocol/agent-protocol.ts'
import type { OnRecorded } from '../../../src/platform/results/recorded.ts'
import { recordResults } from '../../../src/platform/results/intake.ts'
import { rollUp } from '../../../src/platform/analytics/rollups.ts'
import type { Database } from '../../../src/database/database.ts'
import { ensurePartitions } from '../../../src/platform/results/queries/result-partitions.ts'
import { addLocation, type TestLocation } from './locations.ts'
import { type ApiClient, servePublicApi } from './public-api.ts'

const DAY_MS = 86_400_000

/** Results that agents of a location report at an instant. */
export interface Report {
  at: Pick<TestLocation, 'id' | 'accountId'>
  results: unknown[]
  nowMs: number
  /** Maximum age of accepted results; default a day. */
  retentionMs?: number
  onRecorded?: OnRecorded[]
  agentId?: string
}

/** A location as the platform knows it by its key. */
export function keyOf({ id, accountId }: Report['at']) {
  return { locationId: id, accountId }
}

/** Records results, by default of an unknown agent. */
export function report(database: Database, given: Report): Promise<ResultsAnswer> {
  const { at, retentionMs = DAY_MS, onRecorded = [], agentId = randomUUID(), ...rest } = given
  return recordResults(database, { key: keyOf(at), agentId, retentionMs, onRecorded, ...rest })
}

/** Rolls up the hours before `sweptMs`, as if they had been swept. */
export async function rollUpUntil(database: Database, sweptMs: number): Promise<void> {
  await database.query(
    `insert into accounting (swept_until_ms) values ($1)
     on conflict (one) do update set swept_until_ms = $1`,
    [sweptMs],
  )
  await rollUp(database, AbortSignal.timeout(20_000))
}

/**
 * The public API at an instant, with an account that has two locations, and room for results of `days` before. What
 * it returns is filled before the tests.
 */
export function useResultsApi(
  use: () => { database: Database },
  { nowMs, days }: { nowMs: number; days: number },
) {
  const { addClient } = servePublicApi(use, () => ({ clock: { now: () => nowMs } }))
  const scene = {} as { client: ApiClient; office: TestLocation; plant: TestLocation }
  beforeAll(async () => {
    const { database } = use()
    await ensurePartitions(database, nowMs - days * DAY_MS, nowMs + DAY_MS)
    const client = await addClient()
    const place = (slugName: string) => addLocation(database, { ...client, slugName })
    Object.assign(scene, { client, office: await place('office'), plant: await place('plant') })
  })
  return Object.assign(scene, { addClient })
}
