// Aim: `vedette apply` brings a file onto a real platform; a second time nothing changes, and no value is shown.
import type { ServerResponse } from 'node:http'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import { applyFile, type ApplyOptions, applySettings } from '../support/client/apply-command.ts'
import { useDatabase } from '../support/database/database.ts'
import { startConnectProxy } from '../support/network/connect-proxy.ts'
import { startVedette } from '../support/platform/platform-process.ts'
import { CHECK_BODIES } from '../support/platform/check-bodies.ts'
import { makeLocation } from '../support/platform/named-locations.ts'
import { type ApiClient, servePublicApi } from '../support/platform/public-api.ts'
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

const { api, addClient } = servePublicApi(useDatabase())
let client: ApiClient
let file: string
let settings: Record<string, string>

beforeEach(async () => {
  client = await addClient()
  for (const name of ['berlin', 'munich']) await makeLocation(client, name)
  settings = { ...applySettings(api(), client), API_TOKEN: SECRET }
  file = join(temporaryFolder(), 'monitors.yaml')
  writeFileSync(file, FILE)
})

const apply = (options?: ApplyOptions, env: Record<string, string> = {}) =>
  applyFile(file, { ...settings, ...env }, options)
const edit = (from: string, to: string) =>
  writeFileSync(file, readFileSync(file, 'utf8').replace(from, to))
const stored = async (path: string) => (await client.call('GET', path)).body
const checks = () => stored('/v1/checks?limit=100') as Promise<Record<string, unknown>[]>

describe('a good file', () => {
  test('is planned without effect, created, and unchanged the second time', async () => {
    const created = [
      '  + group     shop (Shop)',
      '  + monitor   orders (Orders)',
      '  + monitor   name-server (Name server)',
      '  + variable  BASE',
      '  + variable  API_TOKEN',
      '5 to create',
    ]
    for (const _ of [1, 2]) {
      expect(await apply({ planOnly: true })).toMatchObject({ code: 1, lines: created })
    }
    expect(await apply()).toMatchObject({ code: 0, err: '', lines: [...created, 'applied'] })
    for (const planOnly of [true, false]) {
      expect(await apply({ planOnly })).toMatchObject({ code: 0, out: '5 unchanged\n', err: '' })
    }
    // Its own, as written: what the group and the variables add is added when it runs.
    const every = { frequency: 0, frequencyOffset: 30, tags: [], privateLocations: ['berlin'] }
    const request = { url: '{{BASE}}{{PATH_OF_SHOP}}' }
    const byType = new Map((await checks()).map((one) => [one['checkType'], one]))
    expect(byType.get('API')).toMatchObject({ ...every, request })
    expect(byType.get('DNS')).toMatchObject({ privateLocations: ['munich'] })
    expect(await stored('/v1/check-groups')).toMatchObject([
      { apiCheckDefaults: { assertions: [{ source: 'RESPONSE_TIME', target: '500' }] } },
    ])
    const variables = (await stored('/v1/variables')) as { key: string; secret: boolean }[]
    const secrecy = variables.map(({ key, secret }) => [key, secret])
    expect(Object.fromEntries(secrecy)).toEqual({ BASE: false, API_TOKEN: true })
  })

  test('is compared: what differs is named, values are not; only --prune removes', async () => {
    await apply()
    edit('every: 30s', 'every: 1m')
    edit('https://shop.test', 'https://store.test')
    edit(FILE.slice(FILE.indexOf('  - name: Name server')), '')
    const token = { API_TOKEN: 'another-token' }
    const { lines, out } = await apply({}, token)
    expect(lines).toEqual([
      '  ~ monitor   orders (Orders): frequency, frequencyOffset',
      '  ~ variable  BASE: value',
      '  ~ variable  API_TOKEN: value',
      '3 to update, 1 unchanged',
      'applied',
    ])
    expect(out).not.toContain('token')
    const removed = '  - monitor  name-server (Name server)'
    const pruned = await apply({ prune: true }, token)
    expect(pruned.lines).toEqual([removed, '1 to delete, 4 unchanged', 'applied'])
    expect(await checks()).toHaveLength(1)
    // Of another name it is another file.
    writeFileSync(file, 'location: berlin\nmonitors: [{ name: A, type: BROWSER, script: "1" }]\n')
    expect((await apply({ name: 'other', prune: true })).lines).toContain('1 to create')
    expect(await checks()).toHaveLength(2)
  })

  test('may use variables that only the platform knows, with a warning that has the line', async () => {
    const body = { key: 'ELSEWHERE', value: 'http://a.test' }
    await client.call('POST', '/v1/variables', { body })
    edit('{{BASE}}', '{{ELSEWHERE}}')
    const { code, err } = await apply()
    expect(code).toBe(0)
    expect(err).toMatch(/^warning: .*monitors\.yaml:20:12 .*ELSEWHERE is not defined/)
  })
})

test('a monitor in public locations only is applied, with a warning that no agent runs it', async () => {
  edit('privateLocations: [munich]', 'locations: [eu-west-1]')
  const { code, err } = await apply()
  expect(code).toBe(0)
  expect(err).toMatch(
    /^warning: .*monitors\.yaml:24:\d+ +monitors\[1\]\.locations.*privateLocations/,
  )
  edit('[eu-west-1]', '[eu-west-1]\n    group: shop')
  edit('    tags: [shop]', '    privateLocations: [munich]')
  expect(await apply()).toMatchObject({ code: 0, err: '' })
})

test('monitors of all types are applied, and a second time nothing changes', async () => {
  const heartbeat = { period: 5, periodUnit: 'minutes', grace: 1, graceUnit: 'minutes' }
  const monitors: object[] = [{ name: 'Nightly', type: 'HEARTBEAT', heartbeat }]
  for (const [part, own] of CHECK_BODIES.filter(([one]) => one !== 'playwright')) {
    const type = part === 'multistep' ? 'MULTI_STEP' : part.toUpperCase()
    monitors.push({ name: part, type, privateLocations: ['berlin'], ...own })
  }
  writeFileSync(file, JSON.stringify({ monitors }))
  expect(await apply()).toMatchObject({ code: 0, err: '' })
  expect(await checks()).toHaveLength(monitors.length)
  expect(await apply()).toMatchObject({ code: 0, out: `${monitors.length} unchanged\n` })
})

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
  ['a monitor that nothing would run', 'location: berlin\n', '', /monitors\[0\].*berlin, munich/],
])('%s is reported with its place, and nothing changes', async (_, from, to, expected) => {
  edit(from, to)
  const { code, err, out } = await apply()
  expect(err).toMatch(expected)
  expect(err).toMatch(/nothing was changed\n(?:See: vedette help \S+\n)+$/)
  expect([code, out]).toEqual([2, ''])
  expect(err).not.toContain(SECRET)
  expect(await checks()).toEqual([])
})

describe('settings', () => {
  test.each([
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

  test('the Admin key of the platform will do, and a proxy, unless NO_PROXY says not to', async () => {
    const key = { VEDETTE_API_KEY: '', ADMIN_API_KEY: client.secret }
    expect(await apply({}, key)).toMatchObject({ code: 0 })
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
    [429, reason, 3, '(429)'],
    [500, reason, 3, '(500)'],
    [200, reason, 3, 'is not a Vedette platform'],
    [502, '<html>', 3, 'the platform answered 502'],
  ])('an answer %i %s: exit code %i', async (status, body, exit, expected) => {
    const { code, err } = await answered((response) => response.writeHead(status).end(body))
    expect(code).toBe(exit)
    expect(err).toContain(expected)
  })

  test('a connection that is cut, nobody there, and Ctrl-C while it thinks', async () => {
    expect(await answered((response) => response.destroy())).toMatchObject({ code: 3 })
    const nobody = await apply({}, { PLATFORM_URL: 'http://127.0.0.1:1' })
    expect([nobody.code, nobody.err]).toEqual([3, expect.stringContaining('127.0.0.1:1')])
    const stop = new AbortController()
    const stopped = await answered(() => stop.abort(), { signal: stop.signal })
    expect([stopped.code, stopped.err]).toEqual([3, expect.stringContaining('interrupted')])
  })

  test('shows no secret of its answer, and no name that moves the cursor', async () => {
    const answer = (fields: object) => (response: ServerResponse) =>
      response.end(JSON.stringify({ plan: [], applied: true, problems: [], ...fields }))
    const problem = { kind: 'group', key: 'shop', path: ['tags'], message: `no ${SECRET} please` }
    const { code, err } = await answered(answer({ applied: false, problems: [problem] }))
    expect(code).toBe(2)
    expect(err).toMatch(/:8:11 {2}groups\.shop\.tags: no \[scrubbed\] please/)
    const line = { action: 'delete', kind: 'monitor', key: 'a', name: 'x\u001B[2J\n', changes: [] }
    const { lines } = await answered(answer({ plan: [line] }))
    expect(lines[0]).toBe('  - monitor  a (x�[2J�)')
  })
})

test('the command line does it, with a file by argument or by MONITORS_FILE', async () => {
  const run = (env: object) =>
    startVedette(['apply', '--prune', '--plan'], { ...settings, ...env }).ended
  expect(await run({ MONITORS_FILE: file })).toMatchObject({ code: 1, stderr: '' })
  expect(await run({})).toMatchObject({ code: 2, stdout: '' })
})
