// Aim: who may do what. 401 for a key or account header that is missing, malformed or unknown, 403 for
// another's account and for a role that does not allow the action, and revocation within moments.
import { describe, expect, test } from 'vitest'
import { ROLES, type Role } from '../../../src/contract/api/account.ts'
import { revokeApiKey } from '../../../src/platform/accounts/queries/api-keys.ts'
import { addAccount, addClient, usePublicApi } from '../../support/platform/public-api.ts'

const INCIDENTS = '/v1/status-pages/incidents'
const { database, api, client } = usePublicApi()

type Headers = Record<string, string | null>

describe('401', () => {
  const account = () => client.accountId
  const rows: [string, () => Headers][] = [
    ['without a key', () => ({ authorization: null })],
    ['without an account', () => ({ 'x-service-account': null })],
    ['with an unknown key', () => ({ authorization: 'Bearer nobody' })],
    ['with another scheme', () => ({ authorization: `Basic ${client.secret}` })],
    ['with an empty key', () => ({ authorization: 'Bearer ' })],
    ['with two keys', () => ({ authorization: `Bearer ${client.secret} ${client.secret}` })],
    ['with a very long key', () => ({ authorization: `Bearer ${'x'.repeat(5000)}` })],
    ['with a key cut short', () => ({ authorization: `Bearer ${client.secret.slice(0, -1)}` })],
    ['with an account that is no GUID', () => ({ 'x-service-account': 'acme' })],
    ['with an account and something more', () => ({ 'x-service-account': `${account()} or 1=1` })],
    ['with accounts that differ', () => ({ 'x-checkly-account': client.keyId })],
  ]
  test.each(rows)('%s', async (_sentence, headers) => {
    const answer = await client.call<Record<string, unknown>>('GET', INCIDENTS, {
      headers: headers(),
    })
    expect(answer.status).toBe(401)
    const { message } = answer.body
    expect(answer.body).toEqual({
      statusCode: 401,
      error: 'Unauthorized',
      message: expect.any(String),
      attributes: { error: message },
    })
    expect(answer.headers.get('www-authenticate')).toBe(`Bearer error="${message as string}"`)
  })
})

describe('200', () => {
  const rows: [string, () => Headers][] = [
    ['with the scheme in other letters', () => ({ authorization: `bEARER ${client.secret}` })],
    [
      'with the account in capitals',
      () => ({ 'x-service-account': client.accountId.toUpperCase() }),
    ],
    [
      'with the other spelling of the account header',
      () => ({ 'x-service-account': null, 'x-checkly-account': client.accountId }),
    ],
    [
      'with both spellings that agree',
      () => ({ 'x-checkly-account': client.accountId.toUpperCase() }),
    ],
  ]
  test.each(rows)('%s', async (_sentence, headers) => {
    expect((await client.call('GET', INCIDENTS, { headers: headers() })).status).toBe(200)
  })
})

describe('403', () => {
  test.each(['existing', 'unknown'])('for an account that is not the key’s: %s', async (kind) => {
    const other = kind === 'existing' ? await addAccount(database().database) : client.keyId
    const { status, body } = await client.call<object>('GET', INCIDENTS, {
      headers: { 'x-service-account': other },
    })
    expect(status).toBe(403)
    expect(body).not.toHaveProperty('attributes')
  })

  const writes: ReadonlySet<Role> = new Set(['Admin', 'Read & Write'])
  test.each(ROLES)('for what the role does not allow: %s', async (role) => {
    const { accountId } = client
    const own = await addClient(api, database().database, { accountId, role })
    const may = writes.has(role)
    const service = '/v1/status-pages/services'
    expect((await own.call('GET', INCIDENTS)).status).toBe(200)
    expect((await own.call('POST', service, { body: { name: 'x' } })).status).toBe(may ? 201 : 403)
    const nothing = `${service}/${client.keyId}`
    expect((await own.call('PUT', nothing, { body: { name: 'x' } })).status).toBe(may ? 404 : 403)
    expect((await own.call('DELETE', nothing)).status).toBe(may ? 404 : 403)
    const patch = `${INCIDENTS}/${client.keyId}`
    expect((await own.call('PATCH', patch, { body: {} })).status).toBe(may ? 404 : 403)
  })
})

describe('keys', () => {
  test('a revoked key is refused when the app is notified, although it was cached', async () => {
    const own = await addClient(api, database().database)
    expect((await own.call('GET', INCIDENTS)).status).toBe(200)
    await revokeApiKey(database().database, own.keyId)
    api.app.forgetKeys()
    expect((await own.call('GET', INCIDENTS)).status).toBe(401)
  })

  test('an unknown route is 404 for everybody', async () => {
    const headers = { authorization: null, 'x-service-account': null }
    for (const path of ['/v1', '/v2/status-pages', `${INCIDENTS}/not-a-guid`, '/v1//incidents']) {
      const { status, body } = await client.call('GET', path, { headers })
      expect([path, status, body.error]).toEqual([path, 404, 'Not Found'])
    }
    const wrong = await client.call('PUT', INCIDENTS)
    expect([wrong.status, wrong.headers.get('allow')]).toEqual([405, 'GET, HEAD, POST'])
  })

  test('a key can read its account, and no other', async () => {
    const { accountId } = client
    const account = await client.call('GET', `/next/accounts/${accountId}`)
    expect(account.body).toMatchObject({ id: accountId, name: 'Acme', runtimeId: '2026.04' })
    expect((await client.call('GET', '/v1/accounts/me')).body).toEqual(account.body)
    expect((await client.call('GET', `/next/accounts/${client.keyId}`)).status).toBe(404)
    expect((await client.call('GET', '/next/users/me')).body).toMatchObject({
      id: client.keyId,
      role: 'Admin',
    })
  })

  test('runtimes say which agents have them, and how others get them', async () => {
    const { body } = await client.call('GET', '/v1/runtimes')
    const old = (name: string, before: string) => ({
      name,
      stage: 'DEPRECATED',
      default: false,
      description: expect.stringMatching(`agents before ${before};.* runtime install ${name}$`),
    })
    expect(body).toMatchObject([
      { name: '2026.04', stage: 'CURRENT', nodeJsVersion: '24.13.1', default: true },
      { ...old('2025.04', '8.0.0'), nodeJsVersion: '22.11.0' },
      { ...old('2024.09', '7.0.0'), nodeJsVersion: '18.20.3' },
    ])
  })
})
