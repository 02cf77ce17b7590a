// Aim: no file, however it is made or missing, makes the reader throw, hang, misplace a line or reveal a
// secret.
import { execFileSync } from 'node:child_process'
import { chmodSync, symlinkSync } from 'node:fs'
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
  test.each<[string, () => string, string]>([
    ['no such file', () => join(folder, 'none.yaml'), 'does not exist'],
    ['a folder', () => folder, 'is a folder'],
    ['a path through a file', () => join(write('x'), 'y'), 'is below a file'],
    ['a link in a circle', () => circle(), 'refers to itself'],
    ['a device', () => '/dev/zero', 'is not a regular file'],
    ['a binary', () => write(new Uint8Array([0x7f, 0x45, 0, 1])), 'is not a text file'],
    ['Latin-1', () => write(new Uint8Array([0x61, 0xe9, 0x62])), 'is not valid UTF-8'],
    ['UTF-16', () => write(new Uint8Array([0xff, 0xfe, 0x61, 0])), 'is in UTF-16'],
    ['a path with a NUL', () => 'a\0b', 'is not a valid path'],
  ])('%s', async (_, path, detail) => {
    const named = path()
    const message = expect.stringContaining(detail) as string
    const read = await readMonitorsFile(named, {}, MONITOR_TYPES)
    expect(read).toMatchObject({ ok: false, problems: [{ file: named, path: '', message }] })
  })

  test('a file that this user may not read', async () => {
    const path = write('monitors: []')
    chmodSync(path, 0)
    const read = await asNobody(() => readMonitorsFile(path, {}, MONITOR_TYPES))
    const message = expect.stringContaining('permission denied') as string
    expect(read).toMatchObject({ ok: false, problems: [{ message }] })
  })

  test('a file larger than the limit is not read', async () => {
    const path = join(folder, 'large.yaml')
    execFileSync('truncate', ['-s', String(LIMITS.monitorsFileBytesMax + 1), path])
    const read = await readMonitorsFile(path, {}, MONITOR_TYPES)
    const message = expect.stringContaining('is larger than') as string
    expect(read).toMatchObject({ ok: false, problems: [{ message }] })
  })
})

const NAMELESS = '[{key: "", value: hush-hush, secret: true}]'

describe('secrets', () => {
  test.each<[string, string]>([
    ['a text for basicAuth', urlRequest('      basicAuth: hush-hush').replace('URL', 'API')],
    ['a text for a header', urlRequest('      headers: [hush-hush]').replace('URL', 'API')],
    ['a key that is none', urlRequest('      tls: {privateKey: hush-hush}')],
    ['a wrong password', urlRequest('      basicAuth: {username: u, password: [hush-hush]}')],
    ['a wrong header', urlRequest('      headers: {cookie: hush-hush}').replace('URL', 'API')],
    ['a value put into a URL', `secrets: [S]\n${urlMonitor('    request: {url: "{{S}}"}')}`],
    ['a value put into a regex', `secrets: [S]\n${apiAssertion('"TEXT_BODY ({{S}} NOT_EMPTY"')}`],
    ['credentials in a URL', urlMonitor('    request: {url: "ftp://u:hush-hush@a.test/"}')],
    ['a secret among the names', `secrets: ["hush-hush!"]\n${urlRequest('')}`],
    ['a bad proxy', `secrets: [S]\nproxyUrl: "ftp://u:{{S}}@x"\n${urlRequest('')}`],
    ['what is no YAML', 'variables: {PASSWORD: "hush-hush" "hush-hush"}'],
    ['a variable without a name', urlRequest(`    environmentVariables: ${NAMELESS}`)],
  ])('are in no message: %s', async (_, content) => {
    const lines = await problems(content, { S: 'hush-hush' })
    expect(lines.length).toBeGreaterThan(0)
    expect(lines.join('\n')).not.toContain('hush')
  })
})

describe('a secret over the limit', () => {
  const long = 'hush-hush'.repeat(LIMITS.secretCharactersMax / 9 + 1)

  test.each<[string, string, string]>([
    ['of the environment', `secrets: [S]\n${urlRequest('')}`, 'secrets[0]'],
    [
      'of the list of variables',
      `variables: [{key: S, value: ${long}, secret: true}]\n${urlRequest('')}`,
      'variables[0]',
    ],
    [
      'put into a header',
      `variables: {S: ${long}}\n${urlRequest('      method: GET\n      headers: [{key: Authorization, value: "Bearer {{S}}"}]').replace('URL', 'API')}`,
      'monitors[0].request.headers[0].value',
    ],
  ])('%s is refused with its place', async (_, content, place) => {
    const lines = await problems(content, { S: long })
    expect(lines).toHaveLength(1)
    expect(lines[0]).toContain(`${place}: `)
    expect(lines[0]).toContain(String(LIMITS.secretCharactersMax))
    expect(lines[0]).not.toContain('hush')
  })
})

describe('large files', () => {
  const item = (n: number) =>
    `  - name: Site ${n}\n    type: URL\n    every: 10s\n    request:\n      url: http://127.0.0.1:8080/p/${n}\n      assertions:\n        - STATUS_CODE EQUALS 200\n`
  const items = (length: number) => Array.from({ length }, (_, n) => item(n)).join('')

  test('say the same as small ones, whatever stands around the list', async () => {
    const file = await load(
      `# head\nlocation: lab\nmonitors: # all\n${items(1000)}\nvariables: {A: 1}\n`,
    )
    expect(file.monitors).toHaveLength(1000)
    expect(file.monitors[999]).toMatchObject({
      id: 'site-999',
      request: { url: 'http://127.0.0.1:8080/p/999' },
    })
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
    expect((await problems(`monitors:\n${items(1000)}monitors: []\n`))[0]).toMatch(
      /^:7002:1 {2}the same key/,
    )
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
  const settings = { numRuns: 100 }

  test('reading any text gives monitors or problems', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary', maxLength: 200 }), async (text) => {
        const read = await readMonitorsFile(write(text, 'any.yaml'), {}, MONITOR_TYPES)
        expect(read.ok || read.problems.length > 0).toBe(true)
      }),
      settings,
    )
  })

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

  test('reading any value gives monitors or problems', async () => {
    await fc.assert(
      fc.asyncProperty(fc.dictionary(fragments, anything), async (value) => {
        const path = write(stringify(value), 'any.yaml')
        const read = await readMonitorsFile(path, {}, MONITOR_TYPES)
        expect(read.ok || read.problems.length > 0).toBe(true)
        expect(({} as Record<string, unknown>)['a']).toBeUndefined()
      }),
      settings,
    )
  })

  test('a list is read the same in sections and in one piece', async () => {
    const words = fc.oneof(fc.string({ unit: 'binary' }), fc.lorem({ mode: 'sentences' }))
    const scalar = fc.oneof(fragments, words)
    const entry = fc.dictionary(fc.string({ minLength: 1 }), fc.oneof(scalar, fc.array(scalar)), {
      noNullPrototype: true,
    })
    await fc.assert(
      fc.asyncProperty(
        fc.array(entry, { minLength: 5 }),
        fc.constantFrom(0, 2),
        async (list, indent) => {
          // Long enough to be cut.
          const padded = list.map((one) => ({ ...one, padding: 'x'.repeat(500) }))
          const many = Array.from({ length: 8 }, () => padded).flat()
          const text = stringify(
            { monitors: many, location: 'x' },
            { indentSeq: indent > 0, aliasDuplicateObjects: false },
          )
          const parsed = await parseYaml(text)
          expect(parsed.problems).toEqual([])
          expect(parsed.value).toEqual({ monitors: many, location: 'x' })
        },
      ),
      { numRuns: 20 },
    )
  })
})

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
