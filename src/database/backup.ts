// Backup of a database while it is used: one consistent view of all rows, as lines of JSON, compressed. It holds
// no key; a restore needs the version of PostgreSQL as little as the layout of the server.
import { createReadStream, createWriteStream } from 'node:fs'
import { lstat, rename, rm, stat } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'
import { DatabaseError } from 'pg'
import * as z from 'zod'
import { isUnavailable } from './database-failure.ts'
import type { Database, Queryable } from './database.ts'
import { migrateIn, readMigrations } from './migrate.ts'

/** A backup cannot be made or read; the message names the reason. */
export class BackupError extends Error {}

const name = z.string().regex(/^[a-z_][a-z0-9_]{0,62}$/)

const Header = z.object({
  format: z.literal('vedette-backup-1'),
  version: z.string(),
  createdAt: z.string(),
  /** How many migrations the database had run. */
  migrations: z.int().min(1),
  /** In the order in which they can be filled. */
  tables: z.array(z.object({ name, columns: z.array(name), identity: name.nullable() })),
  partitions: z.array(
    z.object({
      name,
      parent: name,
      bound: z.string().regex(/^(DEFAULT|FOR VALUES [A-Z0-9 :'(),+.-]+)$/),
    }),
  ),
})
/** The first line of a backup. */
export type BackupHeader = z.infer<typeof Header>
type Table = BackupHeader['tables'][number]

const ROWS_AT_ONCE = 1_000
const BATCH_CHARACTERS_MAX = 4 * 1024 * 1024
/** More than the largest result has. */
const LINE_CHARACTERS_MAX = 16 * 1024 * 1024
const STATEMENT_MS = 3_600_000

/** Writes a backup to `path`, which no other user may read. Returns the number of rows. */
export async function writeBackup(
  database: Database,
  path: string,
  version: string,
): Promise<number> {
  const before = await lstat(path).catch(() => undefined)
  // The file takes the place of what has its name, be it a link or a device of this machine.
  if (before?.isFile() === false || path === '-')
    throw new BackupError(`${path} is not a regular file`)
  const part = `${path}.part`
  let rows = 0
  try {
    await database.transaction(
      async (tx) => {
        const header = await headerOf(tx, version)
        const lines = async function* () {
          yield `${JSON.stringify(header)}\n`
          for (const table of header.tables) {
            yield `${JSON.stringify({ table: table.name })}\n`
            for await (const text of rowsOf(tx, table)) {
              rows++
              yield `${text}\n`
            }
          }
          yield `${JSON.stringify({ rows })}\n`
        }
        const file = createWriteStream(part, { mode: 0o600, flush: true })
        await pipeline(Readable.from(lines()), createGzip(), file)
      },
      {
        isolation: 'repeatable read',
        readOnly: true,
        attempts: 1,
        statementTimeoutMs: STATEMENT_MS,
      },
    )
    await rename(part, path)
    return rows
  } catch (error) {
    if (!isSystemError(error)) throw error
    const fix = 'name a file in a folder that exists and that you can write to'
    throw new BackupError(`${path} cannot be written (${error.code}); ${fix}`, { cause: error })
  } finally {
    await rm(part, { force: true }).catch(() => undefined)
  }
}

function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error && 'path' in error
}

async function headerOf(tx: Queryable, version: string): Promise<BackupHeader> {
  const [done] = await tx.query<{ count: number }>('select count(*) as count from migrations')
  const tables = await tx.query<Table>(`
    select c.relname as name, array(
        select a.attname::text from pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
        order by a.attnum) as columns,
      (select a.attname::text from pg_attribute a
        where a.attrelid = c.oid and a.attidentity <> '' and not a.attisdropped) as identity
    from pg_class c
    where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p')
      and not c.relispartition and c.relpersistence = 'p' and c.relname <> 'migrations'
    order by c.relname`)
  const references = await tx.query<{ from: string; to: string }>(`
    select conrelid::regclass::text as "from", confrelid::regclass::text as "to"
    from pg_constraint where contype = 'f' and conrelid <> confrelid and conparentid = 0`)
  return {
    format: 'vedette-backup-1',
    version,
    createdAt: new Date().toISOString(),
    migrations: done?.count ?? 0,
    tables: inOrder(tables, references),
    partitions: await tx.query(`
      select c.relname as name, p.relname as parent, pg_get_expr(c.relpartbound, c.oid) as bound
      from pg_inherits i join pg_class c on c.oid = i.inhrelid join pg_class p on p.oid = i.inhparent
      where c.relispartition and c.relkind = 'r' order by c.relname`),
  }
}

/** Tables behind those that they refer to. */
function inOrder(
  tables: readonly Table[],
  references: readonly { from: string; to: string }[],
): Table[] {
  const ordered: Table[] = []
  let left = [...tables]
  while (left.length > 0) {
    const names = new Set(left.map((one) => one.name))
    const free = left.filter(
      (one) => !references.some(({ from, to }) => from === one.name && names.has(to)),
    )
    if (free.length === 0) throw new BackupError('tables refer to each other cyclically')
    ordered.push(...free)
    left = left.filter((one) => !free.includes(one))
  }
  return ordered
}

async function* rowsOf(tx: Queryable, table: Table): AsyncGenerator<string> {
  await tx.query(
    `declare backup_rows no scroll cursor for select row_to_json(t)::text as text
     from (select ${columnsOf(table)} from "${table.name}") t`,
  )
  let found: { text: string }[]
  do {
    found = await tx.query<{ text: string }>(`fetch ${ROWS_AT_ONCE} from backup_rows`)
    for (const { text } of found) yield text
  } while (found.length === ROWS_AT_ONCE)
  await tx.query('close backup_rows')
}

function columnsOf({ columns }: Table): string {
  return columns.map((one) => `"${one}"`).join(', ')
}

/** An opened backup. */
export interface Backup {
  header: BackupHeader
  /** Its lines behind the header. */
  lines: AsyncIterator<string>
  close(): void
}

/** Opens a backup and reads its header. Throws BackupError where the file is none. */
export async function openBackup(path: string): Promise<Backup> {
  const facts = await stat(path).catch(() => undefined)
  const isPiped = path === '/dev/stdin' && (facts?.isFIFO() === true || facts?.isSocket() === true)
  // Any other pipe could block forever, and so could standard input that is opened again.
  if (facts?.isFile() === false && !isPiped) throw new BackupError(`${path} is not a regular file`)
  const file = isPiped ? process.stdin : createReadStream(path)
  const lines = linesOf(file, path)
  const close = () => void file.destroy()
  try {
    const { value = '' } = await lines.next()
    return { header: headerIn(value, path), lines, close }
  } catch (error) {
    close()
    throw error
  }
}

function headerIn(line: string, path: string): BackupHeader {
  try {
    return Header.parse(JSON.parse(line))
  } catch (error) {
    throw new BackupError(`${path} is not a backup of Vedette`, { cause: error })
  }
}

async function* linesOf(file: Readable, path: string): AsyncGenerator<string, undefined> {
  const unpacked = createGunzip()
  const reading = pipeline(file, unpacked)
  reading.catch(() => undefined)
  let rest = ''
  try {
    for await (const chunk of unpacked.setEncoding('utf8')) {
      const lines = (rest + String(chunk)).split('\n')
      rest = lines.pop() ?? ''
      yield* lines
      if (rest.length > LINE_CHARACTERS_MAX)
        throw new BackupError(`${path} has a line that is too long`)
    }
    await reading
  } catch (error) {
    throw error instanceof BackupError
      ? error
      : new BackupError(whyUnread(error, path), { cause: error })
  }
  return undefined
}

const UNREAD: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist',
  ENOTDIR: 'does not exist',
  EACCES: 'cannot be read: permission denied',
}

function whyUnread(error: unknown, path: string): string {
  const { code = '', message } = error as NodeJS.ErrnoException
  if (code === 'Z_DATA_ERROR') return `${path} is not a backup of Vedette, or is damaged`
  if (code.startsWith('Z_')) return `${path} is damaged: ${message}`
  const why = UNREAD[code] ?? `cannot be read (${code || message})`
  return `${path} ${why}; name a backup that you can read`
}

/**
 * Fills an empty database, by the migrations of the backup. All of it or nothing is restored. Returns the number of rows.
 * Throws BackupError where the file is damaged or ends too early, or where the database has accounts.
 */
export async function restoreBackup(
  database: Database,
  { header, lines }: Backup,
): Promise<number> {
  return database.transaction(
    async (tx) => {
      await migrateIn(tx, readMigrations().slice(0, header.migrations))
      const accounts = await tx.query('select from accounts limit 1')
      if (accounts.length > 0)
        throw new BackupError('the database has accounts already; restore into an empty one')
      const tables = new Map(header.tables.map((one) => [one.name, one]))
      await tx.query(`truncate ${[...tables.keys()].map((one) => `"${one}"`).join(', ')}`)
      for (const { name: partition, parent, bound } of header.partitions)
        await tx.query(
          `create table if not exists "${partition}" partition of "${parent}" ${bound}`,
        )
      const rows = await fill(tx, tables, lines)
      for (const table of header.tables) await restartIdentity(tx, table)
      return rows
    },
    { attempts: 1, statementTimeoutMs: STATEMENT_MS },
  )
}

async function fill(
  tx: Queryable,
  tables: ReadonlyMap<string, Table>,
  lines: AsyncIterator<string>,
): Promise<number> {
  let rows = 0
  let table: Table | undefined
  let batch: string[] = []
  let characters = 0
  const flush = async () => {
    if (table !== undefined && batch.length > 0) await insert(tx, table, batch)
    batch = []
    characters = 0
  }
  for (;;) {
    const line = await lines.next()
    if (line.done === true) throw new BackupError('the backup is not complete')
    const marker = markerOf(line.value)
    if (marker === undefined) {
      rows++
      characters += line.value.length
      batch.push(line.value)
      if (batch.length === ROWS_AT_ONCE || characters > BATCH_CHARACTERS_MAX) await flush()
      continue
    }
    await flush()
    if ('rows' in marker) {
      if (marker.rows !== rows) throw new BackupError('the backup is damaged: rows are missing')
      return rows
    }
    table = tables.get(marker.table)
    if (table === undefined) throw new BackupError(`the backup is damaged: table ${marker.table}`)
  }
}

/** Lines of one field start a table, or end the backup; no table has a single column of these names. */
function markerOf(line: string): { table: string } | { rows: number } | undefined {
  if (/^\{"rows":\d+\}$/.test(line)) return JSON.parse(line) as { rows: number }
  return /^\{"table":"\w+"\}$/.test(line) ? (JSON.parse(line) as { table: string }) : undefined
}

async function insert(tx: Queryable, table: Table, batch: readonly string[]): Promise<void> {
  const columns = columnsOf(table)
  const text = `insert into "${table.name}" (${columns}) overriding system value
    select ${columns} from json_populate_recordset(null::"${table.name}", $1::json)`
  try {
    await tx.query(text, [`[${batch.join(',')}]`])
  } catch (error) {
    if (!(error instanceof DatabaseError) || isUnavailable(error)) throw error
    const message = `the backup is damaged: a row of ${table.name} is refused (${error.code})`
    throw new BackupError(message, { cause: error })
  }
}

async function restartIdentity(tx: Queryable, { name: table, identity }: Table): Promise<void> {
  if (identity === null) return
  await tx.query(
    `select setval(pg_get_serial_sequence('"${table}"', '${identity}'),
       coalesce(max("${identity}"), 0) + 1, false) from "${table}"`,
  )
}
