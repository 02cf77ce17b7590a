// Aim: a backup holds every row as it was, restores as a whole or not at all, and says what is wrong with a file.
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, test } from 'vitest'
import * as backups from '../../src/database/backup.ts'
import type { Database } from '../../src/database/database.ts'
import { ensurePartitions } from '../../src/platform/results/queries/result-partitions.ts'
import { DATABASE_SERVERS, useDatabase } from '../support/database/database.ts'
import { addClient, startPublicApi } from '../support/platform/public-api.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const { BackupError, openBackup, restoreBackup, writeBackup } = backups

describe.each(DATABASE_SERVERS)('on $name', (server) => {
  const from = useDatabase(server)
  const to = useDatabase(server)
  const empty = useDatabase(server)
  const path = join(temporaryFolder(), 'vedette.backup')
  let rows: number

  beforeAll(async () => {
    const { database } = from()
    await ensurePartitions(database, Date.UTC(2026, 0, 1), Date.UTC(2026, 0, 2))
    const api = await startPublicApi(database)
    const client = await addClient(api, database)
    const config = { name: 'a', url: 'http://127.0.0.1:1/' }
    const request = { url: 'https://a.example' }
    const check = { name: 'x\n\\"', privateLocations: ['north'], request }
    for (const [part, body] of [
      ['private-locations', { name: 'Nørth "1"', slugName: 'north' }],
      ['alert-channels', { type: 'WEBHOOK', config }],
      ['check-groups', { name: 'first' }],
      ['checks/url', check],
    ] as const) {
      await client.call('POST', `/v1/${part}`, { body })
    }
    await database.query(
      `insert into results (location_id, monitor_id, slot, account_id, verdict, started_at, duration_ms, attempts, detail)
       select p.location_id, p.monitor_id, '2026-01-01T00:00:00.123Z', m.account_id, 'failed', '-infinity', 0.1, 1,
         '{"big": 12345678901234567890.5, "text": "a\\u00e9\\n"}'
       from placements p join monitors m on m.id = p.monitor_id`,
    )
    await api.close()
    rows = await writeBackup(database, path, '8.4.0')
  })

  test('restores every row as it was', async () => {
    const backup = await openBackup(path)
    expect(await restoreBackup(to().database, backup)).toBe(rows)
    expect(await from().database.query('select from results')).toHaveLength(1)
    expect(await contents(to().database, backup.header)).toEqual(
      await contents(from().database, backup.header),
    )
    const [group] = await to().database.query<{ id: number }>(
      `insert into check_groups (account_id, name, definition)
       select id, 'next', '' from accounts limit 1 returning id`,
    )
    expect(group?.id).toBe(2)
    // Nobody else may read the file.
    expect(statSync(path).mode & 0o777).toBe(0o600)
  })

  test.each<[string, (text: string) => string]>([
    ['that ends early', (text) => text.slice(0, text.lastIndexOf('{"rows"'))],
    ['without a row', (text) => text.replace(/\n\{"id":[^\n]*/, '')],
    ['with an unknown table', (text) => text.replace('{"table":"monitors"}', '{"table":"x"}')],
  ])('a file %s restores nothing', async (_, change) => {
    const text = gunzipSync(readFileSync(path)).toString('utf8')
    const damaged = join(temporaryFolder(), 'damaged')
    writeFileSync(damaged, gzipSync(change(text)))
    const backup = await openBackup(damaged)
    const before = await contents(empty().database, backup.header)
    await expect(restoreBackup(empty().database, backup)).rejects.toThrow(BackupError)
    expect(await contents(empty().database, backup.header)).toEqual(before)
  })

  test.each([
    ['no gzip', Buffer.from('a dump')],
    ['a cut file', () => readFileSync(path).subarray(0, 100)],
    ['another program’s file', gzipSync('{"format":"other"}\n')],
    ['a partition that is more than that', gzipSync(evilHeader())],
  ])('%s is not opened', async (_, content) => {
    const file = join(temporaryFolder(), 'file')
    writeFileSync(file, typeof content === 'function' ? content() : content)
    await expect(openBackup(file)).rejects.toThrow(BackupError)
  })

  test('a place that cannot be read or written is named', async () => {
    const gone = join(temporaryFolder(), 'no', 'file')
    await expect(openBackup(gone)).rejects.toThrow(`${gone} does not exist; name a backup`)
    await expect(writeBackup(from().database, gone, '8.4.0')).rejects.toThrow(BackupError)
  })
})

function evilHeader(): string {
  const partitions = [{ name: 'a', parent: 'results', bound: 'DEFAULT; drop table accounts' }]
  const header = { format: 'vedette-backup-1', version: '1', createdAt: '', migrations: 1 }
  return `${JSON.stringify({ ...header, tables: [], partitions })}\n`
}

/** Every row of every table as text, in one order. */
async function contents(database: Database, { tables }: backups.BackupHeader): Promise<unknown> {
  const all: Record<string, unknown> = {}
  for (const { name } of tables) {
    const rows = await database.query<{ text: string }>(
      `select t::text as text from "${name}" t order by 1`,
    )
    all[name] = rows.map(({ text }) => text)
  }
  return all
}
