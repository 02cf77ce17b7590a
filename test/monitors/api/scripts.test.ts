// Aim: set-up and tear-down scripts of API monitors do what their public contract says: they change the
// request before it is sent and the answer before it is evaluated, in any dialect, and secrets stay in.
import { afterAll, describe, expect, test } from 'vitest'
import { startScriptedChecks, variable } from '../../support/scripts/api-script-runs.ts'

const { run, server, close } = await startScriptedChecks()
afterAll(close)

describe('a set-up script changes the request', () => {
  const three = { headers: [pair('X-A', '1'), pair('X-B', '1'), pair('X-C', '1')] }
  const asJson = { body: '{"a":1}', headers: { 'content-type': 'application/json' } }
  test.each<[string, string, Record<string, unknown>, Record<string, unknown>]>([
    [
      'its parts',
      `const { headers, queryParameters } = request
        headers['X-Own'] = 'v'; headers['X-A'] += '2'; delete headers['X-B']
        queryParameters.q = 'a b'; queryParameters.r.push('3')
        request.url += '&c=2'
        request.method = 'put'`,
      { ...three, queryParameters: [pair('r', '1'), pair('r', '2')] },
      {
        method: 'PUT',
        url: '/a?b=1&c=2&r=1&r=2&r=3&q=a%20b',
        headers: { 'x-own': 'v', 'x-a': '12', 'x-c': '1' },
      },
    ],
    ['a body, JSON by its looks', `request.body = '{"a":1}'`, { method: 'POST' }, asJson],
    [
      'a body that is an object',
      `request.body = { a: 1 }`,
      { method: 'POST', bodyType: 'JSON', body: '{}' },
      asJson,
    ],
    [
      'all of it',
      `request = { ...request, url: '{server}/other', headers: { 'X-New': 7 } }`,
      three,
      { url: '/other', headers: expect.objectContaining({ 'x-new': '7' }) },
    ],
    ['nothing', `console.log(request.body, request.method)`, {}, { method: 'GET', body: '' }],
  ])('%s', async (_, script, request, expected) => {
    const { sent, failures } = await run(script, '', { request })
    expect(failures).toEqual([])
    expect(sent).toMatchObject(expected)
    expect(sent.headers).not.toHaveProperty('x-b')
  })

  const references = {
    method: 'POST',
    url: '{{BASE}}/{{ID}}',
    bodyType: 'JSON',
    body: '{"t":"{{STAMP}}"}',
    headers: [pair('X-T', '{{STAMP}}'), pair('X-K', '{{KNOWN}}')],
    assertions: [
      { source: 'JSON_BODY', property: '$.body', comparison: 'CONTAINS', target: '{{STAMP}}' },
    ],
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

describe('a script may be', () => {
  const IMPORTED = [
    {
      path: 'common/client.ts',
      content: `import crypto from 'node:crypto'\nexport const token: string = 'v' satisfies string\nexport { crypto }`,
    },
  ]
  const X = 'request.headers.X'
  const path = `import path from 'node:path'\n`
  const byPath = (setupScriptPath: string) => ({ setupScriptPath })
  const importing = (setupScriptPath: string) => ({
    setupScriptPath,
    setupScriptDependencies: IMPORTED,
  })
  test.each<[string, string, Record<string, unknown>?]>([
    [
      'plain, with await, a dynamic import and return',
      `${X} = (await import('node:path')).basename('a/v'); if (1) return; throw 1`,
    ],
    [
      'CommonJS with a package that exports a function',
      `const zod = require('zod'); module.exports = async () => { ${X} = zod.string().parse('v') }`,
    ],
    ['an ES module with await', `${path}${X} = await Promise.resolve(path.basename('/a/v'))`],
    ['an ES module that exports a function', `export default async () => { ${X} = 'v' }`],
    [
      'an ES module by its path that also requires',
      `${path}const os = require('node:os')\n${X} = os.EOL.trim() + 'v'`,
      byPath('scripts/setup.mjs'),
    ],
    ['TypeScript', `const value: string = 'v'\n${X} = value as string`],
    [
      'TypeScript that looks like a comparison',
      `const same = (one: string) => one\n${X} = same('v')`,
      byPath('setup.ts'),
    ],
    [
      'TypeScript with an import without ending',
      `import { token } from './common/client'\n${X} = token`,
      importing('setup.ts'),
    ],
    [
      'CommonJS with such an import',
      `const { token } = require('../common/client'); ${X} = token`,
      importing('api/setup.js'),
    ],
  ])('%s', async (_, script, more = {}) => {
    const { sent, failures } = await run(script, '', { more })
    expect(failures).toEqual([])
    expect(sent.headers['x']).toBe('v')
  })
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
  const assertion = (source: string, property: string, target: string) => ({
    source,
    property,
    comparison: 'EQUALS',
    target,
  })
  test.each<[string, string, Record<string, unknown>, Record<string, unknown>]>([
    [
      'its body',
      `response.body = JSON.stringify({ ...JSON.parse(response.body), added: 'yes' })`,
      { assertions: [assertion('JSON_BODY', '$.added', 'yes')] },
      { response: { body: expect.stringContaining('"added":"yes"') } },
    ],
    [
      'its headers',
      `response.headers['X-Added'] = 'yes'`,
      { assertions: [assertion('HEADERS', 'x-added', 'yes')] },
      { response: { headers: { 'x-added': 'yes' } } },
    ],
    [
      'its status, which the way there still shows',
      `response.statusCode = 204`,
      { url: `${server.url}/?status=503`, assertions: [assertion('STATUS_CODE', '', '204')] },
      { statusCode: 204, hops: [{ statusCode: 503 }] },
    ],
    [
      'nothing',
      `JSON.parse(response.body)`,
      { assertions: [assertion('JSON_BODY', '$.method', 'GET')] },
      { statusCode: 200 },
    ],
  ])('%s', async (_, script, request, expected) => {
    const { failures, observed } = await run('', script, { request })
    expect(failures).toEqual([])
    expect(observed).toMatchObject(expected)
  })

  test('a body that is larger than what a script takes is cut for it, and assertions see all', async () => {
    const request = {
      url: `${server.url}/?long=3000000`,
      assertions: [
        { source: 'JSON_BODY', property: '$.filler', comparison: 'CONTAINS', target: 'xxx' },
      ],
    }
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

function pair(key: string, value: string) {
  return { key, value, locked: false }
}
