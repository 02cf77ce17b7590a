// Statements on monitors. Definitions are encrypted before they come here.
import type { CheckType } from '../../../monitors/definitions.ts'
import { statement, type Connection } from '../../../database/statement.ts'

/** A monitor that is not deleted. */
export interface MonitorRow {
  id: string
  check_type: CheckType
  group_id: number | null
  /** Encrypted: the definition as given, and the effective one with the settings of its group. */
  definition: string
  effective: string
  location_ids: string[]
  file_name: string | null
  file_key: string | null
  created_at: Date
  updated_at: Date | null
}

const COLUMNS = `id, check_type, group_id, definition, effective, location_ids, file_name, file_key,
  created_at, updated_at`

/** Which monitors to list; null lets all pass. */
export interface MonitorFilters {
  /** At least one of them. */
  tags: readonly string[] | null
  groupId: number | null
  checkType: CheckType | null
  /** Part of the name, in any case. */
  search: string | null
  /** The whole name, exactly. */
  name: string | null
  ids: readonly string[] | null
}

type FilterValues = [
  accountId: string,
  tags: readonly string[] | null,
  groupId: number | null,
  checkType: CheckType | null,
  search: string | null,
  name: string | null,
  ids: readonly string[] | null,
]

const LISTED = `from monitors
   where account_id = $1 and deleted_at is null
     and ($2::text[] is null or tags && $2::text[])
     and ($3::bigint is null or group_id = $3::bigint)
     and ($4::text is null or check_type = $4::text)
     and ($5::text is null or strpos(lower(name), lower($5::text)) > 0)
     and ($6::text is null or name = $6::text)
     and ($7::uuid[] is null or id = any ($7::uuid[]))`

const list = statement<[...FilterValues, limit: number, offset: number], MonitorRow>(
  'monitors-list',
  `select ${COLUMNS} ${LISTED}
   order by created_at desc, id desc limit $8::int offset $9::bigint`,
)

const countListed = statement<FilterValues, { count: number }>(
  'monitors-list-count',
  `select count(*)::int as count ${LISTED}`,
)

function valuesOf(
  accountId: string,
  { tags, groupId, checkType, search, name, ids }: MonitorFilters,
): FilterValues {
  return [accountId, tags, groupId, checkType, search, name, ids]
}

/** Monitors of an account, newest first. */
export function listMonitors(
  connection: Connection,
  ask: { accountId: string; limit: number; offset: number; filters: MonitorFilters },
): Promise<MonitorRow[]> {
  const { accountId, limit, offset, filters } = ask
  return list(connection, ...valuesOf(accountId, filters), limit, offset)
}

/** How many monitors of an account pass the filters. */
export async function countListedMonitors(
  connection: Connection,
  accountId: string,
  filters: MonitorFilters,
): Promise<number> {
  return (await countListed(connection, ...valuesOf(accountId, filters)))[0]?.count ?? 0
}

const read = statement<[string, string], MonitorRow>(
  'monitor-read',
  `select ${COLUMNS} from monitors where id = $1 and account_id = $2 and deleted_at is null`,
)

/** A monitor of the account. */
export async function readMonitor(
  connection: Connection,
  accountId: string,
  id: string,
): Promise<MonitorRow | undefined> {
  return (await read(connection, id, accountId))[0]
}

/** Monitors of groups. */
export const monitorsOfGroups = statement<[groupIds: number[]], MonitorRow>(
  'monitors-of-groups',
  `select ${COLUMNS} from monitors
   where group_id = any ($1::bigint[]) and deleted_at is null order by id`,
)

/** Monitors that came from the file of this name. */
export const monitorsOfFile = statement<[accountId: string, fileName: string], MonitorRow>(
  'monitors-of-file',
  `select ${COLUMNS} from monitors
   where account_id = $1 and file_name = $2 and deleted_at is null order by file_key`,
)

const count = statement<[string], { count: number }>(
  'monitors-count',
  'select count(*)::int as count from monitors where account_id = $1 and deleted_at is null',
)

/** How many monitors the account has. */
export async function countMonitors(connection: Connection, accountId: string): Promise<number> {
  return (await count(connection, accountId))[0]?.count ?? 0
}

/** Fields of a monitor. */
export interface MonitorFields {
  id: string
  checkType: CheckType
  name: string
  activated: boolean
  muted: boolean
  tags: readonly string[]
  groupId: number | null
  definition: string
  effective: string
  locationIds: readonly string[]
  /** SHA-256 of the code bundle that it names, hex. */
  bundle: string | null
  fileName: string | null
  fileKey: string | null
}

const write = statement<[string, string], { id: string }>(
  'monitors-write',
  `insert into monitors (id, account_id, check_type, name, activated, muted, tags, group_id,
     definition, effective, location_ids, bundle, file_name, file_key)
   select x.id, $1, x."checkType", x.name, x.activated, x.muted, x.tags, x."groupId",
     x.definition, x.effective, x."locationIds", decode(x.bundle, 'hex'), x."fileName", x."fileKey"
   from jsonb_to_recordset($2::jsonb) as x (id uuid, "checkType" text, name text,
     activated boolean, muted boolean, tags text[], "groupId" bigint, definition text,
     effective text, "locationIds" uuid[], bundle text, "fileName" text, "fileKey" text)
   on conflict (id) do update set name = excluded.name, activated = excluded.activated,
     muted = excluded.muted, tags = excluded.tags, group_id = excluded.group_id,
     definition = excluded.definition, effective = excluded.effective,
     location_ids = excluded.location_ids, bundle = excluded.bundle,
     former_bundle = case when monitors.bundle is distinct from excluded.bundle
       then monitors.bundle else monitors.former_bundle end,
     former_bundle_at = case when monitors.bundle is distinct from excluded.bundle
       then clock_timestamp() else monitors.former_bundle_at end, file_name = excluded.file_name,
     file_key = excluded.file_key, updated_at = clock_timestamp()
   returning id`,
)

const MONITORS_AT_ONCE = 1_000

/** Adds monitors, or replaces those that are there; all of them belong to the account, or are new. */
export async function writeMonitors(
  tx: Connection,
  accountId: string,
  monitors: readonly MonitorFields[],
): Promise<void> {
  for (let start = 0; start < monitors.length; start += MONITORS_AT_ONCE) {
    const some = monitors.slice(start, start + MONITORS_AT_ONCE)
    await write(tx, accountId, JSON.stringify(some))
  }
}

const remove = statement<[string, string[]], { id: string }>(
  'monitors-delete',
  `update monitors set deleted_at = clock_timestamp(), group_id = null,
     definition = '', effective = '', location_ids = '{}'
   where account_id = $1 and id = any ($2::uuid[]) and deleted_at is null returning id`,
)

/**
 * Deletes monitors, their definitions with the secrets in them included, and answers with the ids of
 * those that were there. Their results stay until retention drops them.
 */
export async function deleteMonitors(
  tx: Connection,
  accountId: string,
  ids: readonly string[],
): Promise<string[]> {
  return (await remove(tx, accountId, [...ids])).map((row) => row.id)
}
