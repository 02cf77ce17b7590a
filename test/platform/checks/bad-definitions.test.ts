// Aim: any input as a definition, a location, a variable or a file gives a documented answer: never a 5xx, never a
// hang, and nothing of a refused request is stored.
import * as fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { bent, FAULT_OF_CLIENT, nasty } from '../../support/platform/bent-bodies.ts'
import { CHECK_BODIES } from '../../support/platform/check-bodies.ts'
import { useDatabase } from '../../support/database/database.ts'
import {
  addClient,
  startPublicApi,
  type ApiClient,
  type PublicApi,
} from '../../support/platform/public-api.ts'

const database = useDatabase()
let api: PublicApi
let client: ApiClient
const ids = { check: '', location: '', group: 0 }

const url = () => ({ name: 'x', privateLocations: ['here'], request: { url: 'https://x.org/' } })

beforeAll(async () => {
  api = await startPublicApi(database().database, { defaultLimit: { limit: 1e8, windowS: 60 } })
  client = await addClient(api, database().database)
  const post = async (path: string, body: object) =>
    (await client.call('POST', path, { body })).body
  ids.location = (await post('/v1/private-locations', { name: 'x', slugName: 'here' })).id
  ids.group = (await post('/v1/check-groups', { name: 'x' })).id
  ids.check = (await post('/v1/checks/url', { ...url(), groupId: ids.group })).id
  await post('/v1/variables', { key: 'KEY', value: 'x' })
})
afterAll(() => api.close())

const variable = { key: 'T', value: '{{T}}', locked: false, secret: true }
const group = () => ({
  name: 'x',
  tags: ['x'],
  privateLocations: ['here'],
  environmentVariables: [variable],
  apiCheckDefaults: { url: 'x', basicAuth: { username: 'x', password: 'x' } },
})
const file = () => ({
  name: 'x.yaml',
  prune: false,
  groups: [{ key: 'g', definition: group() }],
  monitors: [{ key: 'm', group: 'g', definition: { ...url(), checkType: 'URL' } }],
  variables: [variable],
  locations: ['here'],
})

/** An operation, and a body that it accepts. */
const BODIES: [string, string, () => string, () => Record<string, unknown>][] = [
  ...CHECK_BODIES.map(([part, own]): (typeof BODIES)[number] => [
    `a check of type ${part}`,
    'POST',
    () => `/v1/checks/${part}`,
    () => ({ ...url(), request: undefined, ...own, environmentVariables: [variable] }),
  ]),
  ['a check', 'PUT', () => `/v1/checks/url/${ids.check}`, url],
  ['part of a check', 'PATCH', () => `/v1/checks/${ids.check}`, url],
  ['a group', 'PUT', () => `/v1/check-groups/${ids.group}`, group],
  [
    'a location',
    'PUT',
    () => `/v1/private-locations/${ids.location}`,
    () => ({ name: 'x', icon: 'server', proxyUrl: 'http://u:p@proxy:3128' }),
  ],
  ['a variable', 'PUT', () => '/v1/variables/KEY', () => ({ value: 'x', secret: true })],
  ['a file', 'POST', () => '/v1/apply', file],
  ['a monitor of a file', 'POST', () => '/v1/apply', file],
]

test.each(BODIES)('%s by %s is answered as documented', async (what, method, path, good) => {
  const whole = await client.call(method, path(), { body: good() })
  expect([whole.status, whole.text]).toEqual([whole.status < 300 ? whole.status : 0, whole.text])
  const tx = what === 'a monitor of a file'
  const bodies = fc.constant(0).chain(() =>
    tx
      ? bent({ ...url(), checkType: 'URL' }).map((definition) => ({
          ...file(),
          monitors: [{ key: 'm', group: 'g', definition }],
        }))
      : bent(good()),
  )
  await fc.assert(
    fc.asyncProperty(fc.oneof({ weight: 5, arbitrary: bodies }, nasty), async (body) => {
      const { status } = await client.call(method, path(), { body: body ?? null })
      expect(FAULT_OF_CLIENT).toContain(status)
    }),
    { numRuns: 60 },
  )
})

test('queries are answered as documented', async () => {
  const paths = ['/v1/checks', '/v1/check-groups', '/v1/private-locations', '/v1/variables']
  const metrics = () => `/v1/private-locations/${ids.location}/metrics`
  const names = ['limit', 'page', 'tag', 'groupId', 'checkType', 'search', 'versions', 'from', 'to']
  const text = nasty.map((value) => (typeof value === 'string' ? value : JSON.stringify(value)))
  const pair = fc.tuple(fc.constantFrom(...names), fc.oneof(text, fc.nat().map(String)))
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...paths, 'metrics'),
      fc.array(pair, { maxLength: 4 }),
      async (path, pairs) => {
        const query = pairs.map(
          ([name, value]) => `${name}=${encodeURIComponent(value.toWellFormed())}`,
        )
        const at = path === 'metrics' ? metrics() : path
        const { status } = await client.call('GET', `${at}?${query.join('&')}`)
        expect([200, 400]).toContain(status)
      },
    ),
    { numRuns: 300 },
  )
})
