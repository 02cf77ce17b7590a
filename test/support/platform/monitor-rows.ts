// Rows of keys, monitors and agents, written by SQL, as preconditions of tests.
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import type { Database } from '../../../src/database/database.ts'

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
  needs?: string[]
  /** The text of `effective`. */
  effective?: string
}

/** Adds a URL monitor that is due every 10 s from the epoch on; answers with its id. */
export async function addMonitor(
  database: Database,
  accountId: string,
  options: MonitorRowOptions,
): Promise<string> {
  const { locations, activated = true, needs = ['URL'], effective = '{}' } = options
  const id = randomUUID()
  await database.query(
    `insert into monitors (id, account_id, check_type, name, activated, muted, definition, effective,
       location_ids) values ($1, $2, 'URL', 'the shop', $3, false, '', $4, $5::uuid[])`,
    [id, accountId, activated, effective, locations.map((one) => one.id)],
  )
  for (const location of locations) {
    await database.query(
      `insert into placements (location_id, monitor_id, revision, needs, every_ms, offset_ms, from_ms,
         until_ms) values ($1, $2, 1, $3, 10000, 0, 0, $4)`,
      [location.id, id, needs, activated ? null : 1],
    )
    await database.query(
      `insert into expectations (location_id, monitor_id, from_ms, until_ms, every_ms, offset_ms)
       values ($1, $2, 0, $3, 10000, 0)`,
      [location.id, id, activated ? null : 1],
    )
  }
  return id
}

/** Adds an agent; answers with its id. */
export async function addAgent(
  database: Database,
  locationId: string,
  options: { state?: 'live' | 'left' | 'lost'; abilities?: string[]; version?: string } = {},
): Promise<string> {
  const { state = 'live', abilities = ['URL'], version = '8.4.0' } = options
  const id = randomUUID()
  await database.query(
    `insert into agents (id, location_id, instance, version, image, abilities, state)
     values ($1, $2, $3, $4, 'agent', $5, $6)`,
    [id, locationId, randomUUID(), version, abilities, state],
  )
  return id
}
