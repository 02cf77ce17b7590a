// Statements on private locations. The URL of the proxy is passed encrypted.
import { statement, type Connection } from '../../../database/statement.ts'

/** SQL: whether the location `l` was reported to have no agent, and still has none. */
export const UNATTENDED = '(l.absent_since is not null and l.absence_told_at is not null)'

/** A key that agents of a location may use. */
export interface LocationKeyText {
  id: string
  suffix: string
  created_at: string
}

/** An agent that reports. */
export interface RunningAgentText {
  id: string
  version: string
  last_seen_at: string
}

/** A location with its keys and agents. */
export interface PrivateLocationRow {
  id: string
  name: string
  slug_name: string
  icon: string
  proxy_url: string | null
  created_at: Date
  updated_at: Date | null
  keys: LocationKeyText[]
  /** Agents that are live, oldest id first. */
  agents: RunningAgentText[]
  /** When any agent called last; null when none ever was. */
  last_seen_at: Date | null
}

const COLUMNS = `l.id, l.name, l.slug_name, l.icon, l.proxy_url, l.created_at, l.updated_at,
  coalesce((select jsonb_agg(jsonb_build_object('id', k.id, 'suffix', k.suffix,
      'created_at', k.created_at) order by k.created_at, k.id)
    from location_keys k where k.location_id = l.id and k.revoked_at is null), '[]') as keys,
  coalesce((select jsonb_agg(jsonb_build_object('id', a.id, 'version', a.version,
      'last_seen_at', a.last_seen_at) order by a.id)
    from agents a where a.location_id = l.id and a.state = 'live'), '[]') as agents,
  (select max(a.last_seen_at) from agents a where a.location_id = l.id) as last_seen_at`

/** Locations of an account, oldest first. */
export const listPrivateLocations = statement<
  [accountId: string, limit: number],
  PrivateLocationRow
>(
  'private-locations-list',
  `select ${COLUMNS} from private_locations l where l.account_id = $1
   order by l.created_at, l.id limit $2::int`,
)

const read = statement<[string, string], PrivateLocationRow>(
  'private-location-read',
  `select ${COLUMNS} from private_locations l where l.id = $1 and l.account_id = $2`,
)

/** A location of the account. */
export async function readPrivateLocation(
  connection: Connection,
  accountId: string,
  id: string,
): Promise<PrivateLocationRow | undefined> {
  return (await read(connection, id, accountId))[0]
}

const slugs = statement<[string], { id: string; slug_name: string }>(
  'private-locations-slugs',
  'select id, slug_name from private_locations where account_id = $1',
)

/** Slug name → id of every location of an account. */
export async function locationIdsBySlug(
  connection: Connection,
  accountId: string,
): Promise<Map<string, string>> {
  const rows = await slugs(connection, accountId)
  return new Map(rows.map((row) => [row.slug_name, row.id]))
}

/** Fields of a location; its slug name never changes. */
export interface PrivateLocationFields {
  id: string
  accountId: string
  name: string
  icon: string
  proxyUrl: string | null
}

const insert = statement<[string, string, string, string, string, string | null], { id: string }>(
  'private-location-insert',
  `insert into private_locations (id, account_id, name, slug_name, icon, proxy_url)
   values ($1, $2, $3, $4, $5, $6) returning id`,
)

/** Adds a location. A used slug is a duplicate of `private_locations_slug_taken`. */
export async function insertPrivateLocation(
  tx: Connection,
  { id, accountId, name, icon, proxyUrl }: PrivateLocationFields,
  slugName: string,
): Promise<void> {
  await insert(tx, id, accountId, name, slugName, icon, proxyUrl)
}

const change = statement<[string, string, string, string, string | null], { id: string }>(
  'private-location-change',
  `update private_locations set name = $3, icon = $4, proxy_url = $5,
     updated_at = clock_timestamp()
   where id = $1 and account_id = $2 returning id`,
)

/** Replaces a location's fields; false when the account has none of that id. */
export async function changePrivateLocation(
  tx: Connection,
  { id, accountId, name, icon, proxyUrl }: PrivateLocationFields,
): Promise<boolean> {
  return (await change(tx, id, accountId, name, icon, proxyUrl)).length === 1
}

const users = statement<[string, string], { monitors: number; groups: number }>(
  'private-location-users',
  `select
     (select count(*)::int from monitors where account_id = $1 and deleted_at is null
       and location_ids @> array[$2::uuid]) as monitors,
     (select count(*)::int from check_groups where account_id = $1
       and location_ids @> array[$2::uuid]) as groups`,
)

/** How many monitors and groups name a location. */
export async function usersOfLocation(
  tx: Connection,
  accountId: string,
  id: string,
): Promise<{ monitors: number; groups: number }> {
  return (await users(tx, accountId, id))[0] ?? { monitors: 0, groups: 0 }
}

const remove = statement<[string, string], { id: string }>(
  'private-location-delete',
  'delete from private_locations where id = $1 and account_id = $2 returning id',
)

/** Deletes a location with its keys and agents; false when the account has none of that id. */
export async function deletePrivateLocation(
  tx: Connection,
  accountId: string,
  id: string,
): Promise<boolean> {
  return (await remove(tx, id, accountId)).length === 1
}
