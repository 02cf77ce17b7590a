// Accounts: the owners of everything else.
import type { Queryable } from '../../../database/database.ts'

export interface AccountRow {
  id: string
  name: string
  created_at: Date
}

/** Creates the account `id` unless it exists; true when it was created. */
export async function createAccount(
  database: Queryable,
  { id, name }: { id: string; name: string },
): Promise<boolean> {
  const rows = await database.query(
    `insert into accounts (id, name) values ($1, $2)
     on conflict (id) do nothing
     returning id`,
    [id, name],
  )
  return rows.length === 1
}

/** The account, or undefined. */
export async function readAccount(
  database: Queryable,
  id: string,
): Promise<AccountRow | undefined> {
  const [row] = await database.query<AccountRow>(
    'select id, name, created_at from accounts where id = $1',
    [id],
  )
  return row
}

/** The oldest accounts first, `limit` at most. */
export function listAccounts(database: Queryable, limit: number): Promise<AccountRow[]> {
  return database.query<AccountRow>(
    'select id, name, created_at from accounts order by created_at, id limit $1',
    [limit],
  )
}

/**
 * Locks an account for the rest of the transaction: transactions that change its monitors, groups or
 * locations run one after the other. Statements that only refer to the account do not wait.
 */
export async function lockAccount(tx: Queryable, id: string): Promise<void> {
  await tx.query(
    { name: 'account-lock', text: 'select id from accounts where id = $1 for no key update' },
    [id],
  )
}
