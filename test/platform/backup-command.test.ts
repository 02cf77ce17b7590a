// Aim: the commands write and restore a backup, and say with exit code 2 what is wrong with a file or a database.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createAccount, listAccounts } from '../../src/platform/accounts/queries/accounts.ts'
import { runBackup, runRestore } from '../../src/platform/backup-command.ts'
import { DATABASE_SERVERS, useDatabase } from '../support/database/database.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const from = useDatabase(DATABASE_SERVERS[0])
const to = useDatabase(DATABASE_SERVERS[0])
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
})

test('what is no backup, and a place that cannot be written, are named', async () => {
  const other = join(temporaryFolder(), 'other')
  writeFileSync(other, 'select 1')
  const restored = await run(runRestore, to().url, other)
  expect([restored.exitCode, restored.err]).toEqual([2, expect.stringContaining(other)])
  const nowhere = join(other, 'x')
  const written = await run(runBackup, from().url, nowhere)
  expect([written.exitCode, written.err]).toEqual([2, expect.stringContaining(nowhere)])
})

test('a folder without a database is refused, and replaces no backup', async () => {
  const [folder, backup] = [temporaryFolder(), join(temporaryFolder(), 'good.backup')]
  writeFileSync(backup, 'a good one')
  expect(await run(runBackup, folder, backup)).toMatchObject({ exitCode: 2, out: '' })
  expect([readFileSync(backup, 'utf8'), readdirSync(folder)]).toEqual(['a good one', []])
})
