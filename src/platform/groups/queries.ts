// Statements on groups of monitors. Definitions are encrypted before they come here.
import { queryCount, queryRows, queryValues, raw, sql } from '../../database/sql.ts'
import type { Queryable } from '../../database/database.ts'

export interface CheckGroupRow {
  id: number
  name: string
  /** Encrypted: the wire form as it was given. */
  definition: string
  file_name: string | null
  file_key: string | null
  created_at: Date
  updated_at: Date | null
}

const COLUMNS = 'id, name, definition, file_name, file_key, created_at, updated_at'

const LISTED =
  'from check_groups where account_id = $1 and ($2::text[] is null or name = any ($2::text[]))'

const list = {
  name: 'check-groups-list',
  text: `select ${COLUMNS} ${LISTED}
   order by id desc limit $3::int offset $4::bigint`,
}

const countListed = {
  name: 'check-groups-list-count',
  text: `select count(*)::int as count ${LISTED}`,
}

/** Groups of an account, with `names` only those, newest first: a part of them, and how many there are. */
export async function listCheckGroups(
  connection: Queryable,
  ask: { accountId: string; names: readonly string[] | null; limit: number; offset: number },
): Promise<{ rows: CheckGroupRow[]; total: number }> {
  const values = [ask.accountId, ask.names]
  const rows = await connection.query<CheckGroupRow>(list, [...values, ask.limit, ask.offset])
  const [counted] = await connection.query<{ count: number }>(countListed, values)
  return { rows, total: counted?.count ?? 0 }
}

/** The groups of the account that have one of these ids. */
export const readCheckGroups = queryRows(
  (accountId: string, ids: readonly number[]) => sql<CheckGroupRow>('check-groups-read')`
      select ${raw(COLUMNS)} from check_groups where account_id = ${accountId} and id = any (${[...ids]}::bigint[])`,
)

/** Groups that came from the file of this name. */
export const checkGroupsOfFile = queryRows(
  (accountId: string, fileName: string) => sql<CheckGroupRow>('check-groups-of-file')`
    select ${raw(COLUMNS)} from check_groups where account_id = ${accountId} and file_name = ${fileName} order by file_key`,
)

/** How many groups the account has. */
export const countCheckGroups = queryCount(
  (accountId: string) => sql<{ count: number }>('check-groups-count')`
      select count(*)::int as count from check_groups where account_id = ${accountId}`,
)

export interface CheckGroupFields {
  /** Null for a new one. */
  id: number | null
  name: string
  definition: string
  locationIds: readonly string[]
  fileName: string | null
  fileKey: string | null
}

/** Adds groups. */
export const insertCheckGroups = queryRows(
  (accountId: string, groups: readonly CheckGroupFields[]) => {
    const rows = groups.map((group, place) => ({ ...group, place }))
    return sql<CheckGroupRow>('check-groups-insert')`
      insert into check_groups (account_id, name, definition, location_ids, file_name, file_key)
      select ${accountId}, x.name, x.definition, x."locationIds", x."fileName", x."fileKey"
      from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as x (place int, name text, definition text,
        "locationIds" uuid[], "fileName" text, "fileKey" text)
      order by x.place
      returning ${raw(COLUMNS)}`
  },
)

/** Replaces those groups that the account has; which file they came from stays. */
export const changeCheckGroups = queryRows(
  (accountId: string, groups: readonly CheckGroupFields[]) => sql<CheckGroupRow>(
    'check-groups-change',
  )`
      update check_groups g set name = x.name, definition = x.definition,
        location_ids = x."locationIds", updated_at = clock_timestamp()
      from jsonb_to_recordset(${JSON.stringify(groups)}::jsonb) as x (id bigint, name text, definition text,
        "locationIds" uuid[])
      where g.id = x.id and g.account_id = ${accountId}
      returning ${raw(COLUMNS.replaceAll(/\w+/g, 'g.$&'))}`,
)

/** Deletes groups that have no members and answers with their ids. */
export const deleteCheckGroups = queryValues(
  (accountId: string, ids: readonly number[]) => sql<{ id: number }>('check-groups-delete')`
      delete from check_groups g where account_id = ${accountId} and id = any (${[...ids]}::bigint[])
        and not exists (select from monitors m where m.group_id = g.id and m.deleted_at is null)
      returning id`,
)
