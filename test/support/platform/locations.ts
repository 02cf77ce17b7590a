// Locations with keys and monitors, written directly into the database, without the public API.
import { randomUUID } from 'node:crypto'
import { slotsOf } from '../../../src/contract/timetable.ts'
import type { Database, Queryable } from '../../../src/database/database.ts'
import { announceNews, lockLocation } from '../../../src/platform/agents/queries/location-epochs.ts'
import { addLocationKey } from './monitor-rows.ts'
import { addAccount, TEST_CIPHER } from './public-api.ts'

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
  const { accountId = await addAccount(database), slugName = `location-${id.slice(0, 8)}` } = of
  await database.query(
    `insert into private_locations (id, account_id, name, slug_name) values ($1, $2, $3, $3)`,
    [id, accountId, slugName],
  )
  return { id, accountId, slugName, ...(await addLocationKey(database, id)) }
}

/** A monitor to assign. */
export interface MonitorToPlace {
  checkType?: string
  needs?: string[]
}

/** Assigns monitors to a location, all with one revision; their ids. */
export async function placeMonitors(
  { database }: { database: Database },
  { id: locationId, accountId }: Pick<TestLocation, 'id' | 'accountId'>,
  monitors: readonly MonitorToPlace[],
): Promise<string[]> {
  const rows = monitors.map(({ checkType = 'TCP', needs = [checkType] }) => {
    const id = randomUUID()
    const timing = { id, frequency: 0, frequencyOffset: 10 }
    const request = { hostname: '127.0.0.1', port: 9 }
    const definition = JSON.stringify({ ...timing, checkType, name: `monitor ${id}`, request })
    return { id, checkType, needs, encrypted: TEST_CIPHER.encrypt(definition), ...slotsOf(timing) }
  })
  await database.transaction(async (tx) => {
    await tx.query(
      `insert into monitors (id, account_id, check_type, name, activated, muted, definition, effective)
       select x.id, $1, x."checkType", 'a monitor', true, false, x.encrypted, x.encrypted
       from jsonb_to_recordset($2::jsonb) as x (id uuid, "checkType" text, encrypted text)`,
      [accountId, JSON.stringify(rows)],
    )
    await tx.query(
      `insert into placements
         (location_id, monitor_id, revision, needs, every_ms, offset_ms, from_ms)
       select $1, x.id, $2, x.needs, x."everyMs", x."offsetMs", $4::bigint
       from jsonb_to_recordset($3::jsonb) as x
         (id uuid, needs text[], "everyMs" bigint, "offsetMs" bigint)`,
      [locationId, await raiseRevision(tx, locationId), JSON.stringify(rows), Date.now() - 60_000],
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

/** Sets since when the location has had no agent, in minutes; null: it has one. */
export async function setAbsence(
  database: Database,
  locationId: string,
  minutes: number | null,
): Promise<void> {
  await database.query(
    `update private_locations
     set absent_since = clock_timestamp() - make_interval(mins => $2::int) where id = $1`,
    [locationId, minutes],
  )
}
