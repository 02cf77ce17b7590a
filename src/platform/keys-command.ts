// `vedette keys create|list|revoke`: keys of the public API, on the database that the platform uses,
// whether it runs or not.
import { ROLES, type Role } from '../contract/api/account.ts'
import { listAccounts, readAccount } from './accounts/queries/accounts.ts'
import {
  type ApiKeyRow,
  ensureApiKey,
  hasKey,
  listApiKeys,
  revokeApiKey,
} from './accounts/queries/api-keys.ts'
import type { Database } from '../database/database.ts'
import { makeKey, tracesOf } from './secrets/api-key.ts'
import {
  alignedTable,
  type DatabaseContext,
  RequestError,
  runOnDatabase,
  shownDay,
} from './database-command.ts'

export interface KeysRequest {
  action: string | undefined
  id?: string | undefined
  name?: string | undefined
  role?: string | undefined
  accountId?: string | undefined
}

const KEYS_SHOWN_MAX = 1000
const NAME_CHARACTERS_MAX = 255
const GUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** Handles the request; resolves with the exit code. */
export function runKeys(request: KeysRequest, context: DatabaseContext): Promise<number> {
  return runOnDatabase('keys', (accountId) => workOf(request, accountId), context)
}

/** What to do, and answer with, once the database is open. Throws RequestError. */
function workOf(
  { action, id, name, role, accountId }: KeysRequest,
  configured: string | undefined,
): (database: Database) => Promise<string> {
  if (id !== undefined && action !== 'revoke') {
    throw new RequestError(`unexpected argument ${JSON.stringify(id)}`)
  }
  const account = accountId ?? configured
  switch (action) {
    case 'create': {
      if (name === undefined) throw new RequestError('create needs --name <name>')
      if (name.trim() === '' || name.length > NAME_CHARACTERS_MAX) {
        throw new RequestError(`--name must have 1 to ${NAME_CHARACTERS_MAX} characters`)
      }
      const key = { name: name.trim(), role: roleOf(role ?? '') }
      return (database) => create(database, key, account)
    }
    case 'list':
      return async (database) =>
        keyTable(await listApiKeys(database, { accountId: account ?? null, limit: KEYS_SHOWN_MAX }))
    case 'revoke':
      if (id === undefined) throw new RequestError('revoke needs the id of a key')
      if (!GUID.test(id)) {
        throw new RequestError(
          `${JSON.stringify(id)} is not the id of a key; see vedette keys list`,
        )
      }
      return (database) => revoke(database, id)
    case undefined:
    default:
      throw new RequestError('name an action: create, list or revoke')
  }
}

function roleOf(text: string): Role {
  const role = ROLES.find((one) => one.toLowerCase() === text.trim().toLowerCase())
  if (role === undefined) {
    throw new RequestError(`--role must be one of ${ROLES.map((one) => `"${one}"`).join(', ')}`)
  }
  return role
}

async function create(
  database: Database,
  { name, role }: { name: string; role: Role },
  wanted: string | undefined,
): Promise<string> {
  const accountId = await accountOf(database, wanted)
  const key = makeKey()
  const row = await ensureApiKey(database, { accountId, name, role, ...tracesOf(key) })
  return [
    'The key is shown only now:',
    `  key      ${key}`,
    `  id       ${row.id}`,
    `  account  ${accountId}`,
    `  role     ${role}`,
    '',
  ].join('\n')
}

async function revoke(database: Database, id: string): Promise<string> {
  const row = await revokeApiKey(database, id)
  if (row === undefined) throw new RequestError(`unknown key ${id}`)
  const hint = (await hasKey(database, row.account_id, 'Admin'))
    ? ''
    : 'The account has no key of the role Admin now. Add one: vedette keys create --name <name> --role Admin\n'
  return `revoked ${row.id} (${row.name}, …${row.suffix})\n${hint}`
}

async function accountOf(database: Database, wanted: string | undefined): Promise<string> {
  if (wanted !== undefined) {
    const found = GUID.test(wanted) ? await readAccount(database, wanted) : undefined
    if (found === undefined) throw new RequestError(`unknown account ${JSON.stringify(wanted)}`)
    return found.id
  }
  const [only, another] = await listAccounts(database, 2)
  if (only === undefined) {
    throw new RequestError('there is no account yet; start the platform once to create the first')
  }
  if (another !== undefined) {
    throw new RequestError('there are several accounts; name one with --account <id>')
  }
  return only.id
}

function keyTable(rows: readonly ApiKeyRow[]): string {
  const head = ['ID', 'NAME', 'ROLE', 'KEY', 'CREATED', 'LAST USED', 'STATE', 'ACCOUNT']
  const lines = rows.map((row) => [
    row.id,
    row.name,
    row.role,
    `…${row.suffix}`,
    shownDay(row.created_at),
    shownDay(row.last_used_at),
    row.revoked_at === null ? 'active' : `revoked ${shownDay(row.revoked_at)}`,
    row.account_id,
  ])
  return alignedTable([head, ...lines])
}
