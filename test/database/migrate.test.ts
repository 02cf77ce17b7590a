// Migrations run once and whole, by any number of processes, and never on a database that they do not fit.
import { describe, expect, onTestFinished, test } from 'vitest'
import { openDatabase } from '../../src/database/database.ts'
import { migrate, type Migration, readMigrations } from '../../src/database/migrate.ts'
import { createTestDatabase, DATABASE_SERVERS } from '../support/database/database.ts'

const all = readMigrations().map(({ number }) => number)

const migration = (number: number, table: string): Migration => {
  const sql = `create table ${table}`
  return { number, sql, checksum: `checksum of ${sql}` }
}
const A = migration(1, 'a (id int)')
const B = migration(2, 'b (id int)')

test('files are numbered consecutively', () => {
  expect(all).toEqual(all.map((_, index) => index + 1))
  expect(all.length).toBeGreaterThan(0)
})

describe.each(DATABASE_SERVERS)('on $name', (server) => {
  const empty = async () => {
    const one = await createTestDatabase(server, { migrated: false })
    onTestFinished(one.drop)
    return one
  }

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
    const bad = migrate(database, [A, { ...A, number: 2 }])
    await expect(bad).rejects.toMatchObject({ code: 'FAILED' })
    const [found] = await database.query(
      `select to_regclass('a') as a, to_regclass('migrations') as m`,
    )
    expect(found).toEqual({ a: null, m: null })
  })

  test('only new migrations run; a changed one and a newer database are refused', async () => {
    const { database } = await empty()
    await migrate(database, [A])
    const changed = migrate(database, [migration(1, 'a (id bigint)')])
    await expect(changed).rejects.toMatchObject({ code: 'CHANGED' })
    expect(await migrate(database, [A, B])).toEqual([2])
    await expect(migrate(database, [A])).rejects.toMatchObject({ code: 'NEWER' })
    expect(await migrate(database, [A, B])).toEqual([])
  })

  test('a user without the right to create tables gets that error', async () => {
    const { database, url } = await empty()
    const reader = new URL(url)
    reader.username = `reader_${process.pid}_${server.key}`
    await database.query(`create role ${reader.username} login`)
    const pool = openDatabase({ address: { url: reader.href }, applicationName: 'vedette tests' })
    await expect(migrate(pool)).rejects.toMatchObject({ code: 'PRIVILEGE' })
    await pool.close()
    await database.query(`drop role ${reader.username}`)
  })
})
