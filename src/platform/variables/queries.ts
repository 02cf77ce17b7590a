// Statements on variables of accounts. Values are encrypted before they come here.
import {
  execute,
  queryCount,
  queryRow,
  queryRows,
  queryValues,
  raw,
  sql,
} from '../../database/sql.ts'

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

/** Variables of an account in the order of their keys. */
export const listAccountVariables = queryRows(
  (accountId: string, limit: number, offset = 0) => sql<AccountVariableRow>(
    'account-variables-list',
  )`
      select ${raw(COLUMNS)} from account_variables where account_id = ${accountId}
      order by key collate "C" limit ${limit}::int offset ${offset}::bigint`,
)

/** A variable of the account. */
export const readAccountVariable = queryRow(
  (accountId: string, key: string) => sql<AccountVariableRow>('account-variable-read')`
      select ${raw(COLUMNS)} from account_variables where account_id = ${accountId} and key = ${key}`,
)

/** How many variables the account has. */
export const countAccountVariables = queryCount(
  (accountId: string) => sql<{ count: number }>('account-variables-count')`
      select count(*)::int as count from account_variables where account_id = ${accountId}`,
)

export interface AccountVariableFields {
  key: string
  value: string
  locked: boolean
  secret: boolean
  fileName: string | null
}

/** Adds variables, or replaces those that are there. */
export const writeAccountVariables = execute(
  (accountId: string, variables: readonly AccountVariableFields[]) => sql(
    'account-variables-write',
  )`
      insert into account_variables (account_id, key, value, locked, secret, file_name)
      select ${accountId}, x.key, x.value, x.locked, x.secret, x."fileName"
      from jsonb_to_recordset(${JSON.stringify(variables)}::jsonb) as x (key text, value text, locked boolean,
        secret boolean, "fileName" text)
      on conflict (account_id, key) do update set value = excluded.value,
        locked = excluded.locked, secret = excluded.secret, file_name = excluded.file_name,
        updated_at = clock_timestamp()`,
)

/** Deletes variables and answers with the keys of those that were there. */
export const deleteAccountVariables = queryValues(
  (accountId: string, keys: readonly string[]) => sql<{ key: string }>('account-variables-delete')`
      delete from account_variables where account_id = ${accountId} and key = any (${[...keys]}::text[]) returning key`,
)
