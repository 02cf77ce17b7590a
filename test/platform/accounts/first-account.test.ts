// The first account and its key: created once by any number of starts, or given by settings; a revoked key stays
// revoked.
import { randomUUID } from 'node:crypto'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { makeKey, tracesOf } from '../../../src/platform/secrets/api-key.ts'
import {
  type Credentials,
  ensureFirstAccount,
  storeCredentials,
} from '../../../src/platform/accounts/first-account.ts'
import { listAccounts } from '../../../src/platform/accounts/queries/accounts.ts'
import {
  findActiveKey,
  listApiKeys,
  revokeApiKey,
} from '../../../src/platform/accounts/queries/api-keys.ts'
import { createTestDatabase, DATABASE_SERVERS } from '../../support/database/database.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const unasked = { accountId: undefined, adminApiKey: undefined, keep: () => undefined }

describe.each(DATABASE_SERVERS)('on $name', (server) => {
  test('platforms that start at once make one account, and one of them prints its key', async () => {
    const { database, drop } = await createTestDatabase(server)
    const stored: Credentials[] = []
    const starts = Array.from({ length: 8 }, () =>
      ensureFirstAccount(database, { ...unasked, keep: (made) => stored.push(made) }),
    )
    const firsts = await Promise.all(starts)
    expect(await listAccounts(database, 10)).toHaveLength(1)
    expect(firsts.flatMap(({ made }) => made ?? [])).toEqual(stored)
    expect(stored).toHaveLength(1)
    expect(new Set(firsts.map(({ accountId }) => accountId)).size).toBe(1)
    const { hash } = tracesOf(stored[0]?.adminApiKey ?? '')
    expect(await findActiveKey(database, hash)).toMatchObject({ role: 'Admin' })
    await drop()
  })

  test('a given account and key exist after any number of starts', async () => {
    const { database, drop } = await createTestDatabase(server)
    const given = { ...unasked, accountId: randomUUID(), adminApiKey: makeKey() }
    for (let start = 0; start < 3; start++) {
      expect(await ensureFirstAccount(database, given)).toEqual({ accountId: given.accountId })
    }
    expect(await listAccounts(database, 10)).toMatchObject([{ id: given.accountId }])
    const keys = await listApiKeys(database, { limit: 10 })
    expect(keys).toMatchObject([{ role: 'Admin', suffix: given.adminApiKey.slice(-4) }])
    await drop()
  })

  test('a given key that was revoked stays so, with a warning', async () => {
    const { database, drop } = await createTestDatabase(server)
    const given = { ...unasked, adminApiKey: makeKey() }
    await ensureFirstAccount(database, given)
    const [key] = await listApiKeys(database, { limit: 1 })
    await revokeApiKey(database, key?.id ?? '')
    const { warning } = await ensureFirstAccount(database, given)
    expect(warning).toContain('was revoked')
    expect(await findActiveKey(database, tracesOf(given.adminApiKey).hash)).toBeUndefined()
    await drop()
  })

  test('a key that opens another account is refused, and that account is not made', async () => {
    const { database, drop } = await createTestDatabase(server)
    const adminApiKey = makeKey()
    await ensureFirstAccount(database, { ...unasked, adminApiKey })
    const other = { ...unasked, adminApiKey, accountId: randomUUID() }
    await expect(ensureFirstAccount(database, other)).rejects.toMatchObject({ code: 'CREDENTIALS' })
    expect(await listAccounts(database, 10)).toHaveLength(1)
    await drop()
  })

  test('no account is made when its key cannot be printed', async () => {
    const { database, drop } = await createTestDatabase(server)
    const keep = () => {
      throw new Error('disk full')
    }
    await expect(ensureFirstAccount(database, { ...unasked, keep })).rejects.toThrow('disk full')
    expect(await listAccounts(database, 10)).toEqual([])
    await drop()
  })
})

test('credentials are readable only by the owner, replacing any file', () => {
  const folder = temporaryFolder()
  writeFileSync(join(folder, 'credentials.json'), 'old', { mode: 0o666 })
  writeFileSync(join(folder, 'credentials.json.new'), 'half a file', { mode: 0o666 })
  const path = storeCredentials(folder, { accountId: 'a', adminApiKey: 'b' })
  expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual({ accountId: 'a', adminApiKey: 'b' })
  expect(statSync(path).mode & 0o777).toBe(0o600)
})

test('credentials of another database are moved aside, not lost', () => {
  const folder = temporaryFolder()
  const [first, second] = [randomUUID(), randomUUID()]
  const path = storeCredentials(folder, { accountId: first, adminApiKey: 'one' })
  storeCredentials(folder, { accountId: second, adminApiKey: 'two' })
  const aside = readFileSync(join(folder, `credentials-${first}.json`), 'utf8')
  expect(JSON.parse(aside)).toEqual({ accountId: first, adminApiKey: 'one' })
  expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual({ accountId: second, adminApiKey: 'two' })
})
