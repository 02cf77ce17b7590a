// Aim: `vedette apply` brings a file onto a platform, through its real API and database: a second time nothing
// changes; what differs is shown without a value; a problem is reported with its line.
import type { ServerResponse } from 'node:http'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { applyFile, type ApplyOptions, applySettings } from '../support/client/apply-command.ts'
import { useDatabase } from '../support/database/database.ts'
import { startConnectProxy } from '../support/network/connect-proxy.ts'
import { startVedette } from '../support/platform/platform-process.ts'
import {
  addClient,
  startPublicApi,
  type ApiClient,
  type PublicApi,
} from '../support/platform/public-api.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { startHttpServer } from '../support/test-server.ts'

const FILE = `location: berlin
variables:
  BASE: https://shop.test
secrets: [API_TOKEN]
groups:
  shop:
    name: Shop
    tags: [shop]
    environmentVariables: [{ key: PATH_OF_SHOP, value: /orders }]
    apiCheckDefaults:
      assertions: [RESPONSE_TIME LESS_THAN 500]
monitors:
  - id: orders
    name: Orders
    type: API
    group: shop
    every: 30s
    request:
      method: GET
      url: '{{BASE}}{{PATH_OF_SHOP}}'
      headers: [{ key: Authorization, value: 'Bearer {{API_TOKEN}}' }]
  - name: Name server
    type: DNS
    privateLocations: [munich]
    request: { query: shop.test, recordType: A, assertions: [RESPONSE_CODE EQUALS NOERROR] }
`
const SECRET = 'hush-hush-token'

const database = useDatabase()
let api: PublicApi
let client: ApiClient
let file: string
let settings: Record<string, string>

beforeAll(async () => {
  api = await startPublicApi(database().database, { defaultLimit: { limit: 1e8, windowS: 60 } })
})
afterAll(() => api.close())
beforeEach(async () => {
  client = await addClient(api, database().database)
  for (const name of ['berlin', 'munich']) {
    await client.call('POST', '/v1/private-locations', { body: { name, slugName: name } })
  }
  settings = { ...applySettings(api, client), API_TOKEN: SECRET }
  file = join(temporaryFolder(), 'monitors.yaml')
  writeFileSync(file, FILE)
})

const apply = (options?: ApplyOptions, env: Record<string, string> = {}) =>
  applyFile(file, { ...settings, ...env }, options)
const edit = (from: string, to: string) =>
  writeFileSync(file, readFileSync(file, 'utf8').replace(from, to))
const stored = async (path: string) => (await client.call('GET', path)).body
const checks = () => stored('/v1/checks') as Promise<Record<string, unknown>[]>

describe('a good file', () => {
  test('is created at first and unchanged the second time', async () => {
    expect(await apply()).toMatchObject({
      code: 0,
      err: '',
      lines: [
        '  + group     shop (Shop)',
        '  + monitor   orders (Orders)',
        '  + monitor   name-server (Name server)',
        '  + variable  BASE',
        '  + variable  API_TOKEN',
        '5 to create',
        'applied',
      ],
    })
    expect(await apply()).toMatchObject({ code: 0, out: '5 unchanged\n', err: '' })
    // Its own, as written: what the group and the variables add is added when it runs.
    expect(await checks()).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          checkType: 'API',
          frequency: 0,
          frequencyOffset: 30,
          tags: [],
          privateLocations: ['berlin'],
          request: expect.objectContaining({ url: '{{BASE}}{{PATH_OF_SHOP}}' }) as object,
        }),
        expect.objectContaining({ checkType: 'DNS', privateLocations: ['munich'] }),
      ]),
    )
    expect(await stored('/v1/check-groups')).toMatchObject([
      { apiCheckDefaults: { assertions: [{ source: 'RESPONSE_TIME', target: '500' }] } },
    ])
    const variables = await stored('/v1/variables')
    expect(variables).toContainEqual(expect.objectContaining({ key: 'BASE', secret: false }))
    expect(variables).toContainEqual(expect.objectContaining({ key: 'API_TOKEN', secret: true }))
  })

  test('may have heartbeats, which get an address to ping', async () => {
    const heartbeat = '{ period: 5, periodUnit: minutes, grace: 1, graceUnit: minutes }'
    writeFileSync(
      file,
      `monitors:\n  - { id: beat, name: Nightly, type: HEARTBEAT, heartbeat: ${heartbeat} }\n`,
    )
    expect(await apply()).toMatchObject({ code: 0, err: '' })
    const pingToken = expect.stringMatching(/^[0-9a-f-]{36}$/) as string
    expect(await checks()).toMatchObject([{ checkType: 'HEARTBEAT', heartbeat: { pingToken } }])
    expect(await apply()).toMatchObject({ code: 0, out: '1 unchanged\n' })
  })

  test('is compared: what differs is named, values are not', async () => {
    await apply()
    edit('every: 30s', 'every: 1m')
    edit('https://shop.test', 'https://store.test')
    const { lines, out } = await apply({}, { API_TOKEN: 'another-token' })
    expect(lines).toEqual([
      '  ~ monitor   orders (Orders): frequency, frequencyOffset',
      '  ~ variable  BASE: value',
      '  ~ variable  API_TOKEN: value',
      '3 to update, 2 unchanged',
      'applied',
    ])
    expect(out).not.toContain('token')
  })

  test('with --plan changes nothing and says by its exit code whether there is something', async () => {
    for (const attempt of [1, 2]) {
      const { code, lines } = await apply({ planOnly: true })
      expect([attempt, code, lines.at(-1)]).toEqual([attempt, 1, '5 to create'])
    }
    await apply()
    expect(await apply({ planOnly: true })).toMatchObject({ code: 0, out: '5 unchanged\n' })
  })

  test('loses nothing on the platform without --prune, and removed monitors with it', async () => {
    await apply()
    edit(FILE.slice(FILE.indexOf('  - name: Name server')), '')
    expect((await apply()).out).toBe('4 unchanged\n')
    const removed = '  - monitor  name-server (Name server)'
    const { lines } = await apply({ prune: true })
    expect(lines).toEqual([removed, '1 to delete, 4 unchanged', 'applied'])
    expect(await checks()).toHaveLength(1)
  })

  test('of another name is another file', async () => {
    writeFileSync(
      file,
      'location: berlin\nmonitors:\n  - { name: A, type: BROWSER, script: "1" }\n',
    )
    await apply()
    expect((await apply({ name: 'other', prune: true })).lines).toContain('1 to create')
    expect(await checks()).toHaveLength(2)
  })

  test('may use variables that only the platform knows, with a warning that has the line', async () => {
    await client.call('POST', '/v1/variables', {
      body: { key: 'ELSEWHERE', value: 'http://a.test' },
    })
    edit('{{BASE}}', '{{ELSEWHERE}}')
    const { code, err } = await apply()
    expect(code).toBe(0)
    expect(err).toMatch(/^warning: .*monitors\.yaml:20:12 .*ELSEWHERE is not defined/)
  })
})

describe('types of monitors', () => {
  test('all that a private location runs', async () => {
    const network = (type: string, request: string) => `type: ${type}\n    request: { ${request} }`
    const all = [
      network('URL', 'url: "https://a.test/"'),
      network('API', 'url: "https://a.test/", method: GET'),
      network('TCP', 'hostname: a.test, port: 22'),
      network('DNS', 'query: a.test, recordType: MX'),
      network('ICMP', 'hostname: a.test'),
      network('GRPC', 'url: a.test, port: 443, grpcConfig: { mode: HEALTH }'),
      network('TRACEROUTE', 'url: a.test'),
      network('SSL', 'sslConfig: { hostname: a.test }'),
      'type: BROWSER\n    script: "1"',
      'type: MULTI_STEP\n    script: "1"',
    ]
    const monitors = all.map((lines, at) => `  - name: M${at}\n    ${lines}\n`).join('')
    writeFileSync(file, `location: berlin\nmonitors:\n${monitors}`)
    expect(await apply()).toMatchObject({ code: 0, err: '' })
    expect(await checks()).toHaveLength(all.length)
  })
})

describe('a problem of a file is reported with its place, and nothing is changed', () => {
  const noLocation = /:24:23 {2}monitors\[1\]\.privateLocations: .*"nowhere"/
  test.each([
    ['an unknown group', 'group: shop', 'group: shpo', /:16:12 .*did you mean shop\?/],
    ['an unknown field of a group', 'tags: [shop]', 'tag: [shop]', /:8:5 .*did you mean tags\?/],
    ['a bad field of a group', 'tags: [shop]', 'concurrency: 0', /:8:18 .*concurrency/],
    ['a bad line in a group', 'LESS_THAN 5', 'LESS_THN 5', /:11:\d+ .*did you mean LESS_THAN\?/],
    ['a bad record type', 'recordType: A,', 'recordType: Q,', /:25:46 .*must be one of A, AAAA/],
    ['a type that is none', 'type: DNS', 'type: DSN', /:23:11 .*did you mean DNS\?/],
    ['a type that runs elsewhere', 'type: DNS', 'type: AGENTIC', /:23:11 .*AGENTIC/],
    ['a secret without a value', '[API_TOKEN]', '[OTHER]', /:4:\d+ .*OTHER has no value/],
    ['what only the platform knows', '[munich]', '[nowhere]', noLocation],
  ])('%s', async (_, from, to, expected) => {
    edit(from, to)
    const { code, err, out } = await apply()
    expect(err).toMatch(expected)
    expect(err).toMatch(/nothing was changed\n$/)
    expect([code, out]).toEqual([2, ''])
    expect(err).not.toContain(SECRET)
    expect(await checks()).toEqual([])
  })
})

describe('settings', () => {
  test.each([
    ['no account', { ACCOUNT_ID: '' }, 'ACCOUNT_ID is not set'],
    ['an account that is no UUID', { ACCOUNT_ID: 'me' }, 'ACCOUNT_ID is "me"'],
    ['no key', { VEDETTE_API_KEY: '' }, 'VEDETTE_API_KEY is not set'],
    ['a key with a blank', { VEDETTE_API_KEY: 'bad key' }, 'VEDETTE_API_KEY'],
    ['a wrong key', { VEDETTE_API_KEY: 'wrong-key' }, 'check VEDETTE_API_KEY and ACCOUNT_ID'],
    ['an address without scheme', { PLATFORM_URL: 'platform' }, 'PLATFORM_URL is "platform"'],
  ])('%s: exit code 2, and the key is not shown', async (_, env, expected) => {
    const { code, err } = await apply({}, env)
    expect(code).toBe(2)
    expect(err).toContain(expected)
    expect(err).not.toMatch(/bad key|wrong-key/)
  })

  test('the Admin key of the platform will do', async () => {
    const env = { VEDETTE_API_KEY: '', ADMIN_API_KEY: client.secret }
    expect(await apply({}, env)).toMatchObject({ code: 0 })
  })

  test('a proxy to the platform is used, unless NO_PROXY says not to', async () => {
    await using proxy = await startConnectProxy({ credentials: 'me:pass' })
    const env = { HTTPS_PROXY: `http://me:pass@${proxy.authority}` }
    expect(await apply({}, env)).toMatchObject({ code: 0 })
    expect(proxy.requestLines).toHaveLength(1)
    expect(await apply({}, { ...env, NO_PROXY: '127.0.0.1' })).toMatchObject({ code: 0 })
    expect(proxy.requestLines).toHaveLength(1)
  })
})

describe('a platform that does not do it', () => {
  const answered = async (answer: (response: ServerResponse) => void, options?: ApplyOptions) => {
    await using server = await startHttpServer((_, response) => answer(response))
    return await apply(options, { PLATFORM_URL: `http://${server.authority}` })
  }

  const reason = '{"message": "variables: too many"}'
  test.each([
    [400, reason, 2, 'variables: too many (400)'],
    [403, reason, 2, 'use a key whose role allows it'],
    [404, reason, 2, '(404 for /v1/apply)'],
    [413, reason, 2, '(413)'],
    [429, reason, 3, '(429)'],
    [500, reason, 3, '(500)'],
    [503, reason, 3, '(503)'],
    [200, reason, 3, 'is not a Vedette platform'],
    [502, '<html>', 3, 'the platform answered 502'],
  ])('an answer %i %s: exit code %i', async (status, body, exit, expected) => {
    const { code, err } = await answered((response) => response.writeHead(status).end(body))
    expect(code).toBe(exit)
    expect(err).toContain(expected)
  })

  test('a connection that is cut', async () => {
    expect(await answered((response) => response.destroy())).toMatchObject({ code: 3 })
  })

  test('nobody there', async () => {
    const { code, err } = await apply({}, { PLATFORM_URL: 'http://127.0.0.1:1' })
    expect(code).toBe(3)
    expect(err).toContain('127.0.0.1:1')
  })

  test('Ctrl-C while it thinks', async () => {
    const stop = new AbortController()
    const { code, err } = await answered(() => stop.abort(), { signal: stop.signal })
    expect(code).toBe(3)
    expect(err).toContain('interrupted')
  })

  const answer = (fields: object) => (response: ServerResponse) =>
    response
      .writeHead(200)
      .end(JSON.stringify({ plan: [], applied: true, problems: [], ...fields }))

  test('a message with a secret is shown without it', async () => {
    const problem = { kind: 'group', key: 'shop', path: ['tags'], message: `no ${SECRET} please` }
    const { code, err } = await answered(answer({ applied: false, problems: [problem] }))
    expect(code).toBe(2)
    expect(err).toMatch(/:8:11 {2}groups\.shop\.tags: no \[scrubbed\] please/)
  })

  test('names from elsewhere cannot move the cursor', async () => {
    const line = { action: 'delete', kind: 'monitor', key: 'a', name: 'x\u001B[2J\n', changes: [] }
    const { lines } = await answered(answer({ plan: [line] }))
    expect(lines[0]).toBe('  - monitor  a (x�[2J�)')
  })
})

test('the command line does it', async () => {
  const run = (args: string[], env: Record<string, string> = {}) =>
    startVedette(['apply', ...args], { ...settings, ...env }).ended
  const named = await run(['--prune', '--plan'], { MONITORS_FILE: file })
  expect(named).toMatchObject({ code: 1, stderr: '' })
  expect(await run([])).toMatchObject({ code: 2, stdout: '' })
})
