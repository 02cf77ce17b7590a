// Statements on variables of accounts. Values are encrypted before they come here.
import { statement, type Connection } from '../../database/statement.ts'

/** A variable of all monitors of an account. */
export interface AccountVariableRow {
  key: string
  /** Encrypted. */
  value: string
  locked: boolean
  secret: boolean
  file_name: string | null
  created_at: Date
  updated_at: Date | null
}

const COLUMNS = 'key, value, locked, secret, file_name, created_at, updated_at'

const list = statement<[string, number, number], AccountVariableRow>(
  'account-variables-list',
  `select ${COLUMNS} from account_variables where account_id = $1
   order by key collate "C" limit $2::int offset $3::bigint`,
)

/** Variables of an account in the order of their keys. */
export function listAccountVariables(
  connection: Connection,
  accountId: string,
  limit: number,
  offset = 0,
): Promise<AccountVariableRow[]> {
  return list(connection, accountId, limit, offset)
}

const read = statement<[string, string], AccountVariableRow>(
  'account-variable-read',
  `select ${COLUMNS} from account_variables where account_id = $1 and key = $2`,
)

/** A variable of the account. */
export async function readAccountVariable(
  connection: Connection,
  accountId: string,
  key: string,
): Promise<AccountVariableRow | undefined> {
  return (await read(connection, accountId, key))[0]
}

const count = statement<[string], { count: number }>(
  'account-variables-count',
  'select count(*)::int as count from account_variables where account_id = $1',
)

/** How many variables the account has. */
export async function countAccountVariables(
  connection: Connection,
  accountId: string,
): Promise<number> {
  return (await count(connection, accountId))[0]?.count ?? 0
}

/** Fields of a variable. */
export interface AccountVariableFields {
  key: string
  value: string
  locked: boolean
  secret: boolean
  fileName: string | null
}

const write = statement<[string, string], { key: string }>(
  'account-variables-write',
  `insert into account_variables (account_id, key, value, locked, secret, file_name)
   select $1, x.key, x.value, x.locked, x.secret, x."fileName"
   from jsonb_to_recordset($2::jsonb) as x (key text, value text, locked boolean,
     secret boolean, "fileName" text)
   on conflict (account_id, key) do update set value = excluded.value,
     locked = excluded.locked, secret = excluded.secret, file_name = excluded.file_name,
     updated_at = clock_timestamp()
   returning key`,
)

/** Adds variables, or replaces those that are there. */
export async function writeAccountVariables(
  tx: Connection,
  accountId: string,
  variables: readonly AccountVariableFields[],
): Promise<void> {
  if (variables.length > 0) await write(tx, accountId, JSON.stringify(variables))
}

const remove = statement<[string, string[]], { key: string }>(
  'account-variables-delete',
  'delete from account_variables where account_id = $1 and key = any ($2::text[]) returning key',
)

/** Deletes variables and answers with the keys of those that were there. */
export async function deleteAccountVariables(
  tx: Connection,
  accountId: string,
  keys: readonly string[],
): Promise<string[]> {
  return (await remove(tx, accountId, [...keys])).map((row) => row.key)
}
