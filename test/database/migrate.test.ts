// Migrations: run once and whole, by any number of processes at once, and never on a database that
// they do not fit.
import { afterAll, describe, expect, test } from 'vitest'
import { openDatabase } from '../../src/database/database.ts'
import { migrate, type Migration, readMigrations } from '../../src/database/migrate.ts'
import {
  createTestDatabase,
  DATABASE_SERVERS,
  type TestDatabase,
} from '../support/database/database.ts'

const all = readMigrations().map(({ number }) => number)

function migration(number: number, sql: string): Migration {
  return { number, sql, checksum: `checksum of ${sql}` }
}

test('files are numbered consecutively', () => {
  expect(all).toEqual(all.map((_, index) => index + 1))
  expect(all.length).toBeGreaterThan(0)
})

describe.each(DATABASE_SERVERS)('on $name', (server) => {
  const made: TestDatabase[] = []
  const empty = async () => {
    const one = await createTestDatabase(server, { migrated: false })
    made.push(one)
    return one
  }
  afterAll(async () => {
    for (const one of made) await one.drop()
  })

  test('of several at once one migrates, and the others find nothing to do', async () => {
    const { url, database } = await empty()
    const pools = Array.from({ length: 8 }, () =>
      openDatabase({ address: { url }, applicationName: 'vedette tests' }),
    )
    await Promise.all(pools.map((pool) => pool.query('select 1')))
    const ran = await Promise.all(pools.map((pool) => migrate(pool)))
    await Promise.all(pools.map((pool) => pool.close()))
    expect(ran.filter((numbers) => numbers.length > 0)).toEqual([all])
    const rows = await database.query('select number from migrations order by number')
    expect(rows).toEqual(all.map((number) => ({ number })))
  })

  test('a failed migration rolls everything back, including previous ones', async () => {
    const { database } = await empty()
    const bad = [migration(1, 'create table a (id int)'), migration(2, 'create table a (id int)')]
    await expect(migrate(database, bad)).rejects.toMatchObject({ code: 'FAILED' })
    const [found] = await database.query(
      `select to_regclass('a') as a, to_regclass('migrations') as m`,
    )
    expect(found).toEqual({ a: null, m: null })
  })

  test('a changed migration is refused', async () => {
    const { database } = await empty()
    await migrate(database, [migration(1, 'create table a (id int)')])
    const changed = [migration(1, 'create table a (id bigint)')]
    await expect(migrate(database, changed)).rejects.toMatchObject({ code: 'CHANGED' })
  })

  test('a database of a newer version is refused and not changed', async () => {
    const { database } = await empty()
    const two = [migration(1, 'create table a (id int)'), migration(2, 'create table b (id int)')]
    await migrate(database, two)
    await expect(migrate(database, two.slice(0, 1))).rejects.toMatchObject({ code: 'NEWER' })
    expect(await migrate(database, two)).toEqual([])
  })

  test('only new migrations run on a database that has the old ones', async () => {
    const { database } = await empty()
    const first = migration(1, 'create table a (id int)')
    await migrate(database, [first])
    expect(await migrate(database, [first, migration(2, 'create table b (id int)')])).toEqual([2])
  })

  test('a user without the right to create tables gets that error', async () => {
    const { database, url } = await empty()
    await database.query(`create role reader_${process.pid}_${server.key} login`)
    const reader = new URL(url)
    reader.username = `reader_${process.pid}_${server.key}`
    const pool = openDatabase({ address: { url: reader.href }, applicationName: 'vedette tests' })
    await expect(migrate(pool)).rejects.toMatchObject({ code: 'PRIVILEGE' })
    await pool.close()
    await database.query(`drop role reader_${process.pid}_${server.key}`)
  })
})
