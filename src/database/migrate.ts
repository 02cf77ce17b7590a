// Brings a database to the state that this code expects. Migrations are numbered files that are only
// ever added to; each is run once, and the database remembers its checksum.
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { DatabaseError } from 'pg'
import { type Database, type Queryable } from './database.ts'
import { isUnavailable } from './database-failure.ts'

export interface Migration {
  number: number
  sql: string
  /** SHA-256 of the text, hexadecimal. */
  checksum: string
}

/** The database cannot be used by this code; the message names the reason and the fix. */
export class MigrationError extends Error {
  readonly code:
    'CHANGED' | 'NEWER' | 'SERVER_VERSION' | 'ENCODING' | 'PRIVILEGE' | 'POOLING' | 'FAILED'

  constructor(code: MigrationError['code'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'MigrationError'
    this.code = code
  }
}

/** Oldest PostgreSQL that is known to work, as server_version_num spells it. */
const SERVER_VERSION_MIN = 150_000
/** Waiting for another process that migrates, and the longest migration. */
const MIGRATION_MS = 600_000
/** Key of the advisory lock of migration; an otherwise unused constant. */
const LOCK = 0x76_65_64_65
const FOLDER = new URL('migrations/', import.meta.url)

/** The migrations in `folder`, in order. Throws when a number is missing or doubled. */
export function readMigrations(folder: URL = FOLDER): Migration[] {
  const names = readdirSync(folder)
    .filter((name) => name.endsWith('.sql'))
    .sort()
  return names.map((name, index) => {
    const number = Number(/^(\d{6})\.sql$/.exec(name)?.[1])
    if (number !== index + 1) {
      throw new Error(`migration ${name} is out of order: expected number ${index + 1}`)
    }
    const sql = readFileSync(new URL(name, folder), 'utf8')
    return { number, sql, checksum: createHash('sha256').update(sql).digest('hex') }
  })
}

/**
 * Runs all pending migrations or none, and returns their numbers. Any number of
 * processes may call this at once: one works, the others wait for it and find nothing left. Throws
 * MigrationError, or what the database throws when it is away.
 */
export function migrate(
  database: Database,
  migrations: readonly Migration[] = readMigrations(),
): Promise<number[]> {
  return database.transaction((tx) => migrateIn(tx, migrations), {
    statementTimeoutMs: MIGRATION_MS,
  })
}

/** The same as a part of a transaction. */
export async function migrateIn(
  tx: Queryable,
  migrations: readonly Migration[],
): Promise<number[]> {
  await checkServer(tx)
  await tx.query(`select pg_advisory_xact_lock(${LOCK})`)
  return runPending(tx, migrations)
}

async function checkServer(tx: Queryable): Promise<void> {
  const [server] = await tx.query<{ version: number; name: string; encoding: string }>(
    `select current_setting('server_version_num')::int as version,
            current_setting('server_version') as name,
            current_setting('server_encoding') as encoding`,
  )
  if (server === undefined || server.version < SERVER_VERSION_MIN) {
    const fix = 'PostgreSQL 15 or newer is needed'
    throw new MigrationError('SERVER_VERSION', `the server is PostgreSQL ${server?.name}; ${fix}`)
  }
  if (server.encoding !== 'UTF8') {
    const fix = `create it again: create database … template template0 encoding 'UTF8'`
    throw new MigrationError('ENCODING', `the database stores ${server.encoding}, not UTF8; ${fix}`)
  }
}

async function runPending(tx: Queryable, migrations: readonly Migration[]): Promise<number[]> {
  await createTable(tx)
  const done = await tx.query<{ number: number; checksum: string }>(
    'select number, checksum from migrations order by number',
  )
  compare(done, migrations)
  const pending = migrations.slice(done.length)
  for (const migration of pending) {
    await runOne(tx, migration)
  }
  return pending.map(({ number }) => number)
}

async function createTable(tx: Queryable): Promise<void> {
  const [found] = await tx.query<{ found: boolean }>(
    `select to_regclass('migrations') is not null as found`,
  )
  if (found?.found === true) return
  try {
    await tx.query(
      `create table migrations (
         number int primary key,
         checksum text not null,
         applied_at timestamptz(3) not null default now()
       )`,
    )
  } catch (error) {
    throw refused(error) ?? error
  }
}

/** 42501 insufficient privilege, 3F000 no schema to create in. */
function refused(error: unknown): MigrationError | undefined {
  const code = error instanceof DatabaseError ? error.code : undefined
  if (code === '42501' || code === '3F000') {
    const fix = 'make the user of DATABASE_URL the owner of its database'
    const message = `no right to create tables; ${fix}`
    return new MigrationError('PRIVILEGE', message, { cause: error })
  }
  return undefined
}

function compare(
  done: readonly { number: number; checksum: string }[],
  migrations: readonly Migration[],
): void {
  const newest = done.at(-1)?.number ?? 0
  if (newest > migrations.length) {
    const message =
      `the database was migrated to ${newest} by a newer version, this one knows ` +
      `${migrations.length}; run that version, or restore a backup from before it`
    throw new MigrationError('NEWER', message)
  }
  for (const [index, { number, checksum }] of done.entries()) {
    const known = migrations[index]
    if (known?.number === number && known.checksum === checksum) continue
    const message =
      `migration ${number} is not the one that this database ran ` +
      `(${checksum.slice(0, 12)} there, ${known?.checksum.slice(0, 12)} here); ` +
      'a migration is never changed: put the file back and add a new one'
    throw new MigrationError('CHANGED', message)
  }
}

async function runOne(tx: Queryable, { number, sql, checksum }: Migration): Promise<void> {
  try {
    await tx.query(sql)
    await tx.query('insert into migrations (number, checksum) values ($1, $2)', [number, checksum])
  } catch (error) {
    if (!(error instanceof DatabaseError) || isUnavailable(error)) throw error
    if (error.code === '40P01' || error.code === '40001') throw error
    const message = `migration ${number} failed, it was rolled back: ${error.message}`
    throw refused(error) ?? new MigrationError('FAILED', message, { cause: error })
  }
}
