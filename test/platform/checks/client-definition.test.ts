// Aim: definitions are taken as clients of the public API send them, but for unknown keys.
import { beforeAll, expect, test } from 'vitest'
import { DEFINITIONS } from '../../../src/monitors/definitions.ts'
import { clientCheck } from '../../../src/platform/checks/client-definition.ts'
import { addSuiteBundle } from '../../support/platform/bundles.ts'
import { makeLocation } from '../../support/platform/named-locations.ts'
import { type Loose, UNLIMITED, usePublicApi } from '../../support/platform/public-api.ts'
import { SDK_CHECKS, SDK_GROUPS, SDK_HEARTBEAT } from '../../support/platform/sdk-bodies.ts'
import { createCipher } from '../../../src/platform/secrets/cipher.ts'

const cipher = createCipher('a secret of these tests')
/** Fields that no stored definition contains in these tests, at any place. */
const FOREIGN =
  /"(createdAt|updatedAt|sslCheck|heartbeat|sslCertificates|edit|order|arrayIndex|arraySelector)":/

const { database, client } = usePublicApi({ cipher, defaultLimit: UNLIMITED })
beforeAll(async () => {
  await addSuiteBundle(database().database, client.accountId)
  await makeLocation(client, 'north')
})

const answered = async (status: number, method: string, path: string, body?: object) => {
  const answer = await client.call(method, path, body === undefined ? {} : { body })
  expect([path, answer.status, answer.text]).toEqual([path, status, answer.text])
  return answer.body
}

const QUERY = '?autoAssignAlerts=false'

test.each(SDK_CHECKS)('a check of type %s is made, read, replaced, deleted', async (part, own) => {
  const body: Loose = { ...own, name: part, privateLocations: ['north'] }
  const made = await answered(201, 'POST', `/v1/checks/${part}${QUERY}`, body)
  expect(made).toMatchObject({ name: part, tags: [], environmentVariables: [] })
  expect(JSON.stringify(made)).not.toMatch(FOREIGN)
  const path = `/v1/checks/${made.id}`
  expect(await answered(200, 'GET', path)).toEqual(made)
  const changed = { ...body, name: 'Other', id: made.id }
  for (const one of [`/v1/checks/${part}/${made.id}`, path]) {
    const put = await answered(200, 'PUT', `${one}${QUERY}`, changed)
    expect(put).toEqual({ ...made, name: 'Other', updated_at: put.updated_at })
  }
  await answered(204, 'DELETE', path)
})

test.each(SDK_GROUPS)('a group of %s is made, read, replaced and deleted', async (version, own) => {
  const body = { ...own, name: version }
  const groups = `/${version}/check-groups`
  const made = await answered(201, 'POST', `${groups}${QUERY}`, body)
  const { retryStrategy } = own
  expect(made).toMatchObject({ name: version, tags: [], environmentVariables: [], retryStrategy })
  expect(JSON.stringify(made)).not.toMatch(FOREIGN)
  const path = `${groups}/${made.id}`
  const put = await answered(200, 'PUT', `${path}${QUERY}`, { ...body, muted: true })
  expect(put).toEqual({ ...made, muted: true, updated_at: put.updated_at })
  for (const other of ['v1', 'v2']) {
    expect(await answered(200, 'GET', `/${other}/check-groups/${made.id}`)).toEqual(put)
    expect(await answered(200, 'GET', `/${other}/check-groups?limit=100`)).toContainEqual(put)
  }
  const { message } = await answered(400, 'PATCH', path, { runParalel: true })
  expect(message).toContain('runParalel: unknown key; did you mean runParallel?')
  await answered(204, 'DELETE', path)
})

/** Other resources as SDKs send them: path, body, and the key to read them by. */
const cards = [{ name: 'All', services: [{ id: 'SERVICE', name: '' }] }]
const config = { name: 'On call', url: 'https://hooks.example.com/v', method: 'POST' }
const times = { created_at: '', updated_at: '' }
const RESOURCES: [path: string, body: Loose, key: string][] = [
  ['/v1/status-pages/services', { name: 'Shop' }, 'id'],
  ['/v1/status-pages', { name: 'Main', url: 'sdk-main', defaultTheme: 'AUTO', cards }, 'id'],
  ['/v1/alert-channels', { id: 0, type: 'WEBHOOK', config, sslExpiry: false }, 'id'],
  ['/v1/variables', { key: 'SDK', value: 'x', locked: false, secret: false }, 'key'],
  ['/v1/private-locations', { id: '', name: 'East', slugName: 'sdk-east', ...times }, 'id'],
]

test.each(RESOURCES)('%s is made, read, replaced and deleted', async (path, own, key) => {
  const service = await answered(201, 'POST', '/v1/status-pages/services', { name: 'Pay' })
  const body = JSON.parse(JSON.stringify(own).replace('SERVICE', service.id)) as object
  const made = await answered(201, 'POST', path, body)
  const one = `${path}/${made[key]}`
  expect(await answered(200, 'GET', one)).toMatchObject({ [key]: made[key] })
  await answered(200, 'PUT', one, body)
  await answered(204, 'DELETE', one)
  const known = ['name', 'type', 'key'].find((field) => field in body) ?? ''
  const { message } = await answered(400, 'POST', path, { ...body, [`${known}e`]: 1 })
  expect(message).toBe(`${known}e: unknown key; did you mean ${known}?`)
})

const request = { hostname: 'example.org', port: 1 }

test.each([
  ['environmentVariable', { environmentVariable: [] }, 'environmentVariables'],
  ['request.hostnam', { request: { ...request, hostnam: '' } }, 'hostname'],
  ['alertSettings.reminder', { alertSettings: { reminder: null } }, 'reminders'],
])('an unknown key is refused: %s', async (key, fields, meant) => {
  const body = { name: 'x', privateLocations: ['north'], request, ...fields }
  const { message } = await answered(400, 'POST', '/v1/checks/tcp', body)
  expect(message).toContain(`${key}: unknown key; did you mean ${meant}?`)
})

test('a channel of another type is refused with what to use instead', async () => {
  const body = { type: 'EMAIL', config: { address: 'a@example.org' } }
  const { message } = await answered(400, 'POST', '/v1/alert-channels', body)
  expect(message).toMatch(/WEBHOOK.*webhook/)
})

test('a limit of 0 counts as unset, and null as an empty list', async () => {
  const body = { name: 'x', privateLocations: ['north'], request, maxResponseTime: 0, tags: ['a'] }
  const made = await answered(201, 'POST', '/v1/checks/tcp', { ...body, alertChannels: null })
  expect(made).toMatchObject({ maxResponseTime: 5000, tags: ['a'] })
  const change = { tags: null, script: '', sslCheck: true }
  expect(await answered(200, 'PATCH', `/v1/checks/${made.id}`, change)).toMatchObject({ tags: [] })
})

test('a group has defaults of API checks, whether it sets any or not', async () => {
  const { id, apiCheckDefaults } = await answered(201, 'POST', '/v2/check-groups', { name: 'x' })
  expect(apiCheckDefaults).toEqual({ url: '', headers: [], queryParameters: [], assertions: [] })
  const stored = await answered(200, 'GET', `/v1/check-groups/${id}`)
  const put = await answered(200, 'PUT', `/v1/check-groups/${id}`, stored)
  expect(put).toEqual({ ...stored, updated_at: put.updated_at })
})

test('a heartbeat gets a ping token, and an empty one leaves it unchanged', async () => {
  const body = { ...SDK_HEARTBEAT, name: 'nightly' }
  const before = await answered(201, 'POST', '/v1/checks/heartbeat', body)
  expect(before.heartbeat.pingToken).toMatch(/^[0-9a-f-]{36}$/)
  const path = `/v1/checks/${before.id}`
  expect((await answered(200, 'PUT', path, body)).heartbeat).toEqual(before.heartbeat)
})

test('fields of the type itself and unknown ones stay unchanged, in any form', () => {
  const schema = DEFINITIONS.get('TCP')?.schema
  if (schema === undefined) throw new Error('there is no schema')
  const odd = [
    { request: null },
    { request: [[1], { query: '', colour: 1 }] },
    { request: { assertions: [null, 'x', { edit: 1, odd: 1 }] } },
    JSON.parse('{"__proto__": {"request": 1}, "alertSettings": "sslCertificates"}'),
  ]
  expect(odd.map((one) => clientCheck(one, schema))).toEqual([
    { request: null },
    { request: [[1], { colour: 1 }] },
    { request: { assertions: [null, 'x', { odd: 1 }] } },
    odd[3],
  ])
})
