// Aim: a client that pages with `limit` and `page` reads in Content-Range where it is and how much there is.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { makeLocation } from '../support/named-locations.ts'
import { addClient, startPublicApi, type ApiClient, type PublicApi } from '../support/public-api.ts'

const database = useDatabase()
let api: PublicApi
let client: ApiClient

beforeAll(async () => {
  api = await startPublicApi(database().database)
  client = await addClient(api, database().database)
  await makeLocation(client, 'north')
  const privateLocations = ['north']
  for (let n = 0; n < 12; n++) {
    const [key, name, tags] = [`KEY_${n}`, `Shop ${n}`, [n % 2 === 0 ? 'even' : 'odd']]
    const url = `https://example.org/${n}`
    await add('/v1/checks/url', { name, tags, privateLocations, request: { url } })
    await add('/v1/alert-channels', { type: 'WEBHOOK', config: { name, url, method: 'POST' } })
    await add('/v1/check-groups', { name, privateLocations })
    await add('/v1/variables', { key, value: '1' })
  }
})
afterAll(() => api.close())

async function add(path: string, body: object) {
  const { status, text } = await client.call('POST', path, { body })
  expect([status, text]).toEqual([201, text])
}

describe.each(['/v1/checks', '/v1/alert-channels', '/v1/check-groups', '/v1/variables'])(
  '%s',
  (path) => {
    test.each([
      ['', '0-9/12', 10],
      ['?limit=5', '0-4/12', 5],
      ['?limit=5&page=3', '10-11/12', 2],
      ['?limit=5&page=4', '*/12', 0],
      ['?page=1000000&limit=100', '*/12', 0],
    ])('%s', async (query, range, length) => {
      const { headers, body } = await client.call('GET', `${path}${query}`)
      expect(headers.get('content-range')).toBe(range)
      expect(body).toHaveLength(length)
    })
  },
)

test('the total is that of the filtered checks', async () => {
  const { headers } = await client.call('GET', '/v1/checks?tag=odd&limit=2')
  expect(headers.get('content-range')).toBe('0-1/6')
})
