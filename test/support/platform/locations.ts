// Locations with keys and monitors, written directly into the database, without the public API.
import { randomUUID } from 'node:crypto'
import { slotsOf } from '../../../src/contract/timetable.ts'
import type { Cipher } from '../../../src/platform/secrets/cipher.ts'
import type { Database, Queryable } from '../../../src/database/database.ts'
import { announceNews, lockLocation } from '../../../src/platform/agents/queries/location-epochs.ts'
import { addLocationKey } from './monitor-rows.ts'
import { addAccount } from './public-api.ts'

/** A location and a key of it. */
export interface TestLocation {
  id: string
  accountId: string
  slugName: string
  keyId: string
  secret: string
}

/** Makes a location with one key, by default in a new account. */
export async function addLocation(
  database: Database,
  of: { accountId?: string; slugName?: string } = {},
): Promise<TestLocation> {
  const id = randomUUID()
  const account = of.accountId ?? (await addAccount(database))
  const slugName = of.slugName ?? `location-${id.slice(0, 8)}`
  await database.query(
    `insert into private_locations (id, account_id, name, slug_name) values ($1, $2, $3, $3)`,
    [id, account, slugName],
  )
  const key = await addLocationKey(database, id)
  return { id, accountId: account, slugName, ...key }
}

/** A monitor to assign. */
export interface PlacedMonitor {
  id?: string
  checkType?: string
  everyMs?: number
  needs?: string[]
}

/** Assigns monitors to a location, all with one revision; their ids. */
export async function placeMonitors(
  { database, cipher }: { database: Database; cipher: Cipher },
  location: Pick<TestLocation, 'id' | 'accountId'>,
  monitors: readonly PlacedMonitor[],
): Promise<string[]> {
  const rows = monitors.map(({ id = randomUUID(), checkType = 'TCP', everyMs = 10_000, needs }) => {
    const definition = JSON.stringify({
      id,
      checkType,
      name: `monitor ${id}`,
      frequency: 0,
      frequencyOffset: everyMs / 1000,
      request: { hostname: '127.0.0.1', port: 9 },
    })
    const slots = slotsOf({ id, frequency: 0, frequencyOffset: everyMs / 1000 })
    return {
      id,
      checkType,
      needs: needs ?? [checkType],
      encrypted: cipher.encrypt(definition),
      ...slots,
    }
  })
  await database.transaction(async (tx) => {
    await tx.query(
      `insert into monitors (id, account_id, check_type, name, activated, muted, definition, effective)
       select x.id, $1, x."checkType", 'a monitor', true, false, x.encrypted, x.encrypted
       from jsonb_to_recordset($2::jsonb) as x (id uuid, "checkType" text, encrypted text)`,
      [location.accountId, JSON.stringify(rows)],
    )
    const revision = await raiseRevision(tx, location.id)
    await tx.query(
      `insert into placements
         (location_id, monitor_id, revision, needs, every_ms, offset_ms, from_ms)
       select $1, x.id, $2, x.needs, x."everyMs", x."offsetMs", $4::bigint
       from jsonb_to_recordset($3::jsonb) as x
         (id uuid, needs text[], "everyMs" bigint, "offsetMs" bigint)`,
      [location.id, revision, JSON.stringify(rows), Date.now() - 60_000],
    )
  })
  return rows.map(({ id }) => id)
}

/** Raises the revision of a location, as every change of an assignment does. */
export async function raiseRevision(tx: Queryable, locationId: string): Promise<number> {
  await lockLocation(tx, locationId)
  const [row] = await tx.query<{ revision: number }>(
    `update private_locations set revision = revision + 1 where id = $1 returning revision`,
    [locationId],
  )
  await announceNews(tx, locationId)
  return row?.revision ?? 0
}

/** Changes one assignment like an edit of its monitor; `untilMs` ends it. */
export function changeAssignment(
  database: Database,
  { locationId, monitorId, untilMs }: { locationId: string; monitorId: string; untilMs?: number },
): Promise<void> {
  return database.transaction(async (tx) => {
    const revision = await raiseRevision(tx, locationId)
    await tx.query(
      `update placements set revision = $3, until_ms = $4
       where location_id = $1 and monitor_id = $2`,
      [locationId, monitorId, revision, untilMs ?? null],
    )
  })
}

/** Writes a row of a result; creates its partition if needed. */
export async function addResult(
  database: Database,
  location: Pick<TestLocation, 'id' | 'accountId'>,
  { monitorId, slotMs, filled = false }: { monitorId: string; slotMs: number; filled?: boolean },
): Promise<void> {
  await database.query(`create table if not exists results_of_tests partition of results default`)
  await database.query(
    `insert into results (location_id, monitor_id, slot, account_id, verdict, missed_reason, filled,
       started_at, duration_ms, attempts)
     values ($1, $2, to_timestamp($3::double precision / 1000), $4, $5, $6, $7,
       to_timestamp($3::double precision / 1000), 1, 1)`,
    [
      location.id,
      monitorId,
      slotMs,
      location.accountId,
      filled ? 'missed' : 'passed',
      filled ? 'agent-lost' : null,
      filled,
    ],
  )
}
