// The first account and its key: created once by any number of starts, or given by settings.
import { randomUUID } from 'node:crypto'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import { makeKey, tracesOf } from '../../../src/platform/secrets/api-key.ts'
import * as first from '../../../src/platform/accounts/first-account.ts'
import { listAccounts } from '../../../src/platform/accounts/queries/accounts.ts'
import * as keys from '../../../src/platform/accounts/queries/api-keys.ts'
import { DATABASE_SERVERS, useDatabase } from '../../support/database/database.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const { ensureFirstAccount, storeCredentials } = first
const unasked = { accountId: undefined, adminApiKey: undefined, keep: () => undefined }

describe.each(DATABASE_SERVERS)('on $name', (server) => {
  const use = useDatabase(server)
  const accounts = () => listAccounts(use().database, 10)
  const ensure = (given: object) => ensureFirstAccount(use().database, { ...unasked, ...given })
  beforeEach(() => use().database.query('truncate accounts cascade'))

  test('platforms that start at once make one account, and one of them prints its key', async () => {
    const stored: first.Credentials[] = []
    const keep = (made: first.Credentials) => stored.push(made)
    const firsts = await Promise.all(Array.from({ length: 8 }, () => ensure({ keep })))
    expect(await accounts()).toHaveLength(1)
    expect(firsts.flatMap(({ made }) => made ?? [])).toEqual(stored)
    expect(stored).toHaveLength(1)
    expect(new Set(firsts.map(({ accountId }) => accountId)).size).toBe(1)
    const { hash } = tracesOf(stored[0]?.adminApiKey ?? '')
    expect(await keys.findActiveKey(use().database, hash)).toMatchObject({ role: 'Admin' })
  })

  test('a given account and key exist after any number of starts; revoked, the key stays so', async () => {
    const given = { accountId: randomUUID(), adminApiKey: makeKey() }
    const { accountId, adminApiKey } = given
    for (let start = 0; start < 3; start++) expect(await ensure(given)).toEqual({ accountId })
    expect(await accounts()).toMatchObject([{ id: accountId }])
    const listed = await keys.listApiKeys(use().database, { limit: 10 })
    expect(listed).toMatchObject([{ role: 'Admin', suffix: adminApiKey.slice(-4) }])
    await keys.revokeApiKey(use().database, listed[0]?.id ?? '')
    expect((await ensure(given)).warning).toContain('was revoked')
    expect(await keys.findActiveKey(use().database, tracesOf(adminApiKey).hash)).toBeUndefined()
  })

  test('no account is made by a key that opens another, or when its key cannot be printed', async () => {
    const keep = () => {
      throw new Error('disk full')
    }
    await expect(ensure({ keep })).rejects.toThrow('disk full')
    expect(await accounts()).toEqual([])
    const adminApiKey = makeKey()
    await ensure({ adminApiKey })
    const other = ensure({ adminApiKey, accountId: randomUUID() })
    await expect(other).rejects.toMatchObject({ code: 'CREDENTIALS' })
    expect(await accounts()).toHaveLength(1)
  })
})

test('credentials are readable only by the owner, and others are moved aside', () => {
  const folder = temporaryFolder()
  for (const name of ['credentials.json', 'credentials.json.new']) {
    writeFileSync(join(folder, name), 'half a file', { mode: 0o666 })
  }
  const one = { accountId: randomUUID(), adminApiKey: 'one' }
  const other = { accountId: randomUUID(), adminApiKey: 'two' }
  const path = storeCredentials(folder, one)
  const read = (file: string) => JSON.parse(readFileSync(file, 'utf8')) as unknown
  expect([read(path), statSync(path).mode & 0o777]).toEqual([one, 0o600])
  storeCredentials(folder, other)
  expect(read(path)).toEqual(other)
  expect(read(join(folder, `credentials-${one.accountId}.json`))).toEqual(one)
})
