// `vedette keys`: keys are made, shown without themselves and revoked, on a given database and on the
// embedded one, whether the platform runs or not; a running platform notices at once.
import { randomUUID } from 'node:crypto'
import { expect, test, vi } from 'vitest'
import { type KeysRequest, runKeys } from '../../src/platform/keys-command.ts'
import { createAccount } from '../../src/platform/accounts/queries/accounts.ts'
import { listApiKeys } from '../../src/platform/accounts/queries/api-keys.ts'
import { DATABASE_SERVERS, useDatabase } from '../support/database/database.ts'
import { untilHolds } from '../support/eventually.ts'
import { startPlatform, startVedette } from '../support/platform/platform-process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { storedCredentials } from '../support/platform/written-incidents.ts'

// Real processes, each with a start of its own, on machines that may be busy with other things.
vi.setConfig({ testTimeout: 120_000 })

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

test('before the first account no key can be created', async () => {
  const { exitCode, err } = await keys(creation, env())
  expect({ exitCode, err }).toMatchObject({ exitCode: 2, err: expect.stringContaining('start') })
})

test('a key is shown once, listed by its end, and revoked for good', async () => {
  const accountId = randomUUID()
  await createAccount(use().database, { id: accountId, name: 'first' })
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
  expect(await keys({ action: 'revoke', id }, env())).toMatchObject({ exitCode: 0 })
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
  ['a role that there is not', { ...creation, role: 'King' }],
  ['a name that is empty', { ...creation, name: ' ' }],
  ['an account that there is not', { ...creation, accountId: randomUUID() }],
  ['an account that is no id', { ...creation, accountId: 'x' }],
  ['a key that there is not', { action: 'revoke', id: randomUUID() }],
  ['a key that is no id', { action: 'revoke', id: `'; drop table api_keys` }],
])('%s is refused', async (_, request) => {
  expect(await keys(request, env())).toMatchObject({ exitCode: 2, out: '' })
})

test('on the embedded database, with the platform and without it', async () => {
  const own = { DATA_DIR: temporaryFolder() }
  const platform = await startPlatform(own)
  const { accountId } = storedCredentials(own.DATA_DIR)
  const made = await startVedette(['keys', 'create', '--name', 'x', '--role', 'read only'], own)
    .ended
  expect(made).toMatchObject({ code: 0, stderr: '' })
  const key = /^ {2}key +(\S+)/m.exec(made.stdout)?.[1] ?? ''
  const id = /^ {2}id +(\S+)/m.exec(made.stdout)?.[1] ?? ''
  const status = async () => {
    const headers = { authorization: `Bearer ${key}`, 'x-service-account': accountId }
    return (await fetch(`${platform.url}/v1/accounts/me`, { headers })).status
  }
  expect(await status()).toBe(200)
  expect((await startVedette(['keys', 'revoke', id], own).ended).code).toBe(0)
  await untilHolds(async () => expect(await status()).toBe(401))
  platform.kill('SIGTERM')
  await platform.ended
  const listed = await startVedette(['keys', 'list'], own).ended
  expect(listed).toMatchObject({ code: 0, stderr: '' })
  expect(listed.stdout).toMatch(new RegExp(`${id} .* revoked `))
})

test.each([
  [['keys']],
  [['keys', 'frobnicate']],
  [['keys', 'create', '--name', 'x']],
  [['keys', 'create', '--role', 'Admin']],
  [['keys', 'revoke']],
  [['keys', 'list', 'surplus']],
])('%j is refused with what is missing', async (args) => {
  const ended = await startVedette(args, {}).ended
  expect(ended).toMatchObject({ code: 2, stdout: '' })
  expect(ended.stderr).toMatch(/^vedette keys: .*\n/)
})
