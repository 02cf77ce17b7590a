// Aim: who may do what: 401 without a valid key and account, 403 for another's account or role, and revocation.
import { describe, expect, test } from 'vitest'
import { ROLES, type Role } from '../../../src/contract/api/account.ts'
import { revokeApiKey } from '../../../src/platform/accounts/queries/api-keys.ts'
import { addAccount, addClient, usePublicApi } from '../../support/platform/public-api.ts'

const INCIDENTS = '/v1/status-pages/incidents'
const { database, api, client } = usePublicApi()

type Headers = Record<string, string | null>
const key = (authorization: string | null): Headers => ({ authorization })
const account = (own: string | null, checkly?: string): Headers => ({
  'x-service-account': own,
  ...(checkly !== undefined && { 'x-checkly-account': checkly }),
})

const refused: [string, () => Headers][] = [
  ['without a key', () => key(null)],
  ['without an account', () => account(null)],
  ['with an unknown key', () => key('Bearer nobody')],
  ['with another scheme', () => key(`Basic ${client.secret}`)],
  ['with an empty key', () => key('Bearer ')],
  ['with two keys', () => key(`Bearer ${client.secret} ${client.secret}`)],
  ['with a very long key', () => key(`Bearer ${'x'.repeat(5000)}`)],
  ['with a key cut short', () => key(`Bearer ${client.secret.slice(0, -1)}`)],
  ['with an account that is no GUID', () => account(`${client.accountId} or 1=1`)],
  ['with accounts that differ', () => account(client.accountId, client.keyId)],
]
test.each(refused)('401 %s', async (_sentence, headersOf) => {
  const { status, body, headers } = await client.call('GET', INCIDENTS, { headers: headersOf() })
  expect(status).toBe(401)
  const { message } = body
  const attributes = { error: message }
  expect(body).toEqual({ statusCode: 401, error: 'Unauthorized', message, attributes })
  expect(headers.get('www-authenticate')).toBe(`Bearer error="${message as string}"`)
})

const accepted: [string, () => Headers][] = [
  ['with the scheme in other letters', () => key(`bEARER ${client.secret}`)],
  ['with the account in capitals', () => account(client.accountId.toUpperCase())],
  ['with the other spelling of the header', () => account(null, client.accountId)],
  ['with both that agree', () => account(client.accountId, client.accountId.toUpperCase())],
]
test.each(accepted)('200 %s', async (_sentence, headersOf) => {
  expect((await client.call('GET', INCIDENTS, { headers: headersOf() })).status).toBe(200)
})

describe('403', () => {
  test.each(['existing', 'unknown'])('for an account that is not the key’s: %s', async (kind) => {
    const other = kind === 'existing' ? await addAccount(database().database) : client.keyId
    const { status, body } = await client.call('GET', INCIDENTS, { headers: account(other) })
    expect(status).toBe(403)
    expect(body).not.toHaveProperty('attributes')
  })

  const writes: ReadonlySet<Role> = new Set(['Admin', 'Read & Write'])
  test.each(ROLES)('for what the role does not allow: %s', async (role) => {
    const { accountId } = client
    const own = await addClient(api, database().database, { accountId, role })
    const service = '/v1/status-pages/services'
    const body = { name: 'x' }
    const answers = await Promise.all([
      own.call('GET', INCIDENTS),
      own.call('POST', service, { body }),
      own.call('PUT', `${service}/${client.keyId}`, { body }),
      own.call('DELETE', `${service}/${client.keyId}`),
      own.call('PATCH', `${INCIDENTS}/${client.keyId}`, { body: {} }),
    ])
    const expected = writes.has(role) ? [200, 201, 404, 404, 404] : [200, 403, 403, 403, 403]
    expect(answers.map(({ status }) => status)).toEqual(expected)
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
    const headers = { ...key(null), ...account(null) }
    const paths = ['', '/incidentsx', '/checks/nothing', '//incidents'].map((end) => `/v1${end}`)
    for (const path of [...paths, '/v2/status-pages', `${INCIDENTS}/not-a-guid`]) {
      const { status, body } = await client.call('GET', path, { headers })
      expect([path, status, body.error]).toEqual([path, 404, 'Not Found'])
    }
  })

  test.each([
    [INCIDENTS, 'GET, HEAD, POST'],
    ['/v1/checks', 'GET, HEAD'],
    ['/v1/runtimes', 'GET, HEAD'],
  ])('another method on %s is 405, and the answer has those that exist', async (path, allow) => {
    const wrong = await client.call('PUT', path)
    expect([wrong.status, wrong.headers.get('allow')]).toEqual([405, allow])
  })

  test('a key can read its account, and no other', async () => {
    const { accountId } = client
    const { body } = await client.call('GET', `/next/accounts/${accountId}`)
    expect(body).toMatchObject({ id: accountId, name: 'Acme', runtimeId: '2026.04' })
    expect((await client.call('GET', '/v1/accounts/me')).body).toEqual(body)
    expect((await client.call('GET', `/next/accounts/${client.keyId}`)).status).toBe(404)
    const user = { id: client.keyId, role: 'Admin' }
    expect((await client.call('GET', '/next/users/me')).body).toMatchObject(user)
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
