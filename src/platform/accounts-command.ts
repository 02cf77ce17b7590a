// `vedette accounts create|list`: accounts of the platform, each with monitors, keys and status pages of its own.
import { randomUUID } from 'node:crypto'
import type { Database } from '../database/database.ts'
import { createAccount, listAccounts } from './accounts/queries/accounts.ts'
import { ensureApiKey } from './accounts/queries/api-keys.ts'
import {
  alignedTable,
  type DatabaseContext,
  RequestError,
  runOnDatabase,
  shownDay,
} from './database-command.ts'
import { makeKey, tracesOf } from './secrets/api-key.ts'

export interface AccountsRequest {
  action: string | undefined
  name?: string | undefined
}

const ACCOUNTS_SHOWN_MAX = 1000
const NAME_CHARACTERS_MAX = 255

/** Handles the request; resolves with the exit code. */
export function runAccounts(request: AccountsRequest, context: DatabaseContext): Promise<number> {
  return runOnDatabase('accounts', () => workOf(request), context)
}

function workOf({ action, name }: AccountsRequest): (database: Database) => Promise<string> {
  if (action === 'list') return list
  if (action !== 'create') throw new RequestError('name an action: create or list')
  const given = name?.trim() ?? ''
  if (given === '' || given.length > NAME_CHARACTERS_MAX) {
    throw new RequestError(`create needs --name <name> of 1 to ${NAME_CHARACTERS_MAX} characters`)
  }
  return (database) => create(database, given)
}

async function create(database: Database, name: string): Promise<string> {
  const [id, key] = [randomUUID(), makeKey()]
  await database.transaction(async (tx) => {
    await createAccount(tx, { id, name })
    const fields = { accountId: id, name: 'First key', role: 'Admin' as const }
    await ensureApiKey(tx, { ...fields, ...tracesOf(key) })
  })
  return `The Admin key is shown only now:\n  key      ${key}\n  account  ${id}\n`
}

async function list(database: Database): Promise<string> {
  const rows = await listAccounts(database, ACCOUNTS_SHOWN_MAX)
  const lines = rows.map((row) => [row.id, row.name, shownDay(row.created_at)])
  return alignedTable([['ID', 'NAME', 'CREATED'], ...lines])
}
