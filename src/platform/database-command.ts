// Commands that work on the platform's database, whether the platform runs or not.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { inColumns } from '../process/columns.ts'
import { EXIT } from '../process/exit-codes.ts'
import { problemText } from '../process/env.ts'
import type { Database } from '../database/database.ts'
import { readPlatformConfig } from './config.ts'
import { reachDatabase } from './open-database.ts'
import { type CommandContext, knownFault, platformLog } from './run-platform.ts'

export type DatabaseContext = Omit<CommandContext, 'posterTo'>

/** What a command does with the open database, and answers with. */
export type Work = (database: Database) => Promise<string>

export class RequestError extends Error {}

const WAIT_MS = 10_000
const CONNECTIONS_MAX = 2

/**
 * Runs a command and prints its answer; resolves with the exit code. `prepare` gets ACCOUNT_ID, checks the request before
 * the database is opened, and throws RequestError or BackupError.
 */
export async function runOnDatabase(
  command: string,
  prepare: (accountId: string | undefined) => Work | Promise<Work>,
  context: DatabaseContext,
  open: typeof reachDatabase = openExisting,
): Promise<number> {
  const { env, stdout, stderr } = context
  const reading = readPlatformConfig(env)
  if (reading.problems.length > 0) {
    stderr.write(`vedette: ${problemText(reading.problems, 'platform')}`)
    return EXIT.configuration
  }
  // Only errors: the output may be read by a script.
  reading.config.logLevel = 'error'
  try {
    const work = await prepare(reading.config.accountId)
    const choice = { ...reading.config, connectionsMax: CONNECTIONS_MAX, databaseWaitMs: WAIT_MS }
    const opened = await open(choice, {
      applicationName: `vedette ${command}`,
      log: platformLog(reading, context),
      signal: new AbortController().signal,
    })
    try {
      stdout.write(await work(opened.database))
      return 0
    } finally {
      await opened.close()
    }
  } catch (error) {
    const isRequest = error instanceof RequestError
    const hint = `\nTry: vedette ${command} --help`
    const fault = isRequest
      ? { message: `${error.message}${hint}`, exitCode: EXIT.configuration }
      : knownFault(error)
    if (fault === undefined) throw error
    stderr.write(`vedette ${command}: ${fault.message}\n`)
    return fault.exitCode
  }
}

/** Creates no embedded database: with a wrong DATA_DIR, a backup would be empty, and replace a good one. */
const openExisting: typeof reachDatabase = async (choice, options) => {
  const { databaseUrl, dataDir } = choice
  if (databaseUrl === undefined && !existsSync(join(dataDir, 'postgres/data'))) {
    const fix = "set DATA_DIR to the platform's folder, or DATABASE_URL"
    throw new RequestError(`there is no database in ${dataDir} (DATA_DIR); ${fix}`)
  }
  return reachDatabase(choice, options)
}

/** Rows of texts with aligned columns. */
export function alignedTable(rows: readonly string[][]): string {
  return `${inColumns(rows).join('\n')}\n`
}

/** An instant to the minute. */
export function shownDay(at: Date | null): string {
  return at?.toISOString().slice(0, 16).replace('T', ' ') ?? 'never'
}
