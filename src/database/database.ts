// The one way to PostgreSQL: a bounded pool in which every wait ends, statements by text or by prepared
// name, and transactions that are tried again when PostgreSQL asks for it.
import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type ClientBase,
  type ClientConfig,
  type CustomTypesConfig,
  DatabaseError,
  Pool,
  type PoolClient,
  Query,
  types,
} from 'pg'
import {
  databaseFailure,
  DatabaseUnavailableError,
  DISK_FULL,
  isUnavailable,
} from './database-failure.ts'
import { IdleWatch } from './idle-watch.ts'

/** Where the database is: an URL, or the folder of a unix socket. */
export type DatabaseAddress =
  { url: string } | { socketFolder: string; port?: number; user: string; database: string }

/** How to open a database. Times in milliseconds. */
export interface DatabaseOptions {
  address: DatabaseAddress
  /** Shown in pg_stat_activity. */
  applicationName: string
  connectionsMax?: number
  /** Time for a connection, a free place in the pool included. */
  connectTimeoutMs?: number
  /** The server ends a statement after this. */
  statementTimeoutMs?: number
  /** The client gives up this much after the server should have: only an unresponsive network gets here. */
  idleMs?: number
  /** Statements that still run when the database is closed get this long. */
  closeMs?: number
  /** Called when an idle connection is lost. */
  onLost?: (error: Error) => void
}

/** One statement: its text, a name if the server should prepare it, and the values of its parameters. */
export interface Statement<Row extends object = Record<string, unknown>> {
  text: string
  name?: string
  values?: readonly unknown[]
  /** For the type only: what it answers with. */
  readonly row?: Row
}

/** Whatever runs statements: the database itself, or one transaction on it. */
export interface Queryable {
  /** The rows. Throws what `databaseFailure` sorts. */
  query<Row extends object = Record<string, unknown>>(
    statement: string | Statement<Row>,
    values?: readonly unknown[],
  ): Promise<Row[]>
}

export interface TransactionOptions {
  isolation?: 'read committed' | 'repeatable read' | 'serializable'
  readOnly?: boolean
  /** Tries in all when PostgreSQL reports a conflict; 5 by default. `work` runs anew each time. */
  attempts?: number
  /** Instead of the pool's own limit for one statement. */
  statementTimeoutMs?: number
}

export interface Database extends Queryable {
  /**
   * Runs `work` in one transaction and commits it, or rolls back when `work` throws. When the connection is
   * lost during the commit, its outcome is unknown: the error is of kind `unavailable`, and the transaction is
   * not retried.
   */
  transaction<T>(work: (tx: Queryable) => Promise<T>, options?: TransactionOptions): Promise<T>
  /** Why the last statements failed for want of disk space; undefined where none did in the last 30 s. */
  fullDiskReason(): string | undefined
  /** Connections: open, idle, and callers that wait for one. */
  connections(): { open: number; idle: number; waiting: number }
  /** Remembers how much each connection has received. The returned function closes those that received nothing since. */
  markReceived(): () => void
  /** Closes every connection once what runs on it has ended, or after 5 s. Safe to call twice. */
  close(): Promise<void>
}

/** Connections that one process opens at most. */
export const CONNECTIONS_MAX = 16
const CONNECT_TIMEOUT_MS = 5000
const STATEMENT_TIMEOUT_MS = 10_000
const IDLE_TIMEOUT_MS = 5000
/** The locks of a paused process are released by then, so that others can continue its jobs. */
const IDLE_TRANSACTION_MS = 15_000
const IDLE_CONNECTION_MS = 60_000
const FULL_DISK_MS = 30_000
const RETRY_BASE_MS = 5
const CLOSE_MS = 5000

const int8 = (text: string): number => Number(text)
const verbatim = (text: string): string => text

/**
 * Types of columns in JavaScript: bigint and numeric numbers (ours count, and stay below 2^53), date its text
 * `YYYY-MM-DD`, timestamptz a Date (declare timestamptz(3), so that nothing is lost).
 */
const PARSERS = new Map<number, (text: string) => unknown>([
  [types.builtins.INT8, int8],
  [types.builtins.NUMERIC, int8],
  [types.builtins.DATE, verbatim],
])

const columnTypes: CustomTypesConfig = {
  // Every column arrives as text: the binary format is never requested.
  getTypeParser: (oid: Parameters<typeof types.getTypeParser>[0]) =>
    PARSERS.get(oid) ?? types.getTypeParser(oid),
}

/** Opens a database. Connects at the first statement, not before. */
export function openDatabase(options: DatabaseOptions): Database {
  return new PooledDatabase(options)
}

/** What the driver needs to know about an address. */
export function clientConfig(address: DatabaseAddress): ClientConfig {
  const common = { connectionTimeoutMillis: CONNECT_TIMEOUT_MS, keepAlive: true }
  if ('url' in address) return { ...common, connectionString: address.url }
  const { socketFolder, port = 5432, user, database } = address
  return { ...common, host: socketFolder, port, user, database, password: '', ssl: false }
}

class PooledDatabase implements Database {
  readonly #pool: Pool
  readonly #sockets = new Set<Socket>()
  readonly #statementTimeoutMs: number
  readonly #idleMs: number
  readonly #closeMs: number
  readonly #watch: IdleWatch
  #closed: Promise<void> | undefined
  #diskFullAt = Number.NEGATIVE_INFINITY

  constructor(options: DatabaseOptions) {
    const { address, applicationName, connectionsMax = CONNECTIONS_MAX, connectTimeoutMs } = options
    this.#statementTimeoutMs = options.statementTimeoutMs ?? STATEMENT_TIMEOUT_MS
    this.#idleMs = options.idleMs ?? IDLE_TIMEOUT_MS
    this.#closeMs = options.closeMs ?? CLOSE_MS
    this.#watch = new IdleWatch(this.#statementTimeoutMs + this.#idleMs)
    this.#pool = new Pool({
      ...clientConfig(address),
      application_name: applicationName,
      max: connectionsMax,
      ...(connectTimeoutMs !== undefined && { connectionTimeoutMillis: connectTimeoutMs }),
      idleTimeoutMillis: IDLE_CONNECTION_MS,
      // The pool awaits it.
      onConnect: (client: ClientBase): unknown => this.#setUp(client),
      types: columnTypes,
      stream: () => this.#remember(new Socket()),
    })
    // Without a listener a lost connection would end the process: the pool speaks for idle ones, and
    // while one is in use its statement fails as well.
    this.#pool.on('error', (error) => options.onLost?.(error))
    this.#pool.on('connect', (client) => client.on('error', () => undefined))
  }

  #remember(socket: Socket): Socket {
    this.#sockets.add(socket)
    return socket.once('close', () => this.#sockets.delete(socket))
  }

  /** By a statement and not in the start-up packet, which PgBouncer refuses. */
  async #setUp(client: ClientBase): Promise<void> {
    const text = `select set_config('TimeZone', 'UTC', false), set_config('DateStyle', 'ISO', false),
      set_config('statement_timeout', $1, false), set_config('idle_in_transaction_session_timeout', $2, false)`
    const values = [String(this.#statementTimeoutMs), String(IDLE_TRANSACTION_MS)]
    await this.#run(client, text, values)
  }

  query<Row extends object>(
    statement: string | Statement<Row>,
    values?: readonly unknown[],
  ): Promise<Row[]> {
    // By callbacks: this is the way of every statement outside transactions, and each promise on it
    // would cost a share of what the statement itself costs.
    return new Promise((resolve, reject) => {
      if (this.#closed !== undefined) {
        reject(new DatabaseUnavailableError('the database is closed'))
        return
      }
      this.#pool.connect((failure, client) => {
        if (client === undefined) {
          reject(noConnection(failure))
          return
        }
        this.#send<Row>(client, { statement, values }, (error, result) => {
          if (error instanceof Error) {
            this.#note(error)
            client.release(isUnavailable(error) || !(error instanceof DatabaseError))
            reject(error)
          } else {
            client.release()
            resolve(result.rows)
          }
        })
      })
    })
  }

  #run<Row extends object>(
    client: ClientBase,
    statement: string | Statement<Row>,
    values?: readonly unknown[],
    limitMs?: number,
  ): Promise<Row[]> {
    return new Promise((resolve, reject) => {
      this.#send<Row>(client, { statement, values, limitMs }, (error, result) => {
        if (error instanceof Error) reject(error)
        else resolve(result.rows)
      })
    })
  }

  /** Sends a statement; its connection is cut when the answer stays away for longer than the server may take. */
  #send<Row extends object>(
    client: ClientBase,
    { statement, values, limitMs = this.#statementTimeoutMs }: Sent,
    done: Done<Row>,
  ): void {
    const given = typeof statement === 'string' ? { text: statement } : statement
    // Without values the simple protocol is used, which allows several statements in one text. The driver
    // copies a configuration property by property, but uses an existing query object as it is.
    const all = values ?? given.values ?? []
    const waiting = this.#watch.begin(client, limitMs + this.#idleMs)
    const query = new Query<Row>(given.text, all, (error, result) => {
      this.#watch.end(waiting)
      done(error, result)
    })
    client.query(Object.assign(query, { name: given.name }))
  }

  async transaction<T>(
    work: (tx: Queryable) => Promise<T>,
    options: TransactionOptions = {},
  ): Promise<T> {
    const attempts = options.attempts ?? 5
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#attempt(work, options)
      } catch (error) {
        const again = attempt < attempts && databaseFailure(error)?.kind === 'conflict'
        if (!again) throw error
        // Exponential backoff with full jitter: two conflicting transactions hardly conflict again.
        await sleep(Math.random() * RETRY_BASE_MS * 2 ** attempt)
      }
    }
  }

  async #attempt<T>(work: (tx: Queryable) => Promise<T>, options: TransactionOptions): Promise<T> {
    const client = await this.#connect()
    const tx: Queryable = {
      query: (statement, values) =>
        this.#run(client, statement, values, options.statementTimeoutMs),
    }
    try {
      await tx.query(begin(options))
      const value = await work(tx)
      await tx.query('commit')
      client.release()
      return value
    } catch (error) {
      this.#note(error)
      await rollback(client, tx, error)
      throw error
    }
  }

  fullDiskReason(): string | undefined {
    if (performance.now() - this.#diskFullAt > FULL_DISK_MS) return undefined
    return 'the disk of the database is full: the last writes failed'
  }

  #note(error: unknown): void {
    if (databaseFailure(error)?.code === DISK_FULL) this.#diskFullAt = performance.now()
  }

  connections(): { open: number; idle: number; waiting: number } {
    const { totalCount, idleCount, waitingCount } = this.#pool
    return { open: totalCount, idle: idleCount, waiting: waitingCount }
  }

  markReceived(): () => void {
    const received = [...this.#sockets].map((socket) => ({ socket, bytes: socket.bytesRead }))
    return () => {
      for (const { socket, bytes } of received) if (socket.bytesRead === bytes) socket.destroy()
    }
  }

  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    this.#watch.close()
    // A server that does not close the connection would keep the process alive.
    const cut = setTimeout(() => {
      for (const socket of this.#sockets) socket.destroy()
    }, this.#closeMs)
    cut.unref()
    await this.#pool.end()
  }

  async #connect(): Promise<PoolClient> {
    if (this.#closed !== undefined) throw new DatabaseUnavailableError('the database is closed')
    try {
      return await this.#pool.connect()
    } catch (error) {
      throw noConnection(error)
    }
  }
}

/** The driver reports TLS, passwords and certificates by various errors, most without a code. */
function noConnection(failure: unknown): unknown {
  if (databaseFailure(failure) !== undefined) return failure
  const message = failure instanceof Error ? failure.message : 'no connection'
  return new DatabaseUnavailableError(message, { cause: failure })
}

function begin({ isolation = 'read committed', readOnly, statementTimeoutMs }: TransactionOptions) {
  const start = `begin isolation level ${isolation}${readOnly === true ? ' read only' : ''}`
  return statementTimeoutMs === undefined
    ? start
    : `${start}; set local statement_timeout = ${Math.ceil(statementTimeoutMs)}`
}

/** A statement on its way; `limitMs`: how long the server may take. */
interface Sent {
  statement: string | Statement<object>
  values?: readonly unknown[] | undefined
  limitMs?: number | undefined
}

type Done<Row extends object> = (error: Error | null | undefined, result: { rows: Row[] }) => void

async function rollback(client: PoolClient, tx: Queryable, error: unknown): Promise<void> {
  if (isUnavailable(error)) {
    client.release(true)
    return
  }
  try {
    await tx.query('rollback')
    client.release()
  } catch {
    client.release(true)
  }
}
