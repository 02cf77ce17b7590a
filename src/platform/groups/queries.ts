// Statements on groups of monitors. Definitions are encrypted before they come here.
import { statement, type Connection } from '../../database/statement.ts'

/** A group. */
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

type ListedValues = [accountId: string, names: readonly string[] | null]

const LISTED =
  'from check_groups where account_id = $1 and ($2::text[] is null or name = any ($2::text[]))'

const list = statement<[...ListedValues, limit: number, offset: number], CheckGroupRow>(
  'check-groups-list',
  `select ${COLUMNS} ${LISTED}
   order by id desc limit $3::int offset $4::bigint`,
)

/** Groups of an account, newest first; with `names` only those. */
export function listCheckGroups(
  connection: Connection,
  ask: { accountId: string; names: readonly string[] | null; limit: number; offset: number },
): Promise<CheckGroupRow[]> {
  return list(connection, ask.accountId, ask.names, ask.limit, ask.offset)
}

const countListed = statement<ListedValues, { count: number }>(
  'check-groups-list-count',
  `select count(*)::int as count ${LISTED}`,
)

/** How many groups of the account have one of these names; null counts all. */
export async function countListedGroups(
  connection: Connection,
  accountId: string,
  names: readonly string[] | null,
): Promise<number> {
  return (await countListed(connection, accountId, names))[0]?.count ?? 0
}

const readSome = statement<[string, number[]], CheckGroupRow>(
  'check-groups-read',
  `select ${COLUMNS} from check_groups where account_id = $1 and id = any ($2::bigint[])`,
)

/** The groups of the account that have one of these ids. */
export function readCheckGroups(
  connection: Connection,
  accountId: string,
  ids: readonly number[],
): Promise<CheckGroupRow[]> {
  return readSome(connection, accountId, [...ids])
}

/** Groups that came from the file of this name. */
export const checkGroupsOfFile = statement<[accountId: string, fileName: string], CheckGroupRow>(
  'check-groups-of-file',
  `select ${COLUMNS} from check_groups where account_id = $1 and file_name = $2 order by file_key`,
)

const count = statement<[string], { count: number }>(
  'check-groups-count',
  'select count(*)::int as count from check_groups where account_id = $1',
)

/** How many groups the account has. */
export async function countCheckGroups(connection: Connection, accountId: string): Promise<number> {
  return (await count(connection, accountId))[0]?.count ?? 0
}

/** Fields of a group. */
export interface CheckGroupFields {
  name: string
  definition: string
  locationIds: readonly string[]
  fileName: string | null
  fileKey: string | null
}

const insert = statement<[string, string], CheckGroupRow>(
  'check-groups-insert',
  // In their order, so that a listing shows them as they were given.
  `insert into check_groups (account_id, name, definition, location_ids, file_name, file_key)
   select $1, x.name, x.definition, x."locationIds", x."fileName", x."fileKey"
   from jsonb_to_recordset($2::jsonb) as x (place int, name text, definition text,
     "locationIds" uuid[], "fileName" text, "fileKey" text)
   order by x.place
   returning ${COLUMNS}`,
)

/** Adds groups. */
export async function insertCheckGroups(
  tx: Connection,
  accountId: string,
  groups: readonly CheckGroupFields[],
): Promise<CheckGroupRow[]> {
  if (groups.length === 0) return []
  const rows = groups.map((group, place) => ({ ...group, place }))
  return insert(tx, accountId, JSON.stringify(rows))
}

const change = statement<[string, string], CheckGroupRow>(
  'check-groups-change',
  `update check_groups g set name = x.name, definition = x.definition,
     location_ids = x."locationIds", updated_at = clock_timestamp()
   from jsonb_to_recordset($2::jsonb) as x (id bigint, name text, definition text,
     "locationIds" uuid[])
   where g.id = x.id and g.account_id = $1
   returning ${COLUMNS.replaceAll(/\w+/g, 'g.$&')}`,
)

/** Replaces those groups that the account has; which file they came from stays. */
export async function changeCheckGroups(
  tx: Connection,
  accountId: string,
  groups: readonly (Pick<CheckGroupFields, 'name' | 'definition' | 'locationIds'> & {
    id: number
  })[],
): Promise<CheckGroupRow[]> {
  if (groups.length === 0) return []
  return change(tx, accountId, JSON.stringify(groups))
}

const remove = statement<[string, number[]], { id: number }>(
  'check-groups-delete',
  `delete from check_groups g where account_id = $1 and id = any ($2::bigint[])
     and not exists (select from monitors m where m.group_id = g.id and m.deleted_at is null)
   returning id`,
)

/** Deletes groups that have no members and answers with their ids. */
export async function deleteCheckGroups(
  tx: Connection,
  accountId: string,
  ids: readonly number[],
): Promise<number[]> {
  return (await remove(tx, accountId, [...ids])).map((row) => row.id)
}
