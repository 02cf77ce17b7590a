// Statements on private locations and the keys of their agents. The URL of the proxy is passed encrypted; the
// database knows a key by its hash alone.
import { instantText } from '../../../database/row-json.ts'
import { execute, queryAny, queryAs, queryRow, queryRows, raw, sql } from '../../../database/sql.ts'
import type { Queryable } from '../../../database/database.ts'
import type { PrivateLocation } from '../schema.ts'

/** SQL: whether the location `l` was reported to have no agent, and still has none. */
export const UNATTENDED = '(l.absent_since is not null and l.absence_told_at is not null)'

export interface PrivateLocationRow extends Pick<
  PrivateLocation,
  'id' | 'name' | 'slugName' | 'icon' | 'keys' | 'lastSeen' | 'created_at' | 'updated_at'
> {
  /** Encrypted. */
  proxyUrl: string | null
  /** Agents that are live, oldest id first. */
  agents: { id: string; version: string; lastSeenAt: string }[]
}

const COLUMNS = `l.id, l.name, l.slug_name as "slugName", l.icon, l.proxy_url as "proxyUrl",
  ${instantText('l.created_at')} as created_at, ${instantText('l.updated_at')} as updated_at,
  coalesce((select jsonb_agg(jsonb_build_object('id', k.id, 'maskedKey', '...' || k.suffix,
      'created_at', ${instantText('k.created_at')}) order by k.created_at, k.id)
    from location_keys k where k.location_id = l.id and k.revoked_at is null), '[]') as keys,
  coalesce((select jsonb_agg(jsonb_build_object('id', a.id, 'version', a.version,
      'lastSeenAt', ${instantText('a.last_seen_at')}) order by a.id)
    from agents a where a.location_id = l.id and a.state = 'live'), '[]') as agents,
  (select ${instantText('max(a.last_seen_at)')} from agents a
    where a.location_id = l.id) as "lastSeen"`

/** Locations of an account, oldest first. */
export const listPrivateLocations = queryRows(
  (accountId: string, limit: number) => sql<PrivateLocationRow>('private-locations-list')`
    select ${raw(COLUMNS)} from private_locations l where l.account_id = ${accountId} and not l.is_internal
    order by l.created_at, l.id limit ${limit}::int`,
)

/** A location of the account. */
export const readPrivateLocation = queryRow(
  (accountId: string, id: string) => sql<PrivateLocationRow>('private-location-read')`
      select ${raw(COLUMNS)} from private_locations l where l.id = ${id} and l.account_id = ${accountId} and not l.is_internal`,
)

/** Slug name → id of every location of an account. */
export const locationIdsBySlug = queryAs(
  (accountId: string) => sql<{ id: string; slug_name: string }>('private-locations-slugs')`
      select id, slug_name from private_locations where account_id = ${accountId} and not is_internal`,
  (rows) => new Map(rows.map((row) => [row.slug_name, row.id])),
)

/** Fields of a location; its slug name never changes. */
export interface PrivateLocationFields {
  id: string
  accountId: string
  name: string
  icon: string
  proxyUrl: string | null
}

/** Adds a location. A used slug is a duplicate of `private_locations_slug_taken`. */
export const insertPrivateLocation = execute(
  ({ id, accountId, name, icon, proxyUrl }: PrivateLocationFields, slugName: string) => sql(
    'private-location-insert',
  )`
      insert into private_locations (id, account_id, name, slug_name, icon, proxy_url)
      values (${id}, ${accountId}, ${name}, ${slugName}, ${icon}, ${proxyUrl}) returning id`,
)

/** Replaces the fields of a location. */
export const changePrivateLocation = execute(
  ({ id, accountId, name, icon, proxyUrl }: PrivateLocationFields) => sql(
    'private-location-change',
  )`
      update private_locations set name = ${name}, icon = ${icon}, proxy_url = ${proxyUrl},
        updated_at = clock_timestamp()
      where id = ${id} and account_id = ${accountId} and not is_internal`,
)

/** How many monitors and groups name a location. */
export const usersOfLocation = queryAs(
  (accountId: string, id: string) => sql<{ monitors: number; groups: number }>(
    'private-location-users',
  )`
      select
        (select count(*)::int from monitors where account_id = ${accountId} and deleted_at is null
          and location_ids @> array[${id}::uuid]) as monitors,
        (select count(*)::int from check_groups where account_id = ${accountId}
          and location_ids @> array[${id}::uuid]) as groups`,
  ([row]) => row ?? { monitors: 0, groups: 0 },
)

/** Deletes a location with its keys and agents; false when the account has none of that id. */
export const deletePrivateLocation = queryAny(
  (accountId: string, id: string) => sql<{ id: string }>('private-location-delete')`
      delete from private_locations where id = ${id} and account_id = ${accountId} and not is_internal
      returning id`,
)

/** Stores a sample of every location with agents, and deletes those older than `daysMax`. */
export const sampleLocations = execute(
  // The last reports of agents on their queues; those of an unresponsive agent are outdated.
  (daysMax: number) => sql('location-samples-take')`
      with old as (
        delete from location_samples
        where at < clock_timestamp() - make_interval(days => ${daysMax}::int))
      insert into location_samples (location_id, at, queue_size, oldest_scheduled_ms)
      select a.location_id, date_trunc('minute', clock_timestamp()),
        least(sum(coalesce((a.queues #>> '{uptime,waiting}')::numeric, 0)
          + coalesce((a.queues #>> '{scripted,waiting}')::numeric, 0)), 2147483647)::int,
        max(greatest((a.queues #>> '{uptime,oldestMs}')::numeric,
          (a.queues #>> '{scripted,oldestMs}')::numeric))::bigint
      from agents a where a.state = 'live'
      group by a.location_id
      on conflict (location_id, at) do update set queue_size = excluded.queue_size,
        oldest_scheduled_ms = excluded.oldest_scheduled_ms`,
)

export interface LocationSampleRow {
  at: Date
  queue_size: number
  oldest_scheduled_ms: number | null
}

/** Samples of a location within [from, to], oldest first, `limit` at most. */
export const listLocationSamples = queryRows(
  (locationId: string, from: Date, to: Date, limit: number) => sql<LocationSampleRow>(
    'location-samples-list',
  )`
    select at, queue_size, oldest_scheduled_ms from location_samples
    where location_id = ${locationId} and at between ${from}::timestamptz and ${to}::timestamptz
    order by at limit ${limit}::int`,
)

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
export const revokeLocationKey = queryAny(
  (of: { accountId: string; locationId: string; id: string }) => sql<{ id: string }>(
    'location-key-revoke',
  )`
      update location_keys k set revoked_at = clock_timestamp()
      from private_locations l
      where k.id = ${of.id} and k.location_id = ${of.locationId} and k.revoked_at is null
        and l.id = k.location_id and l.account_id = ${of.accountId}
      returning k.id`,
)
