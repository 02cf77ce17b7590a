// Accounts: the owners of everything else.
import { execute, queryAny, queryRow, queryRows, sql } from '../../../database/sql.ts'

export interface AccountRow {
  id: string
  name: string
  created_at: Date
}

/** Creates the account `id` unless it exists; true when it was created. */
export const createAccount = queryAny(
  ({ id, name }: { id: string; name: string }) => sql('account-create')`
    insert into accounts (id, name) values (${id}, ${name}) on conflict (id) do nothing
    returning id`,
)

/** The account, or undefined. */
export const readAccount = queryRow(
  (id: string) => sql<AccountRow>('account-read')`
    select id, name, created_at from accounts where id = ${id}`,
)

/** The oldest accounts first, `limit` at most. */
export const listAccounts = queryRows(
  (limit: number) => sql<AccountRow>('accounts-list')`
    select id, name, created_at from accounts order by created_at, id limit ${limit}`,
)

/**
 * Locks an account for the rest of the transaction: transactions that change its monitors, groups or
 * locations run one after the other. Statements that only refer to the account do not wait.
 */
export const lockAccount = execute(
  (id: string) => sql('account-lock')`
    select id from accounts where id = ${id} for no key update`,
)
