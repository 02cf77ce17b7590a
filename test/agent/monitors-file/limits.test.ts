// No file makes the reader throw, hang, misplace a line or reveal a secret.
import { chmodSync, symlinkSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { parseYaml } from '../../../src/agent/monitors-file/yaml.ts'
import { readMonitorsFile } from '../../../src/agent/monitors-file/file.ts'
import { LIMITS } from '../../../src/contract/versions.ts'
import { MONITOR_TYPES } from '../../../src/monitors/registry.ts'
import {
  apiAssertion,
  createFilesFolder,
  urlMonitor,
  urlRequest,
} from '../../support/agent/monitors-files.ts'

const { folder, write, load, problems } = createFilesFolder()

describe('a file that cannot be had', () => {
  const refused = (file: string, detail: string) => ({
    ok: false,
    problems: [{ file, path: '', message: expect.stringContaining(detail) }],
  })

  test.each<[string, () => string, string]>([
    ['no such file', () => join(folder, 'none.yaml'), 'does not exist'],
    ['a folder', () => folder, 'is a folder'],
    ['a path through a file', () => join(write('x'), 'y'), 'is below a file'],
    ['a link in a circle', circle, 'refers to itself'],
    ['a device', () => '/dev/zero', 'is not a regular file'],
    ['a binary', () => write(new Uint8Array([0x7f, 0x45, 0, 1])), 'is not a text file'],
    ['Latin-1', () => write(new Uint8Array([0x61, 0xe9, 0x62])), 'is not valid UTF-8'],
    ['UTF-16', () => write(new Uint8Array([0xff, 0xfe, 0x61, 0])), 'is in UTF-16'],
    ['a path with a NUL', () => 'a\0b', 'is not a valid path'],
    ['a file larger than the limit', large, 'is larger than'],
  ])('%s', async (_, pathOf, detail) => {
    const path = pathOf()
    expect(await readMonitorsFile(path, {}, MONITOR_TYPES)).toMatchObject(refused(path, detail))
  })

  test('a file that this user may not read', async () => {
    const path = write('monitors: []')
    chmodSync(path, 0)
    const read = await asNobody(() => readMonitorsFile(path, {}, MONITOR_TYPES))
    expect(read).toMatchObject(refused(path, 'permission denied'))
  })
})

const NAMELESS = '[{key: "", value: hush-hush, secret: true}]'

test.each<[string, string]>([
  ['a text for basicAuth', urlRequest('      basicAuth: hush-hush').replace('URL', 'API')],
  ['a text for a header', urlRequest('      headers: [hush-hush]').replace('URL', 'API')],
  ['a key that is none', urlRequest('      tls: {privateKey: hush-hush}')],
  ['a wrong password', urlRequest('      basicAuth: {username: u, password: [hush-hush]}')],
  ['a wrong header', urlRequest('      headers: {cookie: hush-hush}').replace('URL', 'API')],
  ['a text for parameters', urlRequest('      queryParameters: hush-hush').replace('URL', 'API')],
  [
    'a text for metadata',
    urlRequest('      grpcConfig: {metadata: hush-hush}').replace('URL', 'GRPC'),
  ],
  ['a value put into a URL', `secrets: [S]\n${urlMonitor('    request: {url: "{{S}}"}')}`],
  ['a value put into a regex', `secrets: [S]\n${apiAssertion('"TEXT_BODY ({{S}} NOT_EMPTY"')}`],
  ['credentials without a scheme', urlMonitor('    request: {url: "u:hush-hush@a.test"}')],
  ['a blank in credentials', urlMonitor('    request: {url: "http://u:a hush-hush@a:99999/"}')],
  ['credentials in a URL', urlMonitor('    request: {url: "ftp://u:hush-hush@a.test/"}')],
  ['parameters of a URL', urlMonitor('    request: {url: "ftp://a.test/?token=hush-hush"}')],
  ['a secret among the names', `secrets: ["hush-hush!"]\n${urlRequest('')}`],
  ['a bad proxy', `secrets: [S]\nproxyUrl: "ftp://u:{{S}}@x"\n${urlRequest('')}`],
  ['what is no YAML', 'variables: {PASSWORD: "hush-hush" "hush-hush"}'],
  ['a variable without a name', urlRequest(`    environmentVariables: ${NAMELESS}`)],
])('secrets are in no message: %s', async (_, content) => {
  const lines = await problems(content, { S: 'hush-hush' })
  expect(lines.length).toBeGreaterThan(0)
  expect(lines.join('\n')).not.toContain('hush')
})

const PLAIN = urlRequest('')
const BEARER = urlRequest(
  '      method: GET\n      headers: [{key: Authorization, value: "Bearer {{S}}"}]',
).replace('URL', 'API')
const long = 'hush-hush'.repeat(LIMITS.secretCharactersMax / 9 + 1)

test.each<[string, string, string]>([
  ['of the environment', `secrets: [S]\n${PLAIN}`, 'secrets[0]'],
  ['of the list', `variables: [{key: S, value: ${long}, secret: true}]\n${PLAIN}`, 'variables[0]'],
  ['in a header', `variables: {S: ${long}}\n${BEARER}`, 'monitors[0].request.headers[0].value'],
])('a secret over the limit %s is refused with its place', async (_, content, place) => {
  const lines = await problems(content, { S: long })
  expect(lines).toHaveLength(1)
  expect(lines[0]).toContain(`${place}: `)
  expect(lines[0]).toContain(String(LIMITS.secretCharactersMax))
  expect(lines[0]).not.toContain('hush')
})

describe('large files', () => {
  const item = (n: number) =>
    `  - name: Site ${n}\n    type: URL\n    every: 10s\n    request:\n      url: http://127.0.0.1:8080/p/${n}\n      assertions:\n        - STATUS_CODE EQUALS 200\n`
  const items = (length: number) => Array.from({ length }, (_, n) => item(n)).join('')

  test('say the same as small ones, whatever stands around the list', async () => {
    const head = '# head\nlocation: lab\nmonitors: # all\n'
    const file = await load(`${head}${items(1000)}\nvariables: {A: 1}\n`)
    expect(file.monitors).toHaveLength(1000)
    const request = { url: 'http://127.0.0.1:8080/p/999' }
    expect(file.monitors[999]).toMatchObject({ id: 'site-999', request })
    expect(file).toMatchObject({ location: 'lab', variables: [{ key: 'A' }] })
    const list = await load(items(1000).replaceAll(/^ {2}/gm, ''))
    expect(list.monitors).toEqual(file.monitors)
  })

  test('have their problems at the right lines', async () => {
    const text = `monitors:\n${items(1000)}  - name: B\n    typ: URL\nvariables: 5\n`
    expect(await problems(text)).toEqual([
      ':7003:5  monitors[1000].typ: unknown key; did you mean type?',
      ':7004:12  variables: must be a mapping of names to values, like HOST: example.com',
    ])
  })

  test('have their syntax errors at the right lines', async () => {
    expect((await problems(`monitors:\n${items(1000)}  - name: "B\n`))[0]).toMatch(/^:7002:/)
    expect((await problems(`monitors:\n${items(1000)}\n--- 5\n`))[0]).toMatch(/^:7003:/)
    const twice = await problems(`monitors:\n${items(1000)}monitors: []\n`)
    expect(twice[0]).toMatch(/^:7002:1 {2}the same key/)
  })

  test('with too many monitors are refused before they are read', async () => {
    const count = LIMITS.monitorsMax + 1
    const lines = await problems(`monitors:\n${'  - @\n'.repeat(count)}`)
    expect(lines).toEqual([`:2:1  has ${count} monitors; at most ${count - 1} are allowed`])
  })

  test('may have anchors that are used far away', async () => {
    const file = await load(
      `monitors:\n  - &base {name: A, type: URL, request: {url: "http://a.test/"}}\n${items(1000)}  - {<<: *base, name: Z}\n`,
    )
    expect(file.monitors.at(-1)).toMatchObject({ id: 'z', request: { url: 'http://a.test/' } })
  })
})

describe('whatever is in a file', () => {
  const KEYS =
    'monitors name type checkType every request url assertions tls caFile variables secrets ' +
    'defaults location proxyUrl headers __proto__ constructor toString'
  const VALUES = ['URL', 'API', 'TCP', 'http://a.test/', '{{X}}', 'STATUS_CODE EQUALS 200', '30s']
  const fragments = fc.constantFrom(...KEYS.split(' '), ...VALUES, '<<')
  const { value: anything } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 6, depthSize: 'small' },
      fc.oneof(fragments, fc.string(), fc.double(), fc.boolean(), fc.constant(null)),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(fragments, tie('value'), { maxKeys: 6, noNullPrototype: true }),
    ),
  }))

  test('reading any text or value gives monitors or problems', async () => {
    const values = fc.dictionary(fragments, anything).map((value) => stringify(value))
    const texts = fc.oneof(fc.string({ unit: 'binary', maxLength: 200 }), values)
    const property = fc.asyncProperty(texts, async (text) => {
      const read = await readMonitorsFile(write(text, 'any.yaml'), {}, MONITOR_TYPES)
      expect(read.ok || read.problems.length > 0).toBe(true)
      expect(({} as Record<string, unknown>)['a']).toBeUndefined()
    })
    await fc.assert(property, { numRuns: 200 })
  })

  // `String` calls what a mapping has as `toString`.
  test.each([
    'monitors: [{name: a, type: {toString: {}}, request: {}}]',
    'monitors: [{name: a, type: URL, every: {toString: 1}, request: {url: "http://a.test/"}}]',
    'variables: [{key: {toString: {}}}]\nmonitors: []',
  ])('a mapping in the place of a text is a problem: %s', async (text) => {
    const read = await readMonitorsFile(write(text, 'any.yaml'), {}, MONITOR_TYPES)
    expect(read.ok).toBe(false)
  })

  test('a list is read the same in sections and in one piece', async () => {
    const words = fc.oneof(fc.string({ unit: 'binary' }), fc.lorem({ mode: 'sentences' }))
    const scalar = fc.oneof(fragments, words)
    const value = fc.oneof(scalar, fc.array(scalar))
    // Without quotes, `<<` is no name: it merges.
    const name = fc.string({ minLength: 1 }).filter((one) => one !== '<<')
    const entry = fc.dictionary(name, value, { noNullPrototype: true })
    const lists = fc.array(entry, { minLength: 5 })
    const property = fc.asyncProperty(lists, fc.boolean(), async (list, indentSeq) => {
      // Long enough to be cut.
      const padded = list.map((one) => ({ ...one, padding: 'x'.repeat(500) }))
      const file = { monitors: Array.from({ length: 8 }, () => padded).flat(), location: 'x' }
      const parsed = await parseYaml(stringify(file, { indentSeq, aliasDuplicateObjects: false }))
      expect(parsed.problems).toEqual([])
      expect(parsed.value).toEqual(file)
    })
    await fc.assert(property, { numRuns: 20 })
  })
})

function large(): string {
  const path = write('')
  truncateSync(path, LIMITS.monitorsFileBytesMax + 1)
  return path
}

function circle(): string {
  const path = join(folder, 'circle.yaml')
  symlinkSync('circle.yaml', path)
  return path
}

/** Runs as a user without rights where we are root, who may read everything. */
async function asNobody<T>(action: () => Promise<T>): Promise<T> {
  const user = process.geteuid?.()
  if (user !== 0) return action()
  chmodSync(folder, 0o755)
  process.seteuid?.(65_534)
  try {
    return await action()
  } finally {
    process.seteuid?.(0)
  }
}
