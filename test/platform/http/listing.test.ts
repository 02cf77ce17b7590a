// Aim: a client that pages with `limit` and `page` reads in Content-Range where it is and how much there is.
import { beforeAll, describe, expect, test } from 'vitest'
import { makeLocation } from '../../support/platform/named-locations.ts'
import { usePublicApi } from '../../support/platform/public-api.ts'

const { client } = usePublicApi()

beforeAll(async () => {
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

async function add(path: string, body: object) {
  const { status, text } = await client.call('POST', path, { body })
  expect([status, text]).toEqual([201, text])
}

describe.each(['checks', 'alert-channels', 'check-groups', 'variables'])('/v1/%s', (path) => {
  test.each([
    ['', '0-9/12', 10],
    ['?limit=5', '0-4/12', 5],
    ['?limit=5&page=3', '10-11/12', 2],
    ['?page=1000000&limit=100', '*/12', 0],
  ])('%s', async (query, range, length) => {
    const { headers, body } = await client.call('GET', `/v1/${path}${query}`)
    expect(headers.get('content-range')).toBe(range)
    expect(body).toHaveLength(length)
  })
})

test.each([
  ['checks?tag=odd', 6],
  ['checks?tag[]=odd&limit=2', 6],
  ['checks?tag%5B%5D=odd&tag%5B%5D=even', 12],
  ['checks?tag=odd&tag=even&search=Shop%201', 3],
  ['checks?tag=none', 0],
  ['checks?status=failing', 0],
  ['check-groups?name=Shop%201&name=Shop%202', 2],
  ['check-groups?name[]=Shop', 0],
])('%s has the total of what passes the filter', async (query, total) => {
  const { status, headers } = await client.call('GET', `/v1/${query}`)
  expect(status).toBe(200)
  expect(headers.get('content-range')).toMatch(new RegExp(`/${total}$`))
})

test.each([
  ['GET', 'checks?tags=odd', 'tag'],
  ['GET', 'checks?stauts=passing', 'status'],
  ['GET', 'checks?limit[]=1', 'limit'],
  ['GET', 'checks?apiCheckUrlFilterPattern=x', 'search'],
  ['GET', 'checks?status=unknown', 'passing'],
  ['GET', 'check-statuses?limit=1', 'limit'],
  ['POST', 'variables?dryRun=true', 'dryRun'],
])('%s %s is refused', async (method, path, named) => {
  const body = method === 'POST' ? { body: { key: 'K', value: '1' } } : {}
  const answer = await client.call(method, `/v1/${path}`, body)
  expect(answer.status).toBe(400)
  expect(answer.body.message).toContain(named)
})
