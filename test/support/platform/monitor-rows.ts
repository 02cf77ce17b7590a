// Rows of keys, monitors, results and agents, written by SQL, as preconditions of tests.
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import type { Database, Queryable } from '../../../src/database/database.ts'
import { placeMonitor } from './placed-monitors.ts'

/** Adds a key of a location. */
export async function addLocationKey(
  database: Database,
  locationId: string,
): Promise<{ keyId: string; secret: string }> {
  const secret = `pl_${randomBytes(32).toString('base64url')}`
  const keyId = randomUUID()
  await database.query(
    `insert into location_keys (id, location_id, hash, suffix) values ($1, $2, $3, $4)`,
    [keyId, locationId, createHash('sha256').update(secret).digest(), secret.slice(-4)],
  )
  return { keyId, secret }
}

/** Options of a monitor's rows. */
export interface MonitorRowOptions {
  locations: readonly { id: string }[]
  activated?: boolean
  /** The text of `effective`. */
  effective?: string
}

/** Adds a URL monitor that is due every 10 s from the epoch on; answers with its id. */
export async function addMonitor(
  database: Database,
  accountId: string,
  { locations, activated = true, effective = '{}' }: MonitorRowOptions,
): Promise<string> {
  const monitorId = randomUUID()
  await database.query(
    `insert into monitors (id, account_id, check_type, name, activated, muted, definition, effective,
       location_ids) values ($1, $2, 'URL', 'the shop', $3, false, '', $4, $5::uuid[])`,
    [monitorId, accountId, activated, effective, locations.map(({ id }) => id)],
  )
  const era = { monitorId, fromMs: 0, ...(!activated && { untilMs: 1 }) }
  for (const { id } of locations) await placeMonitor(database, id, era)
  return monitorId
}

/** An agent's row; times in milliseconds since the epoch. */
export interface AgentRow {
  id?: string
  state?: string
  abilities?: string[]
  version?: string
  queues?: object
  liveSinceMs?: number
  lastSeenMs?: number
}

/** Adds an agent; answers with its id. */
export async function addAgent(
  database: Database,
  locationId: string,
  {
    id = randomUUID(),
    state = 'live',
    abilities = ['URL'],
    version = '8.4.0',
    ...row
  }: AgentRow = {},
): Promise<string> {
  const at = (ms?: number) => (ms === undefined ? null : new Date(ms))
  const { queues = {}, liveSinceMs, lastSeenMs } = row
  await database.query(
    `insert into agents (id, location_id, instance, version, image, abilities, state, queues,
       live_since, last_seen_at)
     values ($1, $2, $1, $3, 'agent', $4, $5, $6, coalesce($7, clock_timestamp()),
       coalesce($8, clock_timestamp()))`,
    [
      id,
      locationId,
      version,
      abilities,
      state,
      JSON.stringify(queues),
      at(liveSinceMs),
      at(lastSeenMs),
    ],
  )
  return id
}

/** Adds a run on demand, by default one that waits for an agent; answers with its id. */
export async function addRun(
  database: Database,
  { id: locationId, accountId }: { id: string; accountId: string },
  row: { monitorId: string; state?: string; agentId?: string | null },
): Promise<string> {
  const { monitorId, state = 'queued', agentId = null } = row
  const [id, taken] = [randomUUID(), agentId === null ? null : new Date()]
  const end = state === 'finished' ? ['passed', new Date()] : [null, null]
  await database.query(
    `insert into runs (id, account_id, monitor_id, location_id, state, asked_by, agent_id, taken_at,
       verdict, finished_at) values ($1, $2, $3, $4, $5, 'somebody', $6, $7, $8, $9)`,
    [id, accountId, monitorId, locationId, state, agentId, taken, ...end],
  )
  return id
}

/** The row of a result; times in milliseconds since the epoch. */
export interface ResultRow {
  monitorId: string
  slotMs: number
  verdict?: string
  reason?: string
  filled?: boolean
  receivedMs?: number
}

/** Writes the row of a result, by default of a passed one. */
export async function addResult(
  tx: Queryable,
  { id, accountId }: { id: string; accountId: string },
  { monitorId, slotMs, filled = false, receivedMs = Date.now(), ...row }: ResultRow,
): Promise<void> {
  const { reason = filled ? 'agent-lost' : null } = row
  const { verdict = reason === null ? 'passed' : 'missed' } = row
  const [slot, received] = [new Date(slotMs), new Date(receivedMs)]
  await tx.query(
    `insert into results (location_id, monitor_id, slot, account_id, verdict, missed_reason, filled,
       started_at, duration_ms, attempts, received_at)
     values ($1, $2, $3, $4, $5, $6, $7, $3, 12, 1, $8)`,
    [id, monitorId, slot, accountId, verdict, reason, filled, received],
  )
}
