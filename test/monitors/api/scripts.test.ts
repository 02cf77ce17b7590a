// Aim: set-up and tear-down scripts of API monitors do what their public contract says: they change the request before
// it is sent and the answer before it is evaluated, in any dialect; errors get their verdict and code; secrets stay in.
import { afterAll, describe, expect, test } from 'vitest'
import { assertion } from '../../support/monitors/check-monitor.ts'
import {
  type CheckOptions,
  startScriptedChecks,
  variable,
} from '../../support/scripts/api-script-runs.ts'
import { runtimeFolder, testScriptHost } from '../../support/scripts/script-host.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { startHttpServer } from '../../support/test-server.ts'

const { run, server, close } = await startScriptedChecks()
afterAll(close)

describe('a set-up script changes the request', () => {
  const three = { headers: [pair('X-A', '1'), pair('X-B', '1'), pair('X-C', '1')] }
  const lists = { queryParameters: [pair('r', '1'), pair('r', '2')] }
  const json = { body: '{"a":1}', headers: { 'content-type': 'application/json' } }
  const inParts = `const { headers, queryParameters } = request
    headers['X-Own'] = 'v'; headers['X-A'] += '2'; delete headers['X-B']
    queryParameters.q = 'a b'; queryParameters.r.push('3')
    request.url += '&c=2'
    request.method = 'put'`
  const inAll = `request = { ...request, url: '{server}/other', headers: { 'X-New': 7 } }`
  const ofParts = { 'x-own': 'v', 'x-a': '12', 'x-c': '1' }
  const url = '/a?b=1&c=2&r=1&r=2&r=3&q=a%20b'
  const posted = { method: 'POST', bodyType: 'JSON', body: '{}' }
  test.each<[string, string, Record<string, unknown>, Record<string, unknown>]>([
    ['its parts', inParts, { ...three, ...lists }, { method: 'PUT', url, headers: ofParts }],
    ['a body, JSON by its looks', `request.body = '{"a":1}'`, { method: 'POST' }, json],
    ['a body that is an object', `request.body = { a: 1 }`, posted, json],
    ['all of it', inAll, three, { url: '/other' }],
    ['nothing', `console.log(request.body, request.method)`, {}, { method: 'GET', body: '' }],
  ])('%s', async (_, script, request, expected) => {
    const { sent, failures } = await run(script, '', { request })
    expect(failures).toEqual([])
    expect(sent).toMatchObject(expected)
    expect(sent.headers).not.toHaveProperty('x-b')
    expect(sent.headers['x-new']).toBe(script === inAll ? '7' : undefined)
  })

  const references = {
    method: 'POST',
    url: '{{BASE}}/{{ID}}',
    bodyType: 'JSON',
    body: '{"t":"{{STAMP}}"}',
    headers: [pair('X-T', '{{STAMP}}'), pair('X-K', '{{KNOWN}}')],
    assertions: [assertion('JSON_BODY $.body CONTAINS {{STAMP}}')],
  }
  test('variables that it sets stand in the request, known ones and new ones, and in what is asserted', async () => {
    const { sent, failures, verdict } = await run(
      `process.env.BASE = '{server}'; process.env.STAMP = 'now'; process.env.KNOWN += '!'
        request.url = request.url.replace('{{ID}}', 'of-{{ID}}'); process.env.ID = '5'
        request.headers['X-Foreign'] = '{{SECRET}}'`,
      `console.log(process.env.STAMP)`,
      {
        request: references,
        variables: [variable('KNOWN', 'k'), variable('SECRET', 'hunter2-hunter2', true)],
      },
    )
    expect(failures).toEqual([])
    expect(verdict).toBe('passed')
    expect(sent).toMatchObject({ url: '/of-5', body: '{"t":"now"}' })
    // A text that a script got from somewhere draws no variable in that the definition does not name.
    const headers = { 'x-t': 'now', 'x-k': 'k!', 'x-foreign': '{{SECRET}}' }
    expect(sent.headers).toMatchObject(headers)
  })

  test('a variable that it takes away is unknown, and nothing is sent', async () => {
    const { received, failures } = await run('delete process.env.STAMP', '', {
      request: { headers: [pair('X', '{{STAMP}}')] },
      variables: [variable('STAMP', 'x')],
    })
    expect(failures).toMatchObject([{ code: 'VARIABLE_UNKNOWN', details: { variable: 'STAMP' } }])
    expect(received).toEqual([])
  })
})

const content = `import crypto from 'node:crypto'\nexport const token: string = 'v' satisfies string\nexport { crypto }`
const setupScriptDependencies = [{ path: 'common/client.ts', content }]
const setupScriptPath = 'setup.ts'
const X = 'request.headers.X'
const plain = `${X} = (await import('node:path')).basename('a/v'); if (1) return; throw 1`
const exporting = `const zod = require('zod'); module.exports = async () => { ${X} = zod.string().parse('v') }`
const comparing = `const same = (one: string) => one\n${X} = same('v')`
const importing = `import { token } from './common/client'\n${X} = token`
test.each<[string, string, Record<string, unknown>?]>([
  ['plain, with await, a dynamic import and return', plain],
  ['CommonJS with a package that exports a function', exporting],
  ['an ES module that exports a function', `export default async () => { ${X} = 'v' }`],
  ['TypeScript that looks like a comparison', comparing, { setupScriptPath }],
  ['TypeScript with an import', importing, { setupScriptPath, setupScriptDependencies }],
])('a script may be: %s', async (_, script, more = {}) => {
  const { sent, failures } = await run(script, '', { more })
  expect(failures).toEqual([])
  expect(sent.headers['x']).toBe('v')
})

test('scripts know their check, keep state, write to a console, and their time is none of the answer’s', async () => {
  const setUp = `console.log(process.env.CHECK_NAME, process.env.REQUEST_URL, process.env.MINE)
      console.error('warned')
      console.log(typeof response, Object.keys(process.env).filter((one) => /proxy|vedette/i.test(one)).join())
      globalThis.kept = 'kept'
      await new Promise((resolve) => setTimeout(resolve, 400))`
  const tearDown = `console.log(kept, response.statusCode, response.statusText, response.headers['x-list'])
      console.log(request.headers['X-A'], response.timings.end > 0, response.timingPhases.total > 0)
      await new Promise((resolve) => setTimeout(resolve, 400))`
  const result = await run(setUp, tearDown, {
    variables: [variable('MINE', 'mine'), variable('NODE_OPTIONS', '--no-such-option')],
    request: { headers: [pair('X-A', '1')] },
  })
  expect(result.failures).toEqual([])
  // Two streams, of which either may be read first.
  expect(result.lines?.toSorted()).toEqual([
    '1 true true',
    `A scripted check ${server.url}/a?b=1 mine`,
    'kept 200 OK a, b',
    'undefined ',
    'warned',
  ])
  const { scripts } = result.scripted
  expect(scripts).toMatchObject({ runtime: '2026.04', usage: { processesMax: 1 } })
  expect(scripts?.setUp?.durationMs).toBeGreaterThan(390)
  expect(scripts?.tearDown?.durationMs).toBeGreaterThan(390)
  expect(result.responseTimeMs).toBeLessThan(400)
  expect(result.durationMs).toBeGreaterThan(800)
  expect(result.left).toEqual([])
})

describe('a tear-down script changes the answer before it is evaluated', () => {
  const adding = `response.body = JSON.stringify({ ...JSON.parse(response.body), added: 'yes' })`
  const added = { response: { body: expect.stringContaining('"added":"yes"') as string } }
  const shown = { statusCode: 204, hops: [{ statusCode: 503 }] }
  test.each<[string, string, string, string, Record<string, unknown>]>([
    ['its body', '/', adding, 'JSON_BODY $.added EQUALS yes', added],
    ['its status', '/?status=503', `response.statusCode = 204`, 'STATUS_CODE  EQUALS 204', shown],
  ])('%s', async (_, path, script, line, expected) => {
    const request = { url: `${server.url}${path}`, assertions: [assertion(line)] }
    const { failures, observed } = await run('', script, { request })
    expect(failures).toEqual([])
    expect(observed).toMatchObject(expected)
  })

  test('a body that is larger than what a script takes is cut for it, and assertions see all', async () => {
    const assertions = [assertion('JSON_BODY $.filler CONTAINS xxx')]
    const request = { url: `${server.url}/?long=3000000`, assertions }
    const { failures, scripted } = await run('', 'console.log(response.bodyTruncated)', { request })
    expect(failures).toEqual([])
    expect(scripted.scripts).toMatchObject({
      console: [{ text: 'true' }],
      notes: [expect.stringContaining('characters of the body')],
    })
  })

  test('it runs when no answer came, so that it may clean up, and the request’s failure stands alone', async () => {
    const { codes, verdict, scripted } = await run(
      `process.env.MADE = '7'`,
      `console.log('clean', process.env.MADE, response.statusCode); JSON.parse(response.body)`,
      { request: { url: 'http://127.0.0.1:9/' } },
    )
    expect([verdict, codes]).toEqual(['failed', ['CONNECT_REFUSED']])
    expect(scripted.scripts?.console).toEqual([{ type: 'stdout', text: 'clean 7 0' }])
    expect(scripted.scripts?.tearDown?.error).toContain('JSON')
  })
})

describe('verdicts', () => {
  test.each<[string, string, string, string, string[], number]>([
    ['set-up throws', `throw new Error('no user')`, '', 'failed', ['SCRIPT_FAILED'], 0],
    ['set-up reads bad JSON', `JSON.parse('{')`, '', 'failed', ['SCRIPT_FAILED'], 0],
    ['tear-down throws', '', `throw new Error('left over')`, 'failed', ['SCRIPT_FAILED'], 1],
    ['tear-down does not parse', '', `const = 1`, 'errored', ['SCRIPT_INVALID'], 1],
  ])('%s', async (_, setUp, tearDown, verdict, codes, requests) => {
    const result = await run(setUp, tearDown)
    expect([result.verdict, result.codes]).toEqual([verdict, codes])
    expect(result.received).toHaveLength(requests)
    expect(result.left).toEqual([])
  })

  test('an error shows its place in the script, in any language', async () => {
    const untyped = await run(`\nthrow new Error('here')`)
    expect(untyped.failures[0]?.details).toMatchObject({ file: 'set-up.ts', line: 2, column: 7 })
    const typed = await run(`const a: string = ''\n\nthrow new Error(a + 'here')`, '', {
      more: { setupScriptPath: 'scripts/own.ts' },
    })
    expect(typed.failures[0]).toMatchObject({ details: { file: 'scripts/own.ts', line: 3 } })
    expect(typed.failures[0]?.message).toContain('here')
  })

  test('assertions are evaluated although the tear-down script fails', async () => {
    const assertions = [{ source: 'STATUS_CODE', comparison: 'EQUALS', target: '201' }]
    const { codes } = await run('', `throw new Error('x')`, { request: { assertions } })
    expect(new Set(codes)).toEqual(new Set(['ASSERTION_FAILED', 'SCRIPT_FAILED']))
  })

  test('retries repeat scripts and request together', async () => {
    const { attempts, received, verdict } = await run(
      `request.headers['X-Try'] = 'set up'`,
      `throw new Error('again')`,
      { more: { retryStrategy: { type: 'FIXED', baseBackoffSeconds: 0, maxRetries: 1 } } },
    )
    expect([verdict, attempts.length, received.length]).toEqual(['failed', 2, 2])
    expect(received.every(({ headers }) => headers['x-try'] === 'set up')).toBe(true)
  })

  test.each<[string, CheckOptions, string]>([
    ['an agent that runs no code', { host: undefined }, 'SCRIPT_UNSUPPORTED'],
    ['a runtime that is not installed', { more: { runtimeId: '2025.04' } }, 'RUNTIME_MISSING'],
    ['no runtime', { host: testScriptHost({ tools: temporaryFolder() }) }, 'RUNTIME_MISSING'],
  ])('nothing is sent by %s', async (_, options, code) => {
    const { verdict, codes, received } = await run('', '1', options)
    expect([verdict, codes, received]).toEqual(['errored', [code], []])
  })

  test('the runtime that a monitor names is the one that runs', async () => {
    const other = testScriptHost({ tools: runtimeFolder('2025.04') })
    const { scripted } = await run('1', '', { host: other, more: { runtimeId: '2025.04' } })
    expect(scripted.scripts?.runtime).toBe('2025.04')
    other.close()
  })
})

test('secrets stay in: known ones, what a script puts into headers, and new values of secret variables', async () => {
  const result = await run(
    `const fetched = 'fetched-' + 'token-42'
      request.headers.Authorization = 'Bearer ' + fetched
      process.env.PIN = 'changed-' + 'pin-42'
      process.env.NEW_PASSWORD = 'made-' + 'password-42'
      console.log(fetched, process.env.PIN, process.env.NEW_PASSWORD, process.env.KEY)
      console.log(Buffer.from(process.env.KEY).toString('base64'))`,
    `throw new Error('with ' + process.env.KEY + ' and ' + process.env.PIN)`,
    { variables: [variable('KEY', 'planted-key-42', true), variable('PIN', 'old-pin', true)] },
  )
  expect(result.sent.headers.authorization).toBe('Bearer fetched-token-42')
  const json = JSON.stringify(result, (key, value: unknown) =>
    key === 'received' || key === 'sent' ? undefined : value,
  )
  for (const secret of ['planted-key-42', 'fetched-token-42', 'changed-pin-42', 'password-42']) {
    expect(json).not.toContain(secret)
    expect(json).not.toContain(Buffer.from(secret).toString('base64'))
  }
  expect(result.lines?.[0]).toBe('[scrubbed] [scrubbed] [scrubbed] [scrubbed]')
})

test.each([
  ['throws', `throw new Error('with ' + all())`],
  ['crashes', `setTimeout(() => { throw new Error(all()) }); await new Promise(() => {})`],
  ['ends its process', 'process.exit(3)'],
  ['gives back no request', 'request.headers.x = {}'],
])('secrets that a set-up script made stay in where it %s', async (_, end) => {
  const result = await run(
    `const [key, pin, password, token] = ['key', 'pin', 'word', 'token'].map((one) => 'made-' + one + '-42')
      const all = () => [key, pin, password, token].join()
      request.headers.Authorization = 'Bearer ' + key
      request.url += '&access_token=' + token
      process.env.PIN = pin
      process.env.NEW_PASSWORD = password
      console.log(all())
      ${end}`,
    '',
    { variables: [variable('PIN', 'old-pin', true)] },
  )
  expect(result.codes).toEqual(['SCRIPT_FAILED'])
  expect(result.lines?.[0]).toBe('[scrubbed],[scrubbed],[scrubbed],[scrubbed]')
  expect(JSON.stringify(result)).not.toMatch(/made-(?:key|pin|word|token)/)
})

test('what a script makes of variables in sensitive and locked places stays in', async () => {
  const made = 'made-of-a-script-42'
  const request = {
    url: `${server.url}/?client_secret={{SESSION}}-url`,
    queryParameters: [{ key: 'access_token', value: '{{SESSION}}-parameter', locked: false }],
    headers: [{ key: 'X-Tenant', value: 't-{{SESSION}}', locked: true }],
  }
  const {
    sent: _,
    received,
    ...result
  } = await run(
    `process.env.SESSION = ${JSON.stringify(made)}; console.log(process.env.SESSION + '-url')`,
    'response.statusCode = 500',
    { request },
  )
  expect(received[0]?.url).toContain(made)
  expect(JSON.stringify(result.scripted)).not.toMatch(/-42-url|-42-parameter|t-made/)
})

test('secrets that a tear-down script made stay in', async () => {
  const { lines } = await run(
    '',
    `process.env.PIN = 'made-' + 'pin-42'
      response.headers['x-api-key'] = 'made-' + 'key-42'
      console.log(process.env.PIN, response.headers['x-api-key'])`,
    { variables: [variable('PIN', 'old-pin', true)] },
  )
  expect(lines).toEqual(['[scrubbed] [scrubbed]'])
})

test('cookies and credentials of a redirect stay in where the next answer repeats them', async () => {
  await using target = await startHttpServer(({ url, headers }, response) => {
    const location = `http://joe:pw-of-a-redirect-42@${headers.host}/?access_token=of-a-redirect-43`
    const more = { location, 'set-cookie': ['sid=of-a-redirect-42; Path=/'] }
    if (url === '/login') response.writeHead(302, more).end()
    else response.writeHead(500).end(`${headers.cookie}, ${headers.authorization}`)
  })
  const url = `http://${target.authority}/login`
  const result = await run('request.headers.X = "1"', '', { request: { url } })
  expect(result.scripted.response?.body).toMatch(/^sid=\[scrubbed\], Basic \w{0,6}\[scrubbed\]=*$/)
  expect(JSON.stringify(result)).not.toContain('of-a-redirect')
})

function pair(key: string, value: string) {
  return { key, value, locked: false }
}
