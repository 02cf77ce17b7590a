// Aim: `vedette apply` brings a file onto a platform: every type of monitor, groups and variables; a second
// time nothing changes; what differs is shown without a value; a problem is reported with its line.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { planText } from '../../src/client/apply-plan.ts'
import { runApply } from '../../src/client/apply.ts'
import {
  APPLY_ACCOUNT,
  APPLY_KEY,
  type ApplyServer,
  startApplyServer,
} from '../support/client/apply-server.ts'
import { startConnectProxy } from '../support/network/connect-proxy.ts'
import { startVedette } from '../support/platform/platform-process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

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

let server: ApplyServer
let file: string

beforeEach(async () => {
  server = await startApplyServer()
  file = join(temporaryFolder(), 'monitors.yaml')
  writeFileSync(file, FILE)
})
afterEach(() => server.close())

interface Options {
  prune?: boolean
  planOnly?: boolean
  name?: string
  env?: Record<string, string>
  signal?: AbortSignal
}

/** Applies the file in this process. */
async function apply({ prune = false, planOnly = false, name, env, signal }: Options = {}) {
  let [out, err] = ['', '']
  const code = await runApply(
    { path: file, name, prune, planOnly },
    {
      env: {
        PLATFORM_URL: server.url,
        ACCOUNT_ID: APPLY_ACCOUNT,
        VEDETTE_API_KEY: APPLY_KEY,
        API_TOKEN: SECRET,
        ...env,
      },
      write: (text) => (out += text),
      complain: (text) => (err += text),
      colour: false,
      signal: signal ?? new AbortController().signal,
    },
  )
  return { code, out, err, lines: out.trimEnd().split('\n') }
}

const edit = (from: string, to: string) =>
  writeFileSync(file, readFileSync(file, 'utf8').replace(from, to))

describe('a good file', () => {
  test('is sent whole: groups, monitors in the wire form, variables, locations', async () => {
    expect(await apply()).toMatchObject({ code: 0, err: '' })
    expect(server.requests[0]).toMatchObject({
      name: 'monitors.yaml',
      prune: false,
      dryRun: false,
      locations: ['berlin'],
      groups: [
        {
          key: 'shop',
          definition: {
            name: 'Shop',
            apiCheckDefaults: { assertions: [{ source: 'RESPONSE_TIME', target: '500' }] },
          },
        },
      ],
      monitors: [
        {
          key: 'orders',
          group: 'shop',
          definition: {
            name: 'Orders',
            checkType: 'API',
            frequency: 0,
            frequencyOffset: 30,
            // Its own, as written: what the group and the variables add is the platform's to do.
            tags: [],
            request: { url: '{{BASE}}{{PATH_OF_SHOP}}' },
          },
        },
        {
          key: 'name-server',
          definition: {
            checkType: 'DNS',
            privateLocations: ['munich'],
            request: { assertions: [{ source: 'RESPONSE_CODE', target: 'NOERROR' }] },
          },
        },
      ],
      variables: [
        { key: 'BASE', value: 'https://shop.test', secret: false },
        { key: 'API_TOKEN', value: SECRET, secret: true, locked: true },
      ],
    })
    const definitions = server.requests[0]?.monitors.map(({ definition }) => definition) ?? []
    expect(definitions.some((one) => 'id' in one || 'group' in one || 'type' in one)).toBe(false)
  })

  test('is created at first and unchanged the second time', async () => {
    expect((await apply()).lines).toEqual([
      '  + group     shop (Shop)',
      '  + monitor   orders (Orders)',
      '  + monitor   name-server (Name server)',
      '  + variable  BASE',
      '  + variable  API_TOKEN',
      '5 to create',
      'applied',
    ])
    expect(await apply()).toMatchObject({ code: 0, out: '5 unchanged\n' })
  })

  test('is compared: what differs is named, values are not', async () => {
    await apply()
    edit('every: 30s', 'every: 1m')
    edit('https://shop.test', 'https://store.test')
    const { lines, out } = await apply({ env: { API_TOKEN: 'another-token' } })
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
    expect((await apply({ planOnly: true })).code).toBe(1)
    const { code, lines } = await apply({ planOnly: true })
    expect([code, lines.at(-1)]).toEqual([1, '5 to create'])
    await apply()
    expect(await apply({ planOnly: true })).toMatchObject({ code: 0, out: '5 unchanged\n' })
  })

  test('loses nothing on the platform without --prune, and removed monitors with it', async () => {
    await apply()
    edit('    group: shop\n', '')
    edit(FILE.slice(FILE.indexOf('groups:'), FILE.indexOf('monitors:')), '')
    edit('{{PATH_OF_SHOP}}', '')
    expect((await apply()).out).not.toContain(' - ')
    const { lines } = await apply({ prune: true })
    expect(lines).toEqual(['  - group  shop (Shop)', '1 to delete, 4 unchanged', 'applied'])
  })

  test('of another name is another file', async () => {
    await apply()
    expect((await apply({ name: 'other', prune: true })).lines).toContain('5 to create')
    expect(server.requests[1]?.name).toBe('other')
  })

  test('may use variables that only the platform knows, with a warning that has the line', async () => {
    edit('{{BASE}}', '{{ELSEWHERE}}')
    const { code, err } = await apply()
    expect(code).toBe(0)
    expect(err).toMatch(/^warning: .*monitors\.yaml:20:12 .*ELSEWHERE is not defined/)
  })
})

describe('every type of monitor', () => {
  const network = (type: string, request: string) => `type: ${type}\n    request: { ${request} }`
  test.each([
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
    'type: PLAYWRIGHT\n    codeBundlePath: bundle:0123',
    'type: HEARTBEAT\n    heartbeat: { period: 1, periodUnit: hours, grace: 5, graceUnit: minutes }',
  ])('%s', async (lines) => {
    writeFileSync(file, `location: berlin\nmonitors:\n  - name: A\n    ${lines}\n`)
    expect(await apply()).toMatchObject({ code: 0, err: '' })
    expect(server.requests[0]?.monitors).toHaveLength(1)
  })

  test('that the platform keeps and does not watch is named, also when nothing changes', () => {
    const line = { action: 'unchanged', kind: 'monitor', key: 'beat', name: 'beat' } as const
    const plan = [{ ...line, changes: [], warning: 'nobody watches it' }]
    const text = planText({ plan, applied: true, problems: [] }, { colour: false })
    expect(text).toBe('  warning: beat: nobody watches it\n1 unchanged\n')
  })

  test('but one that no private location runs is refused', async () => {
    writeFileSync(file, 'monitors:\n  - name: A\n    type: AGENTIC\n')
    const { code, err } = await apply()
    expect([code, server.requests.length]).toEqual([2, 0])
    expect(err).toMatch(/:3:\d+ {2}monitors\[0\]\.type: AGENTIC monitors cannot run in private/)
  })
})

describe('a problem of a file is reported with its place, and nothing is sent', () => {
  test.each([
    [
      'an unknown group',
      'group: shop',
      'group: shpo',
      /:16:12 .*did you mean shop\? \(got "shpo"\)/,
    ],
    ['an unknown field of a group', 'tags: [shop]', 'tag: [shop]', /:8:5 .*did you mean tags\?/],
    ['a bad field of a group', 'tags: [shop]', 'concurrency: 0', /:8:18 .*concurrency.*at least 1/],
    [
      'a bad line in a group',
      'LESS_THAN 500',
      'LESS_THN 500',
      /:11:\d+ .*did you mean LESS_THAN\?/,
    ],
    ['a bad record type', 'recordType: A,', 'recordType: Q,', /:25:46 .*must be one of A, AAAA/],
    ['a type that is none', 'type: DNS', 'type: DSN', /:23:11 .*did you mean DNS\?/],
    ['a secret without a value', '[API_TOKEN]', '[OTHER]', /:4:\d+ .*OTHER has no value/],
  ])('%s', async (_, from, to, expected) => {
    edit(from, to)
    const { code, err, out } = await apply()
    expect(err).toMatch(expected)
    expect(err).toMatch(/nothing was changed\n$/)
    expect([code, out, server.requests.length]).toEqual([2, '', 0])
  })

  test('and so is what only the platform can know', async () => {
    server.problems = [
      {
        kind: 'monitor',
        key: 'name-server',
        path: ['privateLocations', 0],
        message: 'there is no private location munich',
      },
      { kind: 'group', key: 'shop', path: ['tags'], message: `no ${SECRET} please` },
    ]
    const { code, err, out } = await apply()
    expect([code, out]).toEqual([2, ''])
    expect(err).toMatch(/:24:24 {2}monitors\[1\]\.privateLocations\[0\]: there is no private/)
    expect(err).toMatch(/:8:11 {2}groups\.shop\.tags: no … please/)
    expect(err).toContain('2 problems in the monitors file; nothing was changed')
  })
})

describe('settings', () => {
  test.each([
    ['no account', { ACCOUNT_ID: '' }, 'ACCOUNT_ID is not set'],
    ['an account that is no UUID', { ACCOUNT_ID: 'me' }, 'ACCOUNT_ID is "me": must be a UUID'],
    ['no key', { VEDETTE_API_KEY: '' }, 'VEDETTE_API_KEY is not set'],
    ['a key with a blank', { VEDETTE_API_KEY: 'a b' }, 'must be a key of the public API'],
    ['an address without scheme', { PLATFORM_URL: 'platform' }, 'PLATFORM_URL is "platform"'],
  ])('%s: exit code 2', async (_, env, expected) => {
    const { code, err } = await apply({ env })
    expect([code, server.requests.length]).toEqual([2, 0])
    expect(err).toContain(expected)
    expect(err).not.toContain('a b"')
  })

  test('the Admin key of the platform will do', async () => {
    const env = { VEDETTE_API_KEY: '', ADMIN_API_KEY: APPLY_KEY }
    expect(await apply({ env })).toMatchObject({ code: 0 })
  })
})

describe('a platform that does not do it', () => {
  test('a wrong key: exit code 2, and the key is not shown', async () => {
    const { code, err } = await apply({ env: { VEDETTE_API_KEY: 'wrong-key-of-mine' } })
    expect(code).toBe(2)
    expect(err).toContain('check VEDETTE_API_KEY and ACCOUNT_ID')
    expect(err).not.toContain('wrong-key-of-mine')
  })

  test.each([
    ['400', 2, 'variables: too many (400)'],
    ['403', 2, 'the key may not do that'],
    ['404', 2, 'knows no /v1/apply'],
    ['413', 2, '(413)'],
    ['429', 3, '(429)'],
    ['500', 3, '(500)'],
    ['503', 3, '(503)'],
    ['200', 3, 'not as a platform does'],
  ])('an answer %s: exit code %i', async (status, exit, expected) => {
    server.answer = (response) =>
      response.writeHead(Number(status)).end('{"message": "variables: too many"}')
    const { code, err } = await apply()
    expect(code).toBe(exit)
    expect(err).toContain(expected)
  })

  test('an answer that is no JSON', async () => {
    server.answer = (response) => response.writeHead(502).end('<html>')
    expect(await apply()).toMatchObject({
      code: 3,
      err: 'vedette apply: the platform answered 502\n',
    })
  })

  test('a connection that is cut', async () => {
    server.answer = (response) => response.destroy()
    expect(await apply()).toMatchObject({ code: 3 })
  })

  test('nobody there', async () => {
    const { url } = server
    await server.close()
    const { code, err } = await apply({ env: { PLATFORM_URL: url } })
    expect(code).toBe(3)
    expect(err).toContain(new URL(url).host)
    server = await startApplyServer()
  })

  test('Ctrl-C while it thinks', async () => {
    const stop = new AbortController()
    server.answer = () => stop.abort()
    const { code, err } = await apply({ signal: stop.signal })
    expect(code).toBe(3)
    expect(err).toContain('interrupted')
  })
})

test('a proxy to the platform is used, unless NO_PROXY says not to', async () => {
  await using proxy = await startConnectProxy({ credentials: 'me:pass' })
  const env = { HTTPS_PROXY: `http://me:pass@${proxy.authority}` }
  expect(await apply({ env })).toMatchObject({ code: 0 })
  expect(proxy.requestLines).toHaveLength(1)
  expect(await apply({ env: { ...env, NO_PROXY: '127.0.0.1' } })).toMatchObject({ code: 0 })
  expect(proxy.requestLines).toHaveLength(1)
  expect(server.requests).toHaveLength(2)
})

test('names from elsewhere cannot move the cursor', async () => {
  server.answer = (response) =>
    response.writeHead(200).end(
      JSON.stringify({
        plan: [{ action: 'delete', kind: 'monitor', key: 'a', name: 'x\u001B[2J\n', changes: [] }],
        applied: true,
        problems: [],
      }),
    )
  expect((await apply()).lines[0]).toBe('  - monitor  a (x�[2J�)')
})

test('10,000 monitors go at once', async () => {
  const one = (n: number) =>
    `  - { name: M${n}, type: URL, request: { url: "https://a.test/${n}" } }\n`
  const all = Array.from({ length: 10_000 }, (_, n) => one(n)).join('')
  writeFileSync(file, `location: berlin\nmonitors:\n${all}`)
  expect((await apply()).lines.at(-2)).toBe('10000 to create')
  expect((await apply()).out).toBe('10000 unchanged\n')
})

test('the command line does it', async () => {
  const env = { PLATFORM_URL: server.url, ACCOUNT_ID: APPLY_ACCOUNT, VEDETTE_API_KEY: APPLY_KEY }
  const given = { ...env, API_TOKEN: SECRET }
  const planned = await startVedette(['apply', file, '--plan'], given).ended
  expect(planned).toMatchObject({ code: 1, stderr: '' })
  expect(await startVedette(['apply', file], given).ended).toMatchObject({ code: 0 })
  const again = await startVedette(['apply', '--prune'], { ...given, MONITORS_FILE: file }).ended
  expect(again).toMatchObject({ code: 0, stdout: '5 unchanged\n' })
  const without = await startVedette(['apply'], given).ended
  expect(without).toMatchObject({ code: 2, stdout: '' })
})
