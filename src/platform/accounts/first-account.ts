// The account that a platform starts with, and the Admin key that opens it.
import { randomUUID } from 'node:crypto'
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeFolderSync } from '../../process/make-folder.ts'
import { createAccount, listAccounts } from './queries/accounts.ts'
import { ensureApiKey } from './queries/api-keys.ts'
import type { Database, Queryable } from '../../database/database.ts'
import { makeKey, tracesOf } from '../secrets/api-key.ts'

export interface Credentials {
  accountId: string
  adminApiKey: string
}

export interface FirstAccountOptions {
  accountId: string | undefined
  adminApiKey: string | undefined
  /** Stores new credentials; called before they are final, and possibly again with others. */
  keep: (credentials: Credentials) => void
}

/** The account, and the message for the operator. */
export interface FirstAccount {
  accountId: string
  /** New credentials that are not shown yet. */
  made?: Credentials
  /** Warning about the given key. */
  warning?: string
}

/** The given key opens another account than the given one. */
export class CredentialsError extends Error {
  readonly code = 'CREDENTIALS'

  constructor(message: string) {
    super(message)
    this.name = 'CredentialsError'
  }
}

const NAME = 'Vedette'
/** The lock under which one of several first starts makes the account. */
const LOCK = 0x76_65_64_66

/**
 * Makes sure that there is an account, and that the given account and key are there; changes nothing
 * the second time. Throws CredentialsError, or what the database does.
 */
export function ensureFirstAccount(
  database: Database,
  options: FirstAccountOptions,
): Promise<FirstAccount> {
  return database.transaction(async (tx) => {
    await tx.query(`select pg_advisory_xact_lock(${LOCK})`)
    const [oldest] = await listAccounts(tx, 1)
    const accountId = options.accountId ?? oldest?.id ?? randomUUID()
    const isNew = await createAccount(tx, { id: accountId, name: NAME })
    const { adminApiKey } = options
    if (adminApiKey !== undefined) return withGivenKey(tx, accountId, adminApiKey)
    if (!isNew) return { accountId }
    const made = { accountId, adminApiKey: makeKey() }
    await addAdminKey(tx, made, 'First key')
    // Before the commit: an account with a lost key would be worse than a file without an account.
    options.keep(made)
    return { accountId, made }
  })
}

async function withGivenKey(
  tx: Queryable,
  accountId: string,
  adminApiKey: string,
): Promise<FirstAccount> {
  const row = await addAdminKey(tx, { accountId, adminApiKey }, 'ADMIN_API_KEY')
  if (row.account_id !== accountId) {
    throw new CredentialsError(
      `ADMIN_API_KEY belongs to account ${row.account_id}, not ${accountId} (ACCOUNT_ID); ` +
        'give each account a key of its own',
    )
  }
  if (row.revoked_at !== null) {
    return { accountId, warning: 'ADMIN_API_KEY was revoked; set another key' }
  }
  if (row.role !== 'Admin') {
    return { accountId, warning: `ADMIN_API_KEY has the role ${row.role} and keeps it` }
  }
  return { accountId }
}

function addAdminKey(tx: Queryable, { accountId, adminApiKey }: Credentials, name: string) {
  return ensureApiKey(tx, { accountId, name, role: 'Admin', ...tracesOf(adminApiKey) })
}

/**
 * Stores credentials atomically in `<folder>/credentials.json`, readable only by its owner. Those of another
 * account, from another database, are put aside as `credentials-<account>.json`.
 */
export function storeCredentials(folder: string, credentials: Credentials): string {
  makeFolderSync(folder, 0o755)
  const path = join(folder, 'credentials.json')
  const draft = `${path}.new`
  // An existing draft has its own mode.
  rmSync(draft, { force: true })
  const text = `${JSON.stringify(credentials, null, 2)}\n`
  writeFileSync(draft, text, { mode: 0o600, flag: 'wx', flush: true })
  const other = accountIn(path)
  if (other !== undefined && other !== credentials.accountId) {
    renameSync(path, join(folder, `credentials-${other}.json`))
  }
  renameSync(draft, path)
  return path
}

/** The account of a credentials file; undefined when we have not written one. */
function accountIn(path: string): string | undefined {
  try {
    const { accountId } = JSON.parse(readFileSync(path, 'utf8')) as Partial<Credentials>
    return typeof accountId === 'string' && /^[0-9a-f-]{36}$/.test(accountId)
      ? accountId
      : undefined
  } catch {
    return undefined
  }
}
