// Aim: keys are made, listed without themselves and revoked; what is asked for wrongly is refused.
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { type KeysRequest, runKeys } from '../../src/platform/keys-command.ts'
import { createAccount } from '../../src/platform/accounts/queries/accounts.ts'
import { listApiKeys } from '../../src/platform/accounts/queries/api-keys.ts'
import { DATABASE_SERVERS, useDatabase } from '../support/database/database.ts'

async function keys(request: KeysRequest, env: Record<string, string>) {
  let [out, err] = ['', '']
  const exitCode = await runKeys(request, {
    env,
    stdout: { write: (text) => (out += text) },
    stderr: { write: (text) => (err += text) },
  })
  return { exitCode, out, err }
}

const creation = { action: 'create', name: 'deploys', role: 'Read & Write' }

const use = useDatabase(DATABASE_SERVERS[0])
const env = () => ({ DATABASE_URL: use().url })

test('a key needs an account, is shown once, listed by its end, and revoked for good', async () => {
  const early = await keys(creation, env())
  expect(early).toMatchObject({ exitCode: 2, err: expect.stringContaining('start') as string })
  await createAccount(use().database, { id: randomUUID(), name: 'first' })
  const { exitCode, out } = await keys(creation, env())
  expect(exitCode).toBe(0)
  const key = /^ {2}key +(\S+)/m.exec(out)?.[1] ?? ''
  const id = /^ {2}id +(\S+)/m.exec(out)?.[1] ?? ''
  expect(key).toMatch(/^vk_[\w-]{43}$/)
  const listed = await keys({ action: 'list' }, env())
  expect(listed.out).toContain(id)
  expect(listed.out).toContain(`…${key.slice(-4)}`)
  expect(listed.out).not.toContain(key)
  expect(JSON.stringify(await listApiKeys(use().database, { limit: 9 }))).not.toContain(key)
  const revoked = await keys({ action: 'revoke', id }, env())
  expect(revoked).toMatchObject({
    exitCode: 0,
    out: expect.stringContaining('keys create') as string,
  })
  const [row] = await listApiKeys(use().database, { limit: 9 })
  expect(await keys({ action: 'revoke', id }, env())).toMatchObject({ exitCode: 0 })
  expect(await listApiKeys(use().database, { limit: 9 })).toEqual([row])
  expect(row?.revoked_at).toBeInstanceOf(Date)
})

test('with several accounts the account must be named', async () => {
  const second = randomUUID()
  await createAccount(use().database, { id: second, name: 'second' })
  expect(await keys(creation, env())).toMatchObject({ exitCode: 2, out: '' })
  expect(await keys({ ...creation, accountId: second }, env())).toMatchObject({ exitCode: 0 })
  const listed = await keys({ action: 'list', accountId: second }, env())
  expect(listed.out.trim().split('\n')).toHaveLength(2)
})

test.each<[string, KeysRequest]>([
  ['no action', { action: undefined }],
  ['an action that there is not', { action: 'frobnicate' }],
  ['a key without a name', { action: 'create', role: 'Admin' }],
  ['a key without a role', { action: 'create', name: 'x' }],
  ['a revocation without an id', { action: 'revoke' }],
  ['a role that there is not', { ...creation, role: 'King' }],
  ['a name that is empty', { ...creation, name: ' ' }],
  ['an account that there is not', { ...creation, accountId: randomUUID() }],
  ['an account that is no id', { ...creation, accountId: 'x' }],
  ['a key that there is not', { action: 'revoke', id: randomUUID() }],
  ['a key that is no id', { action: 'revoke', id: `'; drop table api_keys` }],
])('%s is refused', async (_, request) => {
  expect(await keys(request, env())).toMatchObject({ exitCode: 2, out: '' })
})
