// `vedette platform`: reads settings from the environment, makes the log, handles signals, returns an exit code.
import { VERSION } from '../contract/versions.ts'
import { EXIT } from '../process/exit-codes.ts'
import { type Environment, problemText } from '../process/env.ts'
import type { FaultReports } from '../process/faults/reports.ts'
import { createLog, isForPeople, type Log, mayColour } from '../process/log.ts'
import { ListenError } from '../process/serve.ts'
import { onSignals } from '../process/signals.ts'
import { endOnUncaught } from '../process/faults/uncaught.ts'
import { BackupError } from '../database/backup.ts'
import { isUnavailable } from '../database/database-failure.ts'
import { MigrationError } from '../database/migrate.ts'
import { type PlatformConfigReading, readPlatformConfig } from './config.ts'
import { EmbeddedPostgresError } from '../database/embedded/embedded-postgres-error.ts'
import { type Credentials, CredentialsError } from './accounts/first-account.ts'
import { reasonOf } from './open-database.ts'
import { Platform } from './platform.ts'
import { platformFaults, type PosterTo } from './platform-faults.ts'
import { SecretsKeyError } from './secrets/secrets-key.ts'

/** An output stream, such as `process.stdout` or `process.stderr`. */
export interface Output {
  write(text: string): unknown
  isTTY?: boolean | undefined
}

export interface CommandContext {
  env: Environment
  stdout: Output
  stderr: Output
  /** Creates the sender to SENTRY_DSN. */
  posterTo: PosterTo
}

/** Makes the platform's log, which hides its secrets; logged errors are reported to `faults`. */
export function platformLog(
  reading: PlatformConfigReading,
  { env, stdout }: Pick<CommandContext, 'env' | 'stdout'>,
  faults?: FaultReports,
): Log {
  const { secrets } = reading
  return createLog({
    level: reading.config.logLevel,
    pretty: isForPeople(stdout),
    colour: mayColour(stdout, env),
    scrubText: (given) => secrets.reduce((text, secret) => text.replaceAll(secret, '***'), given),
    onError: faults && ((error) => faults.logged(error)),
  })
}

/** Runs the platform until a signal stops it; resolves with the exit code. */
export async function runPlatform(context: CommandContext): Promise<number> {
  const { env, stdout, stderr } = context
  const reading = readPlatformConfig(env)
  if (reading.problems.length > 0) {
    stderr.write(`vedette: ${problemText(reading.problems, 'platform')}`)
    return EXIT.configuration
  }
  let platform: Platform | undefined
  const faults = platformFaults(reading, context.posterTo, () => platform?.database())
  const log = platformLog(reading, context, faults)
  // The watcher of the embedded PostgreSQL ends it when this process is gone.
  endOnUncaught(log, faults)
  platform = new Platform({
    config: reading.config,
    log,
    faults,
    onCredentials: (made, path) => stdout.write(credentialsText(made, path)),
  })
  let isStopping = false
  const offSignals = onSignals({
    stop: (signal) => {
      isStopping = true
      log.info({ signal }, 'stop signal received')
      void platform?.stop()
    },
  })
  try {
    await platform.start()
    if (!isStopping) log.info({ version: VERSION, url: platform.url() }, 'platform started')
    await platform.stopped
    return 0
  } catch (error) {
    const known = knownFault(error)
    if (known === undefined) throw error
    stderr.write(`vedette: ${known.message}\n`)
    return known.exitCode
  } finally {
    offSignals()
  }
}

/** Message of a fault that the operator can fix, and the exit code: 2 for settings, 1 for temporary faults. */
export function knownFault(error: unknown): { message: string; exitCode: number } | undefined {
  const isSetting =
    error instanceof ListenError ||
    (error instanceof EmbeddedPostgresError && error.code !== 'START') ||
    error instanceof MigrationError ||
    error instanceof BackupError ||
    error instanceof CredentialsError ||
    error instanceof SecretsKeyError
  if (isSetting) return { message: error.message, exitCode: EXIT.configuration }
  if (error instanceof EmbeddedPostgresError)
    return { message: error.message, exitCode: EXIT.failed }
  if (!isUnavailable(error)) return undefined
  const message = `the database does not answer: ${reasonOf(error)}; check DATABASE_URL, or the disk of DATA_DIR`
  return { message, exitCode: EXIT.failed }
}

function credentialsText(
  { accountId, adminApiKey }: Credentials,
  path: string | undefined,
): string {
  const placeText =
    path === undefined
      ? 'They are not stored anywhere else.'
      : `They are stored in ${path}, readable only by its owner.`
  return [
    'Vedette created an account and its first key, which are shown only now:',
    `  ACCOUNT_ID     ${accountId}`,
    `  ADMIN_API_KEY  ${adminApiKey}`,
    placeText,
    '',
  ].join('\n')
}
