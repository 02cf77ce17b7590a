// Statements on the keys of agents. The database stores only the hash of a key.
import { sql } from './sql.ts'
import type { Queryable } from './database.ts'

/** A key as an agent's call finds it. */
export interface LocationKeyRow {
  id: string
  location_id: string
  account_id: string
  slug_name: string
  hash: Buffer
  revoked: boolean
  /** Live agents of the location. */
  agents: number
}

/** The key with this hash, revoked or not. */
export async function findLocationKey(
  connection: Queryable,
  hash: Buffer,
): Promise<LocationKeyRow | undefined> {
  const rows = await connection.query(sql<LocationKeyRow>('location-key-find')`
      select k.id, k.location_id, l.account_id, l.slug_name, k.hash, k.revoked_at is not null as revoked,
        (select count(*)::int from agents a where a.location_id = k.location_id and a.state = 'live') as agents
      from location_keys k join private_locations l on l.id = k.location_id
      where k.hash = ${hash}`)
  return rows[0]
}

/** Notes that keys were used, each at most once a minute. */
export async function touchLocationKeys(
  connection: Queryable,
  ids: readonly string[],
): Promise<void> {
  await connection.query(sql('location-key-touch')`
      update location_keys set last_used_at = clock_timestamp()
      where id = any(${ids}::uuid[])
        and (last_used_at is null or last_used_at < clock_timestamp() - interval '1 minute')`)
}
