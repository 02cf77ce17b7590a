// Statements on the keys of agents. The database knows a key by its hash alone.
import { sql } from '../../../database/sql.ts'
import type { Queryable } from '../../../database/database.ts'

/** A key to be added. */
export interface NewLocationKeyFields {
  id: string
  accountId: string
  locationId: string
  /** SHA-256 of the key. */
  hash: Buffer
  suffix: string
}

/**
 * Adds a key unless the location has `activeMax` already. To be called in a transaction: the lock has to
 * come before the count. Answers with when it was made.
 */
export async function insertLocationKey(
  tx: Queryable,
  key: NewLocationKeyFields,
  activeMax: number,
): Promise<Date | 'full' | 'absent'> {
  const { id, accountId, locationId, hash, suffix } = key
  const rows = await tx.query(sql<{ id: string }>('location-keys-lock')`
      select id from private_locations where id = ${locationId} and account_id = ${accountId} and not is_internal for no key update`)
  if (rows.length === 0) return 'absent'
  const [row] = await tx.query(sql<{ created_at: Date }>('location-key-insert')`
      insert into location_keys (id, location_id, hash, suffix)
      select ${id}, ${locationId}, ${hash}, ${suffix}
      where (select count(*) from location_keys
        where location_id = ${locationId} and revoked_at is null) < ${activeMax}::int
      returning created_at`)
  return row?.created_at ?? 'full'
}

/** Revokes a key for good; false when the location has no active one of that id. */
export async function revokeLocationKey(
  connection: Queryable,
  of: { accountId: string; locationId: string; id: string },
): Promise<boolean> {
  const rows = await connection.query(sql<{ id: string }>('location-key-revoke')`
      update location_keys k set revoked_at = clock_timestamp()
      from private_locations l
      where k.id = ${of.id} and k.location_id = ${of.locationId} and k.revoked_at is null
        and l.id = k.location_id and l.account_id = ${of.accountId}
      returning k.id`)
  return rows.length === 1
}
