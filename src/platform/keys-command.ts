// `vedette keys create|list|revoke`: keys of the public API, on the database that the platform uses,
// whether it runs or not.
import { ROLES, type Role } from '../contract/api/account.ts'
import { EXIT_CONFIGURATION } from '../process/command-line.ts'
import { problemText } from '../process/env.ts'
import { listAccounts, readAccount } from './accounts/queries/accounts.ts'
import {
  type ApiKeyRow,
  createApiKey,
  listApiKeys,
  revokeApiKey,
} from './accounts/queries/api-keys.ts'
import type { Database } from '../database/database.ts'
import { makeKey, tracesOf } from './secrets/api-key.ts'
import { readPlatformConfig } from './config.ts'
import { reachDatabase } from './open-database.ts'
import { type CommandContext, knownFault, platformLog } from './run-platform.ts'

/** The request. */
export type KeysRequest =
  | { action: 'create'; name: string; role: string; accountId: string | undefined }
  | { action: 'list'; accountId: string | undefined }
  | { action: 'revoke'; id: string }

const KEYS_SHOWN_MAX = 1000
const NAME_CHARACTERS_MAX = 255
const WAIT_MS = 10_000
const CONNECTIONS_MAX = 2
const GUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** The request is invalid. */
class RequestError extends Error {}

/** Handles the request; resolves with the exit code. */
export async function runKeys(
  request: KeysRequest,
  context: Omit<CommandContext, 'posterTo'>,
): Promise<number> {
  const { env, stdout, stderr } = context
  const reading = readPlatformConfig(env)
  if (reading.problems.length > 0) {
    stderr.write(`vedette: ${problemText(reading.problems)}`)
    return EXIT_CONFIGURATION
  }
  // Only errors: the output may be read by a script.
  reading.config.logLevel = 'error'
  try {
    checkRequest(request)
    const choice = { ...reading.config, connectionsMax: CONNECTIONS_MAX, databaseWaitMs: WAIT_MS }
    const opened = await reachDatabase(choice, {
      applicationName: 'vedette keys',
      log: platformLog(reading, context),
      signal: new AbortController().signal,
    })
    try {
      stdout.write(await answer(opened.database, request, reading.config.accountId))
      return 0
    } finally {
      await opened.close()
    }
  } catch (error) {
    const fault =
      error instanceof RequestError
        ? { message: error.message, exitCode: EXIT_CONFIGURATION }
        : knownFault(error)
    if (fault === undefined) throw error
    stderr.write(`vedette keys: ${fault.message}\n`)
    return fault.exitCode
  }
}

function checkRequest(request: KeysRequest): void {
  if (request.action === 'create') {
    const { name, role } = request
    if (name.trim() === '' || name.length > NAME_CHARACTERS_MAX) {
      throw new RequestError(`--name must have 1 to ${NAME_CHARACTERS_MAX} characters`)
    }
    roleOf(role)
  }
  if (request.action === 'revoke' && !GUID.test(request.id)) {
    throw new RequestError(`${JSON.stringify(request.id)} is no id of a key; see vedette keys list`)
  }
}

/** A role in any case. */
function roleOf(text: string): Role {
  const role = ROLES.find((one) => one.toLowerCase() === text.trim().toLowerCase())
  if (role === undefined) {
    throw new RequestError(`--role must be one of ${ROLES.map((one) => `"${one}"`).join(', ')}`)
  }
  return role
}

async function answer(
  database: Database,
  request: KeysRequest,
  configured: string | undefined,
): Promise<string> {
  if (request.action === 'create') return create(database, request, configured)
  if (request.action === 'list') {
    const { accountId = configured } = request
    return table(
      await listApiKeys(database, { ...(accountId && { accountId }), limit: KEYS_SHOWN_MAX }),
    )
  }
  const row = await revokeApiKey(database, request.id)
  if (row === undefined) throw new RequestError(`there is no key ${request.id}`)
  return `revoked ${row.id} (${row.name}, …${row.suffix})\n`
}

async function create(
  database: Database,
  request: KeysRequest & { action: 'create' },
  configured: string | undefined,
): Promise<string> {
  const accountId = await accountOf(database, request.accountId ?? configured)
  const key = makeKey()
  const role = roleOf(request.role)
  const row = await createApiKey(database, {
    accountId,
    name: request.name.trim(),
    role,
    ...tracesOf(key),
  })
  return [
    'The key is shown only now:',
    `  key      ${key}`,
    `  id       ${row.id}`,
    `  account  ${accountId}`,
    `  role     ${role}`,
    '',
  ].join('\n')
}

async function accountOf(database: Database, wanted: string | undefined): Promise<string> {
  if (wanted !== undefined) {
    const found = GUID.test(wanted) ? await readAccount(database, wanted) : undefined
    if (found === undefined) throw new RequestError(`there is no account ${JSON.stringify(wanted)}`)
    return found.id
  }
  const [only, another] = await listAccounts(database, 2)
  if (only === undefined) {
    throw new RequestError('there is no account yet; start the platform once, it makes the first')
  }
  if (another !== undefined) {
    throw new RequestError('there are several accounts; name one with --account <id>')
  }
  return only.id
}

function table(rows: readonly ApiKeyRow[]): string {
  const head = ['ID', 'NAME', 'ROLE', 'KEY', 'CREATED', 'LAST USED', 'STATE']
  const day = (at: Date | null) => at?.toISOString().slice(0, 16).replace('T', ' ') ?? 'never'
  const lines = rows.map((row) => [
    row.id,
    row.name,
    row.role,
    `…${row.suffix}`,
    day(row.created_at),
    day(row.last_used_at),
    row.revoked_at === null ? 'active' : `revoked ${day(row.revoked_at)}`,
  ])
  const widths = head.map((_, at) => Math.max(...[head, ...lines].map((line) => line[at]!.length)))
  return [head, ...lines]
    .map(
      (line) =>
        `${line
          .map((cell, at) => cell.padEnd(widths[at]!))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('')
}
