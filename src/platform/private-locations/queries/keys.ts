// Statements on the keys of agents. The database knows a key by its hash alone.
import { statement, type Connection } from '../../../database/statement.ts'

const lock = statement<[string, string], { id: string }>(
  'location-keys-lock',
  'select id from private_locations where id = $1 and account_id = $2 for no key update',
)

const insert = statement<[string, string, Buffer, string, number], { created_at: Date }>(
  'location-key-insert',
  `insert into location_keys (id, location_id, hash, suffix)
   select $1, $2, $3, $4
   where (select count(*) from location_keys
     where location_id = $2 and revoked_at is null) < $5::int
   returning created_at`,
)

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
  tx: Connection,
  key: NewLocationKeyFields,
  activeMax: number,
): Promise<Date | 'full' | 'absent'> {
  const { id, accountId, locationId, hash, suffix } = key
  if ((await lock(tx, locationId, accountId)).length === 0) return 'absent'
  const [row] = await insert(tx, id, locationId, hash, suffix, activeMax)
  return row?.created_at ?? 'full'
}

const revoke = statement<[string, string, string], { id: string }>(
  'location-key-revoke',
  `update location_keys k set revoked_at = clock_timestamp()
   from private_locations l
   where k.id = $1 and k.location_id = $2 and k.revoked_at is null
     and l.id = k.location_id and l.account_id = $3
   returning k.id`,
)

/** Revokes a key for good; false when the location has no active one of that id. */
export async function revokeLocationKey(
  connection: Connection,
  of: { accountId: string; locationId: string; id: string },
): Promise<boolean> {
  return (await revoke(connection, of.id, of.locationId, of.accountId)).length === 1
}
