// Aim: an account is made with a key that opens it, and every account is listed.
import { expect, test } from 'vitest'
import { type AccountsRequest, runAccounts } from '../../src/platform/accounts-command.ts'
import { runKeys } from '../../src/platform/keys-command.ts'
import { DATABASE_SERVERS, useDatabase } from '../support/database/database.ts'
import { startPublicApi } from '../support/platform/public-api.ts'

const use = useDatabase(DATABASE_SERVERS[0])

function context() {
  const said = { out: '', err: '' }
  const stdout = { write: (text: string) => (said.out += text) }
  const stderr = { write: (text: string) => (said.err += text) }
  return { said, env: { DATABASE_URL: use().url }, stdout, stderr }
}

const accounts = async (request: AccountsRequest) => {
  const { said, ...rest } = context()
  return { exitCode: await runAccounts(request, rest), ...said }
}

test('a new account has a key that opens it alone', async () => {
  const first = await accounts({ action: 'create', name: ' Team A ' })
  const second = await accounts({ action: 'create', name: 'Team B' })
  const of = ({ out }: { out: string }, name: string) =>
    new RegExp(`^ {2}${name} +(\\S+)`, 'm').exec(out)?.[1] ?? ''
  const api = await startPublicApi(use().database)
  const Authorization = `Bearer ${of(first, 'key')}`
  for (const [account, status] of [
    [first, 200],
    [second, 403],
  ] as const) {
    const headers = { Authorization, 'X-Service-Account': of(account, 'account') }
    expect((await fetch(`${api.url}/v1/checks`, { headers })).status).toBe(status)
  }
  await api.close()
  const { out } = await accounts({ action: 'list' })
  expect(out.trim().split('\n')).toHaveLength(3)
  expect(out).toMatch(new RegExp(`^${of(first, 'account')} +Team A `, 'm'))
  const keys = context()
  await runKeys({ action: 'list' }, keys)
  expect(keys.said.out).toContain(of(second, 'account'))
})

test.each<AccountsRequest>([
  { action: undefined },
  { action: 'delete' },
  { action: 'create', name: ' ' },
  { action: 'create', name: 'x'.repeat(256) },
])('%o is refused', async (request) => {
  expect(await accounts(request)).toMatchObject({ exitCode: 2, out: '' })
})
