// Aim: a monitors file means what its writer meant: the wire form, the shorthands, defaults, variables,
// secrets and files that it names.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { readMonitorsFile } from '../../../src/agent/monitors-file/file.ts'
import { MONITOR_TYPES } from '../../../src/monitors/registry.ts'
import {
  apiAssertion,
  createFilesFolder,
  urlMonitor,
  urlRequest,
} from '../../support/agent/monitors-files.ts'

const { folder, write, load } = createFilesFolder()

describe('a valid file', () => {
  test('a list alone is a list of monitors', async () => {
    const file = await load('- {name: A, type: URL, request: {url: "http://a.test/"}}')
    expect(file.monitors).toMatchObject([{ id: 'a', name: 'A', checkType: 'URL', frequency: 10 }])
  })

  test('the wire form of the public API works unchanged', async () => {
    const wire = {
      id: 'x',
      name: 'X',
      checkType: 'API',
      frequency: 0,
      frequencyOffset: 30,
      locations: ['eu-west-1'],
      request: {
        method: 'GET',
        url: 'http://a.test/',
        assertions: [
          { source: 'STATUS_CODE', property: '', comparison: 'EQUALS', target: '200', regex: null },
        ],
      },
    }
    const file = await load(JSON.stringify({ monitors: [wire] }))
    expect(file.monitors).toMatchObject([wire])
  })

  test('keys that begin with x- are the user’s own, as for anchors', async () => {
    const base = 'x-base: &base {type: URL, every: 30s, request: {url: "http://a.test/"}}'
    const file = await load(`${base}\nmonitors:\n  - {<<: *base, name: A}\n`)
    expect(file.monitors).toMatchObject([{ id: 'a', frequencyOffset: 30 }])
  })

  test('location, proxy, variables and secrets of the file', async () => {
    const file = await load(
      `location: lab\nproxyUrl: http://u:{{PASS}}@proxy:3128\nvariables: {A: 1, B: true, C: x}\nsecrets: [PASS]\n${urlRequest('')}`,
      { PASS: 'hidden' },
    )
    expect(file).toMatchObject({ location: 'lab', proxyUrl: 'http://u:hidden@proxy:3128' })
    expect(file.variables).toEqual([
      { key: 'A', value: '1', locked: false, secret: false },
      { key: 'B', value: 'true', locked: false, secret: false },
      { key: 'C', value: 'x', locked: false, secret: false },
      { key: 'PASS', value: 'hidden', locked: true, secret: true },
    ])
  })

  test.each([
    ['one section', 0],
    ['many sections', 1000],
  ])('numbers that become texts stand as they are written: %s', async (_, more) => {
    const target = (text: string) => `{source: TEXT_BODY, comparison: CONTAINS, target: ${text}}`
    const written = ['1.10', '0o17', '12345678901234567890', '1e3', '-0.50']
    const assertions = ['&id 007', '*id', ...written].map((one) => `        - ${target(one)}\n`)
    const monitor = (index: number) =>
      `  - name: A${index}\n    type: API\n    request:\n      url: http://a.test/\n      method: GET\n`
    const others = Array.from({ length: more }, (__, index) => monitor(index + 1)).join('')
    const file = await load(
      `variables: {LONG: 12345678901234567890, VERSION: 1.10}\nmonitors:\n${monitor(0)}      assertions:\n${assertions.join('')}${others}`,
    )
    expect(file.monitors).toHaveLength(more + 1)
    const { request } = file.monitors[0] as unknown as {
      request: { assertions: { target: string }[] }
    }
    expect(request.assertions.map((one) => one.target)).toEqual(['007', '007', ...written])
    const hardlyMeant = file.warnings.map(({ message }) => /^the target (\S+)/.exec(message)?.[1])
    expect(hardlyMeant).toEqual(['007', '0o17'])
    expect(file.variables).toMatchObject([
      { key: 'LONG', value: '12345678901234567890' },
      { key: 'VERSION', value: '1.10' },
    ])
  })

  test('variables in the wire form', async () => {
    const file = await load(`variables: [{key: A, value: x, secret: true}]\n${urlRequest('')}`)
    expect(file.variables).toEqual([{ key: 'A', value: 'x', locked: false, secret: true }])
  })

  test('a secret comes from a file too, without its last line end', async () => {
    const path = write('from a file\n', 'secret')
    const file = await load(`secrets: [TOKEN]\n${urlRequest('')}`, { TOKEN_FILE: path })
    expect(file.variables[0]?.value).toBe('from a file')
  })

  test('variables stay as written in a monitor, for the run to put in', async () => {
    const file = await load(
      `variables: {HOST: a.test}\n${urlMonitor('    request: {url: "http://{{ HOST }}/"}')}`,
    )
    expect(file.monitors[0]?.['request']).toEqual({ url: 'http://{{ HOST }}/' })
  })

  test('a variable may stand where a number is wanted', async () => {
    const file = await load(
      'variables: {PORT: 8080}\nmonitors: [{name: A, type: TCP, request: {hostname: h, port: "{{PORT}}"}}]',
    )
    expect(file.monitors[0]?.['request']).toEqual({ hostname: 'h', port: 8080 })
  })

  test("a monitor's own variables go before the file's", async () => {
    const own = '    environmentVariables: [{key: URL, value: "http://own.test/"}]'
    const file = await load(
      `variables: {URL: no}\n${urlMonitor(`${own}\n    request: {url: "{{URL}}"}`)}`,
    )
    expect(file.monitors[0]?.environmentVariables).toMatchObject([{ key: 'URL' }])
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

  test('anchors and merge keys', async () => {
    const file = await load(
      'monitors:\n  - &base {name: A, type: URL, request: {url: "http://a.test/"}}\n  - {<<: *base, name: B}',
    )
    expect(file.monitors.map((one) => one.id)).toEqual(['a', 'b'])
  })

  test.each([
    ['Log in (EU)', 'log-in-eu'],
    ['  Größe: 5 % ', 'gro-e-5'],
    ['École', 'ecole'],
    ['監視', 'monitor-1869d7b2fb88'],
  ])('the name %j gives the id %j', async (name, id) => {
    const monitor = { name, type: 'URL', request: { url: 'http://a.test/' } }
    const file = await load(JSON.stringify([monitor]))
    expect(file.monitors[0]?.id).toBe(id)
  })

  test.each<[string, object]>([
    ['1s', { frequency: 0, frequencyOffset: 1 }],
    ['59s', { frequency: 0, frequencyOffset: 59 }],
    ['60s', { frequency: 1 }],
    ['120 m', { frequency: 120 }],
    ['1h', { frequency: 60 }],
    ['1d', { frequency: 1440 }],
  ])('every: %s', async (every, pair) => {
    const file = await load(urlRequest(`    every: ${every}`))
    expect(file.monitors).toMatchObject([pair])
  })

  test.each<[string, object]>([
    ['STATUS_CODE EQUALS 200', { source: 'STATUS_CODE', property: '', target: '200' }],
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
    const certificate = expect.stringContaining('BEGIN CERTIFICATE') as string
    const privateKey = expect.stringContaining('PRIVATE KEY') as string
    const tls = { ca: certificate, certificate, privateKey }
    expect(read).toMatchObject({ file: { monitors: [{ request: { tls } }] } })
  })

  test.each([
    ['a byte order mark', (text: string) => `\uFEFF${text}`],
    ['Windows line ends', (text: string) => text.replaceAll('\n', '\r\n')],
    ['a document mark', (text: string) => `---\n${text}`],
  ])('with %s', async (_, change) => {
    expect((await load(change(urlRequest('')))).monitors).toHaveLength(1)
  })

  test('is odd when nothing can come of it', async () => {
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
    ['0.5', false],
    ['-1.50e3', false],
    ['".5"', false],
  ])('is odd when a target is a number for YAML alone: %s', async (target, isOdd) => {
    const assertion = `{source: JSON_BODY, property: $.a, comparison: EQUALS, target: ${target}}`
    const { warnings } = await load(apiAssertion(assertion))
    const column = assertion.indexOf(target) + 11
    expect(warnings).toMatchObject(isOdd ? [{ line: 8, column }] : [])
  })

  test('is odd when a secret is too short to be scrubbed', async () => {
    const text = `secrets: [PIN]\n${apiAssertion('STATUS_CODE EQUALS 200')}`
    const { warnings } = await load(text, { PIN: '42' })
    expect(warnings).toMatchObject([
      { line: 1, path: 'secrets', message: expect.stringContaining('PIN') as string },
    ])
  })
})
