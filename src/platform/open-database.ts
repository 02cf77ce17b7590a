// Opens the platform's database, the given or the embedded one: waits until it answers and migrates it.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '../process/log.ts'
import {
  type Database,
  type DatabaseAddress,
  openDatabase,
  clientConfig,
} from '../database/database.ts'
import { databaseFailure, isUnavailable } from '../database/database-failure.ts'
import { migrate, MigrationError } from '../database/migrate.ts'
import {
  embeddedAddress,
  type EmbeddedPostgres,
  startEmbeddedPostgres,
} from '../database/embedded/embedded-postgres.ts'
import { EmbeddedPostgresError } from '../database/embedded/embedded-postgres-error.ts'
import { Client } from 'pg'

export interface DatabaseChoice {
  /** Undefined: the embedded one in `dataDir`. */
  databaseUrl: string | undefined
  dataDir: string
  connectionsMax: number
  /** How long to wait for a database that does not answer. */
  databaseWaitMs: number
}

export interface PlatformDatabase {
  database: Database
  address: DatabaseAddress
  /** Undefined where the database was given. */
  embedded: EmbeddedPostgres | undefined
  /** Closes the connections, then stops what was started. Safe to call twice. */
  close(): Promise<void>
}

export interface OpeningOptions {
  applicationName: string
  log: Log
  signal: AbortSignal
  /** Runs no migrations. */
  isUnmigrated?: boolean
  /** Called with the reason for waiting. */
  onWaiting?: (reason: string) => void
  /** Called when another process has locked the folder of the embedded database. */
  onLockLost?: () => void
}

const AGAIN_MS_MIN = 100
const AGAIN_MS_MAX = 5000
const PING_MS = 2000
const READ_ONLY = `select current_setting('transaction_read_only')::boolean as on`
const IS_READ_ONLY = 'the database is read-only; DATABASE_URL has to name the primary'

/**
 * Opens, waits and migrates. Rejects with EmbeddedPostgresError, MigrationError, the signal's reason, or the
 * last error of the database when the wait is over.
 */
export async function openPlatformDatabase(
  choice: DatabaseChoice,
  options: OpeningOptions,
): Promise<PlatformDatabase> {
  const { log, signal, applicationName } = options
  const embedded =
    choice.databaseUrl === undefined
      ? await startEmbeddedPostgres({
          dataDir: choice.dataDir,
          log,
          signal,
          ...(options.onLockLost === undefined ? {} : { onLockLost: options.onLockLost }),
        })
      : undefined
  const address = embedded?.address ?? { url: choice.databaseUrl ?? '' }
  const database = openDatabase({
    address,
    applicationName,
    connectionsMax: choice.connectionsMax,
    onLost: (error) => log.debug({ err: error }, 'a connection to the database was lost'),
  })
  const close = async () => {
    await database.close()
    await embedded?.stop()
  }
  try {
    const prepare = async () => {
      if (embedded === undefined) await requireSessions(address)
      return options.isUnmigrated === true ? [] : migrate(database)
    }
    const numbers = await persistently(prepare, choice.databaseWaitMs, options)
    if (numbers.length > 0) log.info({ migrations: numbers }, 'the database was migrated')
  } catch (error) {
    await close()
    throw error
  }
  return { database, address, embedded, close }
}

/** The database of a platform for a command: through its socket where it runs, and started for a moment where not. */
export async function reachDatabase(
  choice: DatabaseChoice,
  options: OpeningOptions,
): Promise<{ database: Database; close(): Promise<void> }> {
  try {
    return await openPlatformDatabase(choice, options)
  } catch (error) {
    const isRunning = error instanceof EmbeddedPostgresError && error.code === 'LOCKED'
    if (!isRunning) throw error
  }
  const database = openDatabase({
    address: embeddedAddress(choice.dataDir),
    applicationName: options.applicationName,
    connectionsMax: choice.connectionsMax,
  })
  return { database, close: () => database.close() }
}

/** Retries with growing pauses while the database does not answer. */
async function persistently<T>(
  work: () => Promise<T>,
  waitMs: number,
  { log, signal, onWaiting }: OpeningOptions,
): Promise<T> {
  const deadline = performance.now() + waitMs
  for (let pauseMs = AGAIN_MS_MIN; ; pauseMs = Math.min(pauseMs * 2, AGAIN_MS_MAX)) {
    try {
      return await work()
    } catch (error) {
      const waits = isUnavailable(error) && performance.now() + pauseMs < deadline
      if (!waits) throw error
      const reason = `the database does not answer: ${reasonOf(error)}`
      log.warn(reason)
      onWaiting?.(reason)
      await sleep(pauseMs, undefined, { signal })
    }
  }
}

/** Why a database did not answer: a short text without secrets. */
export function reasonOf(error: unknown): string {
  const code = databaseFailure(error)?.code ?? 'UNKNOWN'
  const message = error instanceof Error ? error.message : String(error)
  return message === '' || message.includes(code) ? message || code : `${message} (${code})`
}

/** Resolves with the reason why the database cannot be used, or undefined when it can. */
export async function databaseProblem(database: Database): Promise<string | undefined> {
  const late = new AbortController()
  try {
    return await Promise.race([
      database.query<{ on: boolean }>(READ_ONLY).then(
        ([readOnly]) => (readOnly?.on === true ? IS_READ_ONLY : database.fullDiskReason()),
        (error: unknown) => `the database does not answer: ${reasonOf(error)}`,
      ),
      sleep(PING_MS, `the database has not answered for ${PING_MS} ms`, { signal: late.signal }),
    ])
  } finally {
    late.abort()
  }
}

/** Other clients of the pooler may use the same sessions in between. */
const TRIES = 5
const ANSWER_MS_MAX = 10_000

/**
 * Throws MigrationError `POOLING` when two connections that are open at once share a session of the server. Throws what
 * the database throws when it is away.
 */
async function requireSessions(address: DatabaseAddress): Promise<void> {
  const clients = [new Client(clientConfig(address)), new Client(clientConfig(address))] as const
  try {
    for (const client of clients) {
      client.on('error', () => undefined)
      await client.connect()
    }
    for (let attempt = 0; attempt < TRIES; attempt++) {
      const [one, other] = [await serverProcess(clients[0]), await serverProcess(clients[1])]
      if (one === other) throw new MigrationError('POOLING', TRANSACTION_POOLING)
    }
  } finally {
    await Promise.all(clients.map((client) => client.end().catch(() => undefined)))
  }
}

const TRANSACTION_POOLING =
  'DATABASE_URL leads to a pooler that changes sessions between transactions; use session pooling ' +
  '(PgBouncer: pool_mode = session) or connect to PostgreSQL itself'

async function serverProcess(client: Client): Promise<number | undefined> {
  const ask = { text: 'select pg_backend_pid() as pid', query_timeout: ANSWER_MS_MAX }
  const { rows } = await client.query<{ pid: number }>(ask)
  return rows[0]?.pid
}
