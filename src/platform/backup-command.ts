// `vedette backup <file>` and `vedette restore <file>`: the database that the platform uses, without its keys.
import { VERSION } from '../contract/versions.ts'
import { EXIT_CONFIGURATION } from '../process/command-line.ts'
import { problemText } from '../process/env.ts'
import { BackupError, openBackup, restoreBackup, writeBackup } from '../database/backup.ts'
import type { Database } from '../database/database.ts'
import { migrate, readMigrations } from '../database/migrate.ts'
import { listAccounts } from './accounts/queries/accounts.ts'
import { type PlatformConfig, readPlatformConfig } from './config.ts'
import { openPlatformDatabase, reachDatabase } from './open-database.ts'
import { type CommandContext, knownFault, platformLog } from './run-platform.ts'

/** The request. */
export interface BackupRequest {
  action: 'backup' | 'restore'
  path: string
}

const WAIT_MS = 10_000
const CONNECTIONS_MAX = 2

/** Handles the request; resolves with the exit code. */
export async function runBackup(
  { action, path }: BackupRequest,
  context: Omit<CommandContext, 'posterTo'>,
): Promise<number> {
  const { env, stdout, stderr } = context
  const reading = readPlatformConfig(env)
  if (reading.problems.length > 0) {
    stderr.write(`vedette: ${problemText(reading.problems)}`)
    return EXIT_CONFIGURATION
  }
  reading.config.logLevel = 'error'
  const log = platformLog(reading, context)
  const options = {
    applicationName: `vedette ${action}`,
    log,
    signal: new AbortController().signal,
  }
  const choice = { ...reading.config, connectionsMax: CONNECTIONS_MAX, databaseWaitMs: WAIT_MS }
  try {
    stdout.write(
      action === 'backup'
        ? await backup(choice, options, path)
        : await restore(choice, options, path),
    )
    return 0
  } catch (error) {
    const fault =
      error instanceof BackupError
        ? { message: error.message, exitCode: EXIT_CONFIGURATION }
        : knownFault(error)
    if (fault === undefined) throw error
    stderr.write(`vedette ${action}: ${fault.message}\n`)
    return fault.exitCode
  }
}

type Choice = PlatformConfig & { connectionsMax: number; databaseWaitMs: number }
type Opening = Parameters<typeof openPlatformDatabase>[1]

async function backup(choice: Choice, options: Opening, path: string): Promise<string> {
  const opened = await reachDatabase(choice, options)
  try {
    const rows = await writeBackup(opened.database, path, VERSION)
    return `${path} has ${rows} rows. Back up SECRETS_KEY (or secrets.key) and files of results apart.\n`
  } finally {
    await opened.close()
  }
}

async function restore(choice: Choice, options: Opening, path: string): Promise<string> {
  const file = await openBackup(path)
  const all = readMigrations()
  const { migrations, version } = file.header
  if (migrations > all.length)
    throw new BackupError(`${path} was made by Vedette ${version}, which is newer than ${VERSION}`)
  const opened = await openPlatformDatabase(choice, {
    ...options,
    migrations: all.slice(0, migrations),
  })
  try {
    await requireEmpty(opened.database)
    const rows = await restoreBackup(opened.database, file)
    await migrate(opened.database, all)
    return `${rows} rows restored. The platform needs the SECRETS_KEY of that time to read them.\n`
  } finally {
    file.close()
    await opened.close()
  }
}

async function requireEmpty(database: Database): Promise<void> {
  const [one] = await listAccounts(database, 1)
  if (one === undefined) return
  throw new BackupError('the database has accounts already; restore into an empty one')
}
