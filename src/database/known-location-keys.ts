// Statements on the keys of agents. The database stores only the hash of a key.
import { queryRow } from './statement-functions.ts'
import { sql } from './sql.ts'

/** A key as an agent's call finds it. */
export interface LocationKeyRow {
  id: string
  locationId: string
  accountId: string
  slugName: string
  hash: Buffer
  revoked: boolean
  /** Live agents of the location. */
  agents: number
}

/** The key with this hash, revoked or not. */
export const findLocationKey = queryRow(
  (hash: Buffer) => sql<LocationKeyRow>('location-key-find')`
      select k.id, k.location_id as "locationId", l.account_id as "accountId",
        l.slug_name as "slugName", k.hash, k.revoked_at is not null as revoked,
        (select count(*)::int from agents a where a.location_id = k.location_id and a.state = 'live') as agents
      from location_keys k join private_locations l on l.id = k.location_id
      where k.hash = ${hash}`,
)
