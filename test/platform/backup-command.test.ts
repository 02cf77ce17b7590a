// Aim: the commands write and restore a backup, and say with exit code 2 what is wrong with a file or a database.
import { lstatSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { migrate, readMigrations } from '../../src/database/migrate.ts'
import { createAccount, listAccounts } from '../../src/platform/accounts/queries/accounts.ts'
import { writeBackup } from '../../src/database/backup.ts'
import { runBackup, runRestore } from '../../src/platform/backup-command.ts'
import { DATABASE_SERVERS, useDatabase } from '../support/database/database.ts'
import { startVedette } from '../support/platform/platform-process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const from = useDatabase(DATABASE_SERVERS[0])
const to = useDatabase(DATABASE_SERVERS[0])
const piped = useDatabase(DATABASE_SERVERS[0])
const older = useDatabase(DATABASE_SERVERS[0], { migrated: false })
const empty = useDatabase(DATABASE_SERVERS[0], { migrated: false })
const path = join(temporaryFolder(), 'vedette.backup')

async function run(command: typeof runBackup, place: string, file = path) {
  let [out, err] = ['', '']
  const exitCode = await command(file, {
    env: place.includes('://') ? { DATABASE_URL: place } : { DATA_DIR: place },
    stdout: { write: (text) => (out += text) },
    stderr: { write: (text) => (err += text) },
  })
  return { exitCode, out, err }
}

test('a backup fills an empty database, once', async () => {
  await createAccount(from().database, { id: '0b0f1c3e-6a55-4d3f-9a7d-1c2b3a4d5e6f', name: 'Acme' })
  expect(await run(runBackup, from().url)).toMatchObject({ exitCode: 0, err: '' })
  expect(await run(runRestore, to().url)).toMatchObject({ exitCode: 0, err: '' })
  expect(await listAccounts(to().database, 2)).toEqual(await listAccounts(from().database, 2))
  expect(await run(runRestore, to().url)).toMatchObject({ exitCode: 2, out: '' })
  const nowhere = await run(runBackup, from().url, join(path, 'x'))
  expect([nowhere.exitCode, nowhere.err]).toEqual([2, expect.stringContaining(path)])
})

test('after a damaged backup, the one of an earlier version can still be restored', async () => {
  const damaged = join(temporaryFolder(), 'damaged')
  const text = gunzipSync(readFileSync(path)).toString('utf8')
  writeFileSync(damaged, gzipSync(text.slice(0, text.lastIndexOf('{"rows"'))))
  expect(await run(runRestore, empty().url, damaged)).toMatchObject({ exitCode: 2, out: '' })

  const earlier = join(temporaryFolder(), 'earlier')
  await migrate(older().database, readMigrations().slice(0, -1))
  await createAccount(older().database, { id: '1b0f1c3e-6a55-4d3f-9a7d-1c2b3a4d5e6f', name: 'Old' })
  await writeBackup(older().database, earlier, '8.3.0')
  expect(await run(runRestore, empty().url, earlier)).toMatchObject({ exitCode: 0, err: '' })
  expect(await listAccounts(empty().database, 2)).toMatchObject([{ name: 'Old' }])
})

test('standard input may be a pipe, as in a container', async () => {
  const feed = ['sh', '-c', 'cat "$0" | "$@"', path]
  const restoring = startVedette(['restore', '/dev/stdin'], { DATABASE_URL: piped().url }, feed)
  expect(await restoring.ended).toMatchObject({ code: 0, stderr: '' })
  expect(await listAccounts(piped().database, 2)).toEqual(await listAccounts(from().database, 2))
})

test('a backup replaces no link, such as /dev/stdout', async () => {
  const link = join(temporaryFolder(), 'stdout')
  symlinkSync('/proc/self/fd/1', link)
  expect(await run(runBackup, from().url, link)).toMatchObject({ exitCode: 2, out: '' })
  expect(lstatSync(link).isSymbolicLink()).toBe(true)
  expect(await run(runBackup, from().url, '-')).toMatchObject({ exitCode: 2, out: '' })
})

test('a folder without a database is refused, and replaces no backup', async () => {
  const [folder, backup] = [temporaryFolder(), join(temporaryFolder(), 'good.backup')]
  writeFileSync(backup, 'a good one')
  expect(await run(runBackup, folder, backup)).toMatchObject({ exitCode: 2, out: '' })
  expect([readFileSync(backup, 'utf8'), readdirSync(folder)]).toEqual(['a good one', []])
})
