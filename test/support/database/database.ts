// A separate database for a test file, cloned from a migrated one, on each supported PostgreSQL.
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, inject } from 'vitest'
import { type Database, openDatabase } from '../../../src/database/database.ts'
import { debianMajors, type RunningServer } from './database-servers.ts'

/** A kind of PostgreSQL. */
export interface DatabaseServer {
  name: string
  /** Its name in the process of the test run. */
  key: 'embedded' | 'other'
}

const EMBEDDED: DatabaseServer = { name: 'the embedded PostgreSQL', key: 'embedded' }

/** The servers of this tier: the embedded one, in the full tier `other` alone or `both`. In CI it must exist. */
export const DATABASE_SERVERS: readonly DatabaseServer[] = servers(process.env['TEST_DATABASES'])

function servers(wanted = 'embedded'): DatabaseServer[] {
  if (wanted === 'embedded') return [EMBEDDED]
  return wanted === 'both' ? [EMBEDDED, ...others()] : others()
}

function others(): DatabaseServer[] {
  if (process.env['TEST_DATABASE_URL'] !== undefined) {
    return [{ name: 'the PostgreSQL of TEST_DATABASE_URL', key: 'other' }]
  }
  const major = debianMajors().at(-1)
  if (major !== undefined) return [{ name: `Debian's PostgreSQL ${major}`, key: 'other' }]
  if (process.env['CI'] !== undefined) throw new Error('needs apt-get install postgresql')
  return []
}

/** A database that exists until the test file ends. */
export interface TestDatabase {
  name: string
  /** For DATABASE_URL. */
  url: string
  database: Database
  /** Closes `database` and removes it; only for callers of `createTestDatabase`. */
  drop: () => Promise<void>
}

/** Makes a database, on a shared server or on the caller's; `migrated: false` leaves it empty. */
export async function createTestDatabase(
  server: DatabaseServer | RunningServer = EMBEDDED,
  { migrated = true }: { migrated?: boolean } = {},
): Promise<TestDatabase> {
  const { urlPattern, template } = 'key' in server ? await shared(server) : server
  const name = `test_${randomUUID().replaceAll('-', '')}`
  const urlOf = (database: string) => urlPattern.replace('{database}', database)
  const source = migrated ? template : `template0 encoding 'UTF8'`
  await onServer(urlOf('postgres'), `create database ${name} template ${source}`)
  const url = urlOf(name)
  const database = openDatabase({ address: { url }, applicationName: 'vedette tests' })
  const drop = async () => {
    await database.close()
    await onServer(urlOf('postgres'), `drop database ${name} with (force)`)
  }
  return { name, url, database, drop }
}

async function shared({ key }: DatabaseServer): Promise<RunningServer> {
  const answer = await fetch(`${inject('databaseServers')}/${key}`)
  if (!answer.ok) throw new Error(await answer.text())
  return (await answer.json()) as RunningServer
}

/**
 * Makes a database before the tests of the enclosing block, and drops it after them; returns its getter. Within
 * `describe.each(DATABASE_SERVERS)` call `useDatabase(server)` once, and the same tests run on each server.
 */
export function useDatabase(
  server: DatabaseServer = EMBEDDED,
  options: { migrated?: boolean } = {},
): () => TestDatabase {
  let made: TestDatabase | undefined
  beforeAll(async () => {
    made = await createTestDatabase(server, options)
  })
  afterAll(() => made?.drop())
  return () => {
    if (made === undefined) throw new Error('the database is there only while tests run')
    return made
  }
}

async function onServer(url: string, sql: string): Promise<void> {
  const database = openDatabase({ address: { url }, applicationName: 'vedette tests' })
  try {
    await database.query(sql)
  } finally {
    await database.close()
  }
}
