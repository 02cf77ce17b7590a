// A monitors file means what its writer meant: wire form, shorthands, defaults, variables, secrets and files.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readMonitorsFile } from '../../../src/agent/monitors-file/file.ts'
import { MONITOR_TYPES } from '../../../src/monitors/registry.ts'
import { apiAssertion, createFilesFolder, urlRequest } from '../../support/agent/monitors-files.ts'

const { folder, write, load } = createFilesFolder()

test('a list alone is a list of monitors', async () => {
  const file = await load('- {name: A, type: URL, request: {url: "http://a.test/"}}')
  expect(file.monitors).toMatchObject([{ id: 'a', name: 'A', checkType: 'URL', frequency: 10 }])
})

test('the wire form of the public API works unchanged', async () => {
  const status = { source: 'STATUS_CODE', comparison: 'EQUALS', target: '200' }
  const assertions = [{ ...status, property: '', regex: null }]
  const about = { id: 'x', name: 'X', checkType: 'API', locations: ['eu-west-1'] }
  const request = { method: 'GET', url: 'http://a.test/', assertions }
  const wire = { ...about, frequency: 0, frequencyOffset: 30, request }
  const file = await load(JSON.stringify({ monitors: [wire] }))
  expect(file.monitors).toMatchObject([wire])
})

test.each([
  ['of the user’s own', 'x-b: &b {type: URL, request: {url: "http://a/"}}\nmonitors:', ['b']],
  ['of one', 'monitors:\n  - &b {name: A, type: URL, request: {url: "http://a/"}}', ['a', 'b']],
])('anchors and merge keys %s', async (_, text, ids) => {
  const file = await load(`${text}\n  - {<<: *b, name: B}\n`)
  expect(file.monitors.map(({ id }) => id)).toEqual(ids)
})

test('location, proxy, variables and secrets of the file', async () => {
  const file = await load(
    `location: lab\nproxyUrl: http://u:{{PASS}}@proxy:3128\nvariables: {A: 1, B: true}\nsecrets: [PASS]\n${urlRequest('')}`,
    { PASS: 'hidden' },
  )
  expect(file).toMatchObject({ location: 'lab', proxyUrl: 'http://u:hidden@proxy:3128' })
  expect(file.variables).toEqual([
    { key: 'A', value: '1', locked: false, secret: false },
    { key: 'B', value: 'true', locked: false, secret: false },
    { key: 'PASS', value: 'hidden', locked: true, secret: true },
  ])
  const wire = await load(`variables: [{key: A, value: x, secret: true}]\n${urlRequest('')}`)
  expect(wire.variables).toEqual([{ key: 'A', value: 'x', locked: false, secret: true }])
})

test.each([
  ['one section', 0],
  ['many sections', 1000],
])('numbers that become texts stand as they are written: %s', async (_, more) => {
  const assertion = (text: string) => `{source: TEXT_BODY, comparison: CONTAINS, target: ${text}}`
  const written = ['1.10', '0o17', '12345678901234567890', '1e3', '-0.50']
  const assertions = ['&id 007', '*id', ...written].map((one) => `        - ${assertion(one)}\n`)
  const monitor = (index: number) =>
    `  - name: A${index}\n    type: API\n    request:\n      url: http://a.test/\n      method: GET\n`
  const others = Array.from({ length: more }, (__, index) => monitor(index + 1)).join('')
  const file = await load(
    `variables: {LONG: 12345678901234567890, VERSION: 1.10}\nmonitors:\n${monitor(0)}      assertions:\n${assertions.join('')}${others}`,
  )
  expect(file.monitors).toHaveLength(more + 1)
  const targets = ['007', '007', ...written].map((one) => ({ target: one }))
  expect(file.monitors[0]).toMatchObject({ request: { assertions: targets } })
  const hardlyMeant = file.warnings.map(({ message }) => /^the target (\S+)/.exec(message)?.[1])
  expect(hardlyMeant).toEqual(['007', '0o17'])
  expect(file.variables).toMatchObject([
    { key: 'LONG', value: '12345678901234567890' },
    { key: 'VERSION', value: '1.10' },
  ])
})

test('a secret comes from a file too, without its last line end', async () => {
  const path = write('from a file\n', 'secret')
  const file = await load(`secrets: [TOKEN]\n${urlRequest('')}`, { TOKEN_FILE: path })
  expect(file.variables[0]?.value).toBe('from a file')
  const wrong = load(`secrets: [TOKEN]\n${urlRequest('')}`, { TOKEN_FILE: 'ghp_Zq7xKw' })
  const shown = await wrong.catch(String)
  expect(shown).toMatch(/TOKEN_FILE is .* does not exist/)
  expect(shown).not.toContain('Zq7xKw')
})

test('variables stay as written for the run, but numbers; those of a monitor go before the file’s', async () => {
  const own = 'environmentVariables: [{key: URL, value: "http://own.test/"}]'
  const file = await load(
    'variables: {PORT: 8080, URL: no}\nmonitors:\n' +
      '  - {name: A, type: TCP, request: {hostname: h, port: "{{PORT}}"}}\n' +
      `  - {name: B, type: URL, request: {url: "{{ URL }}"}, ${own}}\n`,
  )
  const requests = file.monitors.map((one) => one['request'])
  expect(requests).toEqual([{ hostname: 'h', port: 8080 }, { url: '{{ URL }}' }])
  expect(file.monitors[1]?.environmentVariables).toMatchObject([{ key: 'URL' }])
})

test('defaults apply to every monitor without its own value', async () => {
  const file = await load(
    'defaults: {every: 5s, tags: [x], type: URL, request: {skipSSL: true}}\nmonitors:\n' +
      '  - {name: A, request: {url: "http://a.test/"}}\n' +
      '  - {name: B, every: 5m, request: {url: "http://b.test/", skipSSL: false}}',
  )
  expect(file.monitors).toMatchObject([
    { frequency: 0, frequencyOffset: 5, tags: ['x'], request: { skipSSL: true } },
    { frequency: 5, tags: ['x'], request: { skipSSL: false } },
  ])
  expect(file.monitors[1]?.frequencyOffset).toBeUndefined()
})

test.each([
  ['Log in (EU)', 'log-in-eu'],
  ['École', 'ecole'],
  ['監視', 'monitor-1869d7b2fb88'],
])('the name %j gives the id %j', async (name, id) => {
  const monitor = { name, type: 'URL', request: { url: 'http://a.test/' } }
  const file = await load(JSON.stringify([monitor]))
  expect(file.monitors[0]?.id).toBe(id)
})

test.each<[string, object]>([
  ['59s', { frequency: 0, frequencyOffset: 59 }],
  ['60s', { frequency: 1 }],
  ['120 m', { frequency: 120 }],
  ['1d', { frequency: 1440 }],
])('every: %s', async (every, pair) => {
  const file = await load(urlRequest(`    every: ${every}`))
  expect(file.monitors).toMatchObject([pair])
})

test.each<[string, object]>([
  ['JSON_BODY $.status EQUALS ok', { source: 'JSON_BODY', property: '$.status', target: 'ok' }],
  ['HEADERS content-type CONTAINS json', { source: 'HEADERS', property: 'content-type' }],
  ['TEXT_BODY "a b" NOT_EMPTY', { property: 'a b', comparison: 'NOT_EMPTY' }],
  ['TEXT_BODY "say \\"hi\\" \\d+" NOT_EMPTY', { property: 'say "hi" \\d+' }],
  ["TEXT_BODY 'EQUALS x' CONTAINS y", { property: 'EQUALS x', comparison: 'CONTAINS' }],
  ['TEXT_BODY CONTAINS two words', { property: '', target: 'two words' }],
  ['TEXT_BODY EQUALS ""', { property: '', comparison: 'EQUALS', target: '' }],
  ['JSON_BODY $.a[?(@.n == "x y")] NOT_NULL', { property: '$.a[?(@.n == "x y")]' }],
  ['RESPONSE_TIME LESS_THAN 500', { source: 'RESPONSE_TIME', target: '500' }],
])('the line %s', async (line, assertion) => {
  const file = await load(apiAssertion(JSON.stringify(line)))
  expect(file.monitors).toMatchObject([{ request: { assertions: [assertion] } }])
})

test('files of tls are read from the folder of the monitors file', async () => {
  const args = 'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=a'
  const files = ['-keyout', 'a.key', '-out', 'a.crt']
  execFileSync('openssl', [...args.split(' '), ...files], { cwd: folder, stdio: 'ignore' })
  const path = write(
    urlRequest('      tls: {caFile: a.crt, certificateFile: a.crt, privateKeyFile: a.key}'),
  )
  const read = await readMonitorsFile(path, {}, MONITOR_TYPES)
  expect(read.files).toEqual([path, join(folder, 'a.crt'), join(folder, 'a.key')])
  const certificate = expect.stringContaining('BEGIN CERTIFICATE')
  const tls = { ca: certificate, certificate, privateKey: expect.stringContaining('PRIVATE KEY') }
  expect(read).toMatchObject({ file: { monitors: [{ request: { tls } }] } })
})

test.each([
  ['a byte order mark', (text: string) => `\uFEFF${text}`],
  ['Windows line ends', (text: string) => text.replaceAll('\n', '\r\n')],
  ['a document mark', (text: string) => `---\n${text}`],
])('a file with %s', async (_, change) => {
  expect((await load(change(urlRequest('')))).monitors).toHaveLength(1)
})

test('a file is odd when nothing can come of it', async () => {
  expect((await load('monitors: []')).warnings.map((one) => one.message)).toEqual([
    'is empty: nothing is monitored',
  ])
  const file = await load(urlRequest('    maxResponseTime: 100\n    degradedResponseTime: 100'))
  expect(file.warnings).toMatchObject([{ line: 7, path: 'monitors[0].degradedResponseTime' }])
})

test.each([
  ['.5', true],
  ['+5', true],
  ['5.', true],
  ['.inf', true],
  ['-1.50e3', false],
  ['".5"', false],
])('a file is odd when a target is a number for YAML alone: %s', async (target, isOdd) => {
  const assertion = `{source: JSON_BODY, property: $.a, comparison: EQUALS, target: ${target}}`
  const { warnings } = await load(apiAssertion(assertion))
  const column = assertion.indexOf(target) + 11
  expect(warnings).toMatchObject(isOdd ? [{ line: 8, column }] : [])
})

test('a file is odd when a secret is too short to be scrubbed', async () => {
  const text = `secrets: [PIN]\n${apiAssertion('STATUS_CODE EQUALS 200')}`
  const { warnings } = await load(text, { PIN: '42' })
  const message = expect.stringContaining('PIN')
  expect(warnings).toMatchObject([{ line: 1, path: 'secrets', message }])
})
