// Keys of both APIs as the platform knows them, and as requests carry them.
import type { Role } from '../../contract/api/account.ts'
import { queryRow, sql } from '../../database/sql.ts'

/** What every kind of key has; its secret is known by its SHA-256 only. */
export interface HashedKey {
  id: string
  hash: Buffer
}

/** A key of the public API as the platform knows it. */
export interface KnownKey extends HashedKey {
  name: string
  accountId: string
  role: Role
}

/** A key of a location as the platform knows it. */
export interface KnownLocationKey extends HashedKey {
  locationId: string
  accountId: string
  slugName: string
  /** Live agents of the location, as of when the key was looked up. */
  agents: number
}

/** The key of a request, not verified. */
export interface KeyCredentials {
  /** SHA-256 of the key, base64. */
  hash: string
}

/** Looks up the key whose secret has this SHA-256; undefined when unknown or revoked. */
export type FindKey<Key extends HashedKey> = (hash: Buffer) => Promise<Key | undefined>

/** The key of a location with this hash, revoked or not. */
export const findLocationKey = queryRow(
  (hash: Buffer) => sql<KnownLocationKey & { revoked: boolean }>('location-key-find')`
      select k.id, k.location_id as "locationId", l.account_id as "accountId",
        l.slug_name as "slugName", k.hash, k.revoked_at is not null as revoked,
        (select count(*)::int from agents a where a.location_id = k.location_id and a.state = 'live') as agents
      from location_keys k join private_locations l on l.id = k.location_id
      where k.hash = ${hash}`,
)
