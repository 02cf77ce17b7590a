// Aim: all problems of a monitors file are reported at once, with line, value and fix.
import { expect, test } from 'vitest'
import {
  apiAssertion,
  createFilesFolder,
  TYPES,
  urlMonitor,
  urlRequest,
} from '../../support/agent/monitors-files.ts'
import { readMonitorsFile } from '../../../src/agent/monitors-file/file.ts'
import { countedProblems } from '../../../src/agent/monitors-file/problems.ts'
import { MONITOR_TYPES } from '../../../src/monitors/registry.ts'

const { problems, write } = createFilesFolder()

const ASSERTION = ':8:11 monitors[0].request.assertions[0]'
const SCRUBBED = '(got "ftp://[scrubbed]@a.test/")'
const LONG = `variables:\n  - {key: TOKEN, value: ${'s'.repeat(65_537)}, secret: true}\n`
const TOKEN = 'http://a.test/{{TOKEN}}'
const icmp = 'monitors:\n  - name: a\n    type: ICMP\n    request: {hostname: a.test}\n'
const ssl = 'monitors:\n  - name: A\n    type: SSL\n    request: {sslConfig: {hostname: a.test}}\n'
const tcp = (port: string) => `- {name: A, type: TCP, request: {hostname: a.test, port: ${port}}}`
const proto = (text: string) =>
  `- name: A\n  type: GRPC\n  request:\n    url: a.test\n    port: 443\n    grpcConfig: {method: a.B/C, serviceDefinition: PROTO_FILE, protoContent: ${text}}\n`
const PROTO_PLACE = ':6:78'
const request = (fields: string) => urlMonitor(`    request: {${fields}}`)
const suite = (path: string) =>
  `monitors:\n  - {name: A, type: PLAYWRIGHT, every: 10m,\n    codeBundlePath: ${path}}\n`
const pair = (first: string, second: string) =>
  [first, second].map((one) => `- {${one}, type: URL, request: {url: "http://a.test/"}}\n`).join('')

// The file, the place and path of its one problem, and the key detail of the message.
test.each<[string, string, string]>([
  ['', '', 'is empty; write a list of monitors'],
  ['hello', '', 'contains no monitors; write a list'],
  ['location: lab', ':1:1', 'contains no monitors; write a list'],
  ['monitors: 5', ':1:11 monitors', 'must be a list, each entry with a dash (got 5)'],
  ['- http://a.test/', ':1:3 monitors[0]', '(got "http://a.test/")'],
  [`proxyURL: x\n${urlRequest('')}`, ':1:1 proxyURL', 'did you mean proxyUrl?'],
  [urlRequest('    maxResponsTime: 5'), ':6:5 monitors[0].maxResponsTime', 'maxResponseTime?'],
  [urlRequest('      skipSsl: true'), ':6:7 monitors[0].request.skipSsl', 'skipSSL?'],
  [urlRequest('      xyzzy: true'), ':6:7 monitors[0].request.xyzzy', 'known here: url, '],
  [urlRequest('    intervall: 30s'), ':6:5 monitors[0].intervall', 'did you mean every?'],
  [urlRequest('    skipSSL: true'), ':6:5 monitors[0].skipSSL', 'it belongs under request'],
  [urlRequest('      tags: [x]'), ':6:7 monitors[0].request.tags', 'it belongs next to request'],
  [urlRequest('    __proto__: {a: 1}'), ':6:5 monitors[0].__proto__', 'unknown key'],
  [`defaults: {id: x}\n${urlRequest('')}`, ':1:12 defaults.id', 'belongs to one monitor only'],
  ['- {name: 5, type: URL, request: {url: "http://a/"}}', ':1:10 monitors[0].name', 'quotes'],
  ['- name: A', ':1:3 monitors[0].type', `is missing; one of ${TYPES}`],
  ['- {name: A, tpye: URL}', ':1:13 monitors[0].tpye', 'unknown key; did you mean type?'],
  ['defaults: {tpye: URL}\nmonitors: [{name: A}]', ':1:12 defaults.tpye', 'did you mean type?'],
  ['- {name: A, type: url}', ':1:19 monitors[0].type', `one of ${TYPES}; did you mean URL?`],
  ['- {name: A, checkType: HEARTBEAT}', ':1:24 monitors[0].checkType', `can run ${TYPES}`],
  [urlRequest('    checkType: URL'), ':3:5 monitors[0].type', 'the same as checkType'],
  [request(''), ':4:14 monitors[0].request.url', 'is missing'],
  [request('url: "a.test"'), ':4:20 monitors[0].request.url', 'not a URL'],
  [request('url: "ftp://a.test/"'), ':4:20 monitors[0].request.url', 'use http:// or https://'],
  [request('url: "ftp://u:p@ss/w@a.test/"'), ':4:20 monitors[0].request.url', SCRUBBED],
  [urlRequest('    frequency: 3'), ':6:16 monitors[0].frequency', '0, 1, 2, 5, 10, 15, 30, 60'],
  [`${icmp}    maxPacketLossThreshold: 0`, ':5:29 monitors[0].maxPacketLossThreshold', 'above 0'],
  [urlRequest('    every: 7m'), ':6:12 monitors[0].every', '1s to 59s or one of 1m, 2m, 5m'],
  [urlRequest('    every: 30'), ':6:12 monitors[0].every', 'did you mean 30s? (got 30)'],
  [urlRequest('    every: 5 minutes'), ':6:12 monitors[0].every', 'did you mean 5m?'],
  [`${ssl}    every: 10s`, ':5:12 monitors[0].every', 'once a minute (got "10s")'],
  [`defaults: {every: 10s}\n${ssl}`, ':1:19 defaults.every', 'once a minute (got "10s")'],
  [`${ssl}    frequency: 0\n    frequencyOffset: 9`, ':5:16 monitors[0].frequency', '(got 0)'],
  [urlRequest('    maxResponseTime: -5'), ':6:22 monitors[0].maxResponseTime', 'at least 1 (got'],
  [urlRequest('    degradedResponseTime: 1s'), ':6:27 monitors[0].degradedResponseTime', 'milli'],
  [tcp('"80"'), ':1:58 monitors[0].request.port', 'write it without quotes (got "80")'],
  [tcp('x'), ':1:58 monitors[0].request.port', 'must be a number (got "x")'],
  [urlRequest('    muted: "true"'), ':6:12 monitors[0].muted', 'write it without quotes'],
  [proto('syntax'), `${PROTO_PLACE} monitors[0].request.grpcConfig.protoContent`, 'end (line 1)'],
  [urlRequest('    every: 30s\n    frequency: 1'), ':6:5 monitors[0].every', 'as frequency'],
  [apiAssertion('TEXT_BODY ( NOT_EMPTY'), ASSERTION, 'Unterminated group (got "TEXT_BODY ('],
  [apiAssertion('JSON_BODY $.[ EQUALS 1'), ASSERTION, 'not a JSONPath: '],
  [apiAssertion('STATUS EQUALS 200'), ASSERTION, 'one of STATUS_CODE, JSON_BODY, HEADERS, '],
  [apiAssertion('STATUS_CODE EQUAL 200'), ASSERTION, 'did you mean EQUALS?'],
  [apiAssertion('STATUS_CODE EQUALS'), ASSERTION, 'EQUALS needs a value after it'],
  [apiAssertion('TEXT_BODY NOT_EMPTY x'), ASSERTION, 'NOT_EMPTY takes no value'],
  [apiAssertion('TEXT_BODY "a: b" NOT_EMPTY'), ASSERTION, 'put the whole line in quotes'],
  [`variables: {ONE: x}\n${request('url: "{{ONN}}"')}`, ':5:20 monitors[0].request.url', 'ONE?'],
  [request('url: "{{X}}"'), ':4:20 monitors[0].request.url', 'the variable X is not defined'],
  [`variables: {A-B: 1}\n${urlRequest('')}`, ':1:13 variables.A-B', 'letters, digits and _'],
  [`variables: {A: [1]}\n${urlRequest('')}`, ':1:16 variables.A', 'must be a string, a number'],
  [`variables: [{key: A}]\n${urlRequest('')}`, ':1:13 variables[0]', '{key: NAME, value: text}'],
  // Their uses are no problems of their own.
  [`${LONG}${request(`url: "${TOKEN}"`)}`, ':2:5 variables[0]', 'at most 65536 characters'],
  [`variables: {A: [1]}\nproxyUrl: "{{A}}"\n${urlRequest('')}`, ':1:16 variables.A', 'a string'],
  [`secrets: [TOKEN]\n${request(`url: "${TOKEN}"`)}`, ':1:11 secrets[0]', 'set TOKEN or'],
  [`secrets: [__proto__]\n${urlRequest('')}`, ':1:11 secrets[0]', '__proto__ has no value'],
  [`location: Berlin Office\n${urlRequest('')}`, ':1:11 location', 'like berlin-office'],
  [`proxyUrl: socks5://u:p@x\n${urlRequest('')}`, ':1:11 proxyUrl', 'cannot use such a proxy'],
  [suite('./nowhere'), ':3:21 monitors[0].codeBundlePath', './nowhere: does not exist'],
  [
    urlRequest('      tls: {caFile: none.pem}'),
    ':6:21 monitors[0].request.tls.caFile',
    'names a file that does not exist',
  ],
  [urlRequest('      tls: {caFile: "."}'), ':6:21 monitors[0].request.tls.caFile', 'is a folder'],
  [pair('id: a, name: A', 'id: a, name: B'), ':2:8 monitors[1].id', '(the other is on line 1)'],
  [pair('name: A b', 'name: a-B'), ':2:10 monitors[1].name', 'the same id as monitors[0]'],
])('%j: %s …%s', async (content, where, detail) => {
  const [place = '', path] = where.split(' ')
  const lines = await problems(content)
  expect(lines).toHaveLength(1)
  const start = path === undefined ? `${place}  ` : `${place}  ${path}: `
  expect(lines[0]?.slice(0, start.length)).toBe(start)
  expect(lines[0]).toContain(detail)
})

test('a wrong assertion on a header that is a secret is not quoted', async () => {
  const [typo] = await problems(apiAssertion('HEADERS authorization EQUALZ Zq7xKw'))
  expect(typo).toMatch(/did you mean EQUALS\?$/)
  const line = '    request: {url: x, assertions: [HEADERS authorization EQUALS Zq7xKw]}'
  expect((await problems(`- name: A\n    type: URL\n${line}`)).join()).not.toContain('Zq7xKw')
  const fields = 'source: JSON_BODY, property: $.password, comparison: LESS_THAN, target: Zq7xKw'
  const [mapping] = await problems(apiAssertion(`{${fields}}`))
  expect(mapping).toMatch(/assertions\[0\]\.target: .+/)
  expect(mapping).not.toContain('Zq7xKw')
})

test.each([
  ['a password with a comma', 'basicAuth: {username: bob, password: Hun,Zq7xKw!}', 'in quotes'],
  ['a header with a comma', 'headers: [{key: Authorization, value: Bearer a,Zq7xKw}]', 'in quotes'],
  ['a key in place of its path', 'tls: {privateKeyFile: -----BEGIN Zq7xKw}', 'does not exist'],
])('%s is not shown', async (_, line, fix) => {
  const all = `- {name: A, type: API, request: {method: GET, url: "http://a.test/", ${line}}}`
  const found = await problems(all)
  expect(found[0]).toContain(fix)
  expect(found.join()).not.toContain('Zq7xKw')
})

test('each problem has its line', async () => {
  const wrongTypes = 'activated: "yes"\n    muted: 1\n    tags: x\n    degradedResponseTime: fast'
  expect(await problems(urlRequest(`    ${wrongTypes}`))).toEqual([
    ':6:16  monitors[0].activated: must be true or false (got "yes")',
    ':7:12  monitors[0].muted: must be true or false (got 1)',
    ':8:11  monitors[0].tags: must be a list (got "x")',
    ':9:27  monitors[0].degradedResponseTime: must be a whole number of milliseconds (got "fast")',
  ])
  const huge = '    maxResponseTime: 1e400\n    degradedResponseTime: 99999999999999999999'
  expect(await problems(urlRequest(huge))).toEqual([
    ':6:22  monitors[0].maxResponseTime: must be a whole number of milliseconds (got Infinity)',
    ':7:27  monitors[0].degradedResponseTime: must be at most 45000 (got 100000000000000000000)',
  ])
  expect(await problems('- type: URL')).toEqual([
    ':1:3  monitors[0].name: is missing',
    ':1:3  monitors[0].request: is missing',
  ])
})

test.each<[string, string, string]>([
  ['monitors:\n\t- name: A', ':2:1  ', 'a tab in the indentation'],
  ['monitors: [', ':1:12  ', 'a bracket is not closed'],
  ['monitors: []\nmonitors: []', ':2:1  ', 'the same key twice'],
  ['monitors: []\n---\nmonitors: []', ':2:1  ', 'a second document begins here'],
  ['location: @x', ':1:11  ', 'put it in quotes'],
  ['monitors:\n  - name: A\n     type: URL', ':3:6  ', 'indented too far'],
  ['monitors:\n  - name: "A"\n     type: URL', ':3:6  ', 'wrong indentation'],
  ['monitors:\n  - name: A\n   type: URL', ':3:4  ', 'wrong indentation'],
  ['monitors:\n  - name: A\n    type', ':3:5  ', 'a colon is missing'],
  ['monitors: [{name: A type: URL}]', ':1:', 'comma'],
  ['monitors:\n  - name: "A\n    type: URL', ':2:11  ', 'a quote opens here'],
  ['monitors:\n  - name: "A\n    type: "URL"\n', ':2:11  ', 'a quote opens here'],
  ['monitors:\n  - {name: "A}\n  - {name: "B"}\n', ':2:12  ', 'a quote opens here'],
  ['location: "A\n  B"#note', ':2:5  ', 'a space is missing before the #'],
  ['location: !x y', ':1:11  ', 'an unknown tag'],
  ['location: *x', ':1:11  ', 'an alias (*name) without its anchor'],
  ['monitors: &a [*a]', ':1:15  ', 'refers to itself'],
  ['monitors:\n  - &a {x: {y: [*a]}}', ':2:17  ', 'refers to itself'],
])('not YAML: %j', async (content, place, detail) => {
  const [first = ''] = await problems(content)
  expect(first.startsWith(place)).toBe(true)
  expect(first).toContain(detail)
})

test('aliases of aliases that would fill the memory', async () => {
  const rows = 'bcdefghijkl'
    .split('')
    .map((name, index) => `${name}: &${name} [${`*${'abcdefghijk'[index]},`.repeat(10)}]`)
  expect(await problems(`a: &a [1]\n${rows.join('\n')}`)).toEqual([
    ':1:1  aliases expand to more than 5000000 values',
  ])
})

test('nesting without end', async () => {
  expect((await problems('['.repeat(100_000)))[0]).toContain('nested more than 64 deep')
  expect((await problems('- '.repeat(70)))[0]).toContain('nested more than 64 deep')
})

test('many problems: the first 50 by line, and the count of the rest', async () => {
  const content = Array.from({ length: 70 }, (_, n) => `- ${n}`).join('\n')
  const lines = await problems(content)
  const read = await readMonitorsFile(write(content), {}, MONITOR_TYPES)
  expect(lines).toHaveLength(51)
  expect(lines[49]).toContain(':50:3  monitors[49]: must be a monitor')
  expect(lines[50]).toBe('  … and 20 more')
  expect(countedProblems(read.ok ? [] : read.problems)).toBe('70 problems')
})

test('an interval that is too short is reported together with a bad field', async () => {
  const lines = await problems(
    'monitors:\n  - {name: A, type: BROWSER, script: "1", every: 10s, runtimeId: "2019"}\n',
  )
  expect(lines).toEqual([
    expect.stringContaining('monitors[0].every: BROWSER monitors run at most once a minute'),
    expect.stringContaining('monitors[0].runtimeId: must be one of'),
  ])
})

test('problems of all kinds at once, by line', async () => {
  const lines = await problems(
    'monitors:\n  - {name: A, type: HEARTBEAT}\n  - {name: B, type: URL, every: 7m, request: {url: x}}\nlocaton: x\n',
  )
  expect(lines.map((one) => one.split('  ')[0])).toEqual([':2:21', ':3:33', ':3:52', ':4:1'])
})
