// Statements on monitors. Definitions are encrypted before they come here.
import type { CheckType } from '../../../monitors/definitions.ts'
import { queryCount, queryRow, queryRows, queryValues, raw, sql } from '../../../database/sql.ts'
import type { Queryable } from '../../../database/database.ts'

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

const LISTED = `from monitors
   where account_id = $1 and deleted_at is null
     and ($2::text[] is null or tags && $2::text[])
     and ($3::bigint is null or group_id = $3::bigint)
     and ($4::text is null or check_type = $4::text)
     and ($5::text is null or strpos(lower(name), lower($5::text)) > 0)
     and ($6::text is null or name = $6::text)
     and ($7::uuid[] is null or id = any ($7::uuid[]))`

const list = {
  name: 'monitors-list',
  text: `select ${COLUMNS} ${LISTED}
   order by created_at desc, id desc limit $8::int offset $9::bigint`,
}

const countListed = { name: 'monitors-list-count', text: `select count(*)::int as count ${LISTED}` }

/** Monitors of an account that pass the filters, newest first: a part of them, and how many there are. */
export async function listMonitors(
  connection: Queryable,
  ask: { accountId: string; limit: number; offset: number; filters: MonitorFilters },
): Promise<{ rows: MonitorRow[]; total: number }> {
  const { tags, groupId, checkType, search, name, ids } = ask.filters
  const values = [ask.accountId, tags, groupId, checkType, search, name, ids]
  const rows = await connection.query<MonitorRow>(list, [...values, ask.limit, ask.offset])
  const [counted] = await connection.query<{ count: number }>(countListed, values)
  return { rows, total: counted?.count ?? 0 }
}

/** A monitor of the account. */
export const readMonitor = queryRow(
  (accountId: string, id: string) => sql<MonitorRow>('monitor-read')`
      select ${raw(COLUMNS)} from monitors where id = ${id} and account_id = ${accountId} and deleted_at is null`,
)

/** Monitors of groups. */
export const monitorsOfGroups = queryRows(
  (groupIds: number[]) => sql<MonitorRow>('monitors-of-groups')`
    select ${raw(COLUMNS)} from monitors
    where group_id = any (${groupIds}::bigint[]) and deleted_at is null order by id`,
)

/** Monitors that came from the file of this name. */
export const monitorsOfFile = queryRows(
  (accountId: string, fileName: string) => sql<MonitorRow>('monitors-of-file')`
    select ${raw(COLUMNS)} from monitors
    where account_id = ${accountId} and file_name = ${fileName} and deleted_at is null order by file_key`,
)

/** How many monitors the account has. */
export const countMonitors = queryCount(
  (accountId: string) => sql<{ count: number }>('monitors-count')`
      select count(*)::int as count from monitors where account_id = ${accountId} and deleted_at is null`,
)

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

const MONITORS_AT_ONCE = 1_000

/** Adds monitors, or replaces those that are there; all of them belong to the account, or are new. */
export async function writeMonitors(
  tx: Queryable,
  accountId: string,
  monitors: readonly MonitorFields[],
): Promise<void> {
  for (let start = 0; start < monitors.length; start += MONITORS_AT_ONCE) {
    const some = monitors.slice(start, start + MONITORS_AT_ONCE)
    await tx.query(sql('monitors-write')`
        insert into monitors (id, account_id, check_type, name, activated, muted, tags, group_id,
          definition, effective, location_ids, bundle, file_name, file_key)
        select x.id, ${accountId}, x."checkType", x.name, x.activated, x.muted, x.tags, x."groupId",
          x.definition, x.effective, x."locationIds", decode(x.bundle, 'hex'), x."fileName", x."fileKey"
        from jsonb_to_recordset(${JSON.stringify(some)}::jsonb) as x (id uuid, "checkType" text, name text,
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
        returning id`)
  }
}

/**
 * Deletes monitors, their definitions with the secrets in them included, and answers with the ids of
 * those that were there. Their results stay until retention drops them.
 */
export const deleteMonitors = queryValues(
  (accountId: string, ids: readonly string[]) => sql<{ id: string }>('monitors-delete')`
      update monitors set deleted_at = clock_timestamp(), group_id = null,
        definition = '', effective = '', location_ids = '{}'
      where account_id = ${accountId} and id = any (${[...ids]}::uuid[]) and deleted_at is null returning id`,
)
