// Aim: a file that is applied is what the platform then has, through its real API and database: created
// once, compared by what it says, pruned, refused with its line.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runApply } from '../../src/client/apply.ts'
import { DATABASE_SERVERS, useDatabase } from '../support/database/database.ts'
import {
  addClient,
  startPublicApi,
  type ApiClient,
  type PublicApi,
} from '../support/platform/public-api.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const SECRET = 'hush-hush-token'
const FILE = `location: berlin
variables: { BASE: 'https://shop.test' }
secrets: [API_TOKEN]
groups:
  shop: { tags: [shop], environmentVariables: [{ key: PART, value: /orders }] }
monitors:
  - name: Orders
    type: API
    group: shop
    request:
      method: GET
      url: '{{BASE}}{{PART}}'
      headers: [{ key: Authorization, value: 'Bearer {{API_TOKEN}}' }]
  - name: Name server
    type: DNS
    request: { query: shop.test, recordType: A }
`

describe.each(DATABASE_SERVERS.slice(0, 1))('on $name', (server) => {
  const database = useDatabase(server)
  let api: PublicApi
  let client: ApiClient
  let file: string

  beforeAll(async () => {
    api = await startPublicApi(database().database, { defaultLimit: { limit: 1e8, windowS: 60 } })
    client = await addClient(api, database().database)
    const body = { name: 'Berlin', slugName: 'berlin' }
    await client.call('POST', '/v1/private-locations', { body })
    file = join(temporaryFolder(), 'monitors.yaml')
  })
  afterAll(() => api.close())

  async function apply(text: string, prune = false) {
    writeFileSync(file, text)
    let [out, err] = ['', '']
    const code = await runApply(
      { path: file, name: undefined, prune, planOnly: false },
      {
        env: {
          PLATFORM_URL: api.url,
          ACCOUNT_ID: client.accountId,
          VEDETTE_API_KEY: client.secret,
          API_TOKEN: SECRET,
        },
        write: (chunk) => (out += chunk),
        complain: (chunk) => (err += chunk),
        colour: false,
        signal: new AbortController().signal,
      },
    )
    return { code, out, err, lines: out.trimEnd().split('\n') }
  }

  test('it is created, then the same, then changed, then pruned', async () => {
    expect(await apply(FILE)).toMatchObject({ code: 0, err: '' })
    const { body } = await client.call('GET', '/v1/checks')
    expect(body.map((one: { name: string }) => one.name).toSorted()).toEqual([
      'Name server',
      'Orders',
    ])
    expect(await apply(FILE)).toMatchObject({ code: 0, out: '5 unchanged\n', err: '' })

    const changed = FILE.replace('recordType: A ', 'recordType: AAAA ').replace(
      'shop.test',
      'b.test',
    )
    const { code, lines } = await apply(changed)
    expect(code).toBe(0)
    expect(lines.slice(0, 3)).toEqual([
      '  ~ monitor   name-server (Name server): request.recordType',
      '  ~ variable  BASE: value',
      '2 to update, 3 unchanged',
    ])

    const shorter = FILE.slice(0, FILE.indexOf('  - name: Name server'))
    const pruned = await apply(shorter, true)
    expect(pruned.lines).toContain('  - monitor   name-server (Name server)')
    expect((await client.call('GET', '/v1/checks')).body).toHaveLength(1)
  })

  test('a problem that only it finds is reported with the line, and nothing is changed', async () => {
    const before = (await client.call('GET', '/v1/checks')).text
    const { code, err } = await apply(
      FILE.replace('type: DNS', 'type: DNS\n    privateLocations: [x]'),
    )
    expect(code).toBe(2)
    expect(err).toMatch(/monitors\.yaml:1\d:\d+ {2}monitors\[1\].*there is no private location "x"/)
    expect(err).not.toContain(SECRET)
    expect((await client.call('GET', '/v1/checks')).text).toBe(before)
  })
})
