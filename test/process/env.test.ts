// Settings come from variables or files; all problems are reported at once, and no secret with it.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import * as env from '../../src/process/env.ts'
import * as settings from '../../src/process/settings.ts'
import { temporaryFile, temporaryFolder } from '../support/temporary-folder.ts'

const folder = temporaryFolder()

const pipe = join(folder, 'pipe')
execFileSync('mkfifo', [pipe])

const tokenProblem = (text: string) =>
  text.startsWith('t_') ? undefined : { allowed: 't_…', fix: 'copy it' }
const URLS = { protocols: ['https:'], example: 'https://x', alsoAs: ['app_url'] }
const TABLE = {
  APP_PORT: settings.wholeNumber({ meaning: 'port', otherwise: 80, min: 0, max: 65_535 }),
  APP_TOKEN: settings.anyText({ meaning: 'token', secret: true, problem: tokenProblem }),
  APP_LEVEL: settings.oneOf({ meaning: 'level', otherwise: 1, names: { LOW: 1, HIGH: 2 } }),
  APP_REPORT: settings.onOff({ meaning: 'report', otherwise: true }),
  APP_BYTES: settings.byteCount({ meaning: 'room', otherwise: 1024, min: 1, max: 2 ** 40 }),
  APP_CA: settings.readableFile({ meaning: 'certificates', fromFile: false }),
  APP_URL: settings.urlSetting({ meaning: 'url', ...URLS }),
  APP_NAMES: settings.nameList({ meaning: 'names' }),
} as const

const { problemText } = env
const read = (variables: env.Environment) => env.readEnvironment(TABLE, variables)

describe('values', () => {
  test('nothing set gives the defaults', () => {
    const unset = { APP_TOKEN: undefined, APP_CA: undefined, APP_URL: undefined, APP_NAMES: [] }
    const values = { APP_PORT: 80, APP_LEVEL: 1, APP_REPORT: true, APP_BYTES: 1024, ...unset }
    expect(read({})).toMatchObject({ values, problems: [] })
  })

  test.each<[string, env.Environment, Record<string, unknown>]>([
    ['a number', { APP_PORT: ' 8081 ' }, { APP_PORT: 8081 }],
    ['an empty variable is not set', { APP_PORT: '' }, { APP_PORT: 80 }],
    ['names in any case', { APP_LEVEL: 'high' }, { APP_LEVEL: 2 }],
    ['off', { APP_REPORT: 'OFF' }, { APP_REPORT: false }],
    ['bytes with a binary unit', { APP_BYTES: '256MiB' }, { APP_BYTES: 268_435_456 }],
    ['bytes with a decimal unit', { APP_BYTES: '1.5 GB' }, { APP_BYTES: 1_500_000_000 }],
    ['a list with commas and blanks', { APP_NAMES: ' a, b c,,' }, { APP_NAMES: ['a', 'b', 'c'] }],
    ['another spelling', { app_url: 'https://a' }, { APP_URL: 'https://a' }],
  ])('%s', (_, given, values) => {
    expect(read(given)).toMatchObject({ values, problems: [] })
  })
})

describe('files', () => {
  test('a value from a file loses only its final newline', () => {
    const APP_TOKEN_FILE = temporaryFile('token', 't_one\n')
    const APP_NAMES_FILE = temporaryFile('names', 'a\nb\n')
    const { values } = read({ APP_TOKEN_FILE, APP_NAMES_FILE })
    expect(values).toMatchObject({ APP_TOKEN: 't_one', APP_NAMES: ['a', 'b'] })
  })

  test.each<[string, string, RegExp, object?]>([
    ['a missing one', '/nope', /APP_TOKEN_FILE.*\/nope.*does not exist/],
    ['a folder', folder, /APP_TOKEN_FILE.*folder/],
    ['an empty one', temporaryFile('empty', '\n'), /APP_TOKEN_FILE.*empty/],
    ['a pipe', pipe, /not a regular file/],
    ['a large one', temporaryFile('large', 'x'.repeat(2 ** 20 + 1)), /larger/],
    ['both at once', '/nope', /APP_TOKEN and APP_TOKEN_FILE.*keep one/, { APP_TOKEN: 't_a' }],
  ])('%s is a problem', (_, APP_TOKEN_FILE, message, more) => {
    const { problems } = read({ APP_TOKEN_FILE, ...more })
    const problem = { variable: 'APP_TOKEN', message: expect.stringMatching(message) as string }
    expect(problems).toMatchObject([problem])
  })

  test.each([['t_one'], ['t_one'.repeat(100)]])(
    'a value in place of its path is not shown: %s',
    (value) => {
      const [problem] = read({ APP_TOKEN_FILE: value }).problems
      expect(problem?.message).toMatch(/^APP_TOKEN_FILE is a path at which there is no file/)
      expect(problem?.message).not.toContain('t_one')
    },
  )
})

describe('problems', () => {
  test('are reported all at once, each with name, value, what is allowed and the fix', () => {
    const wrong = { APP_PORT: '99999', APP_LEVEL: 'middle', APP_REPORT: 'maybe' }
    const { problems } = read({ ...wrong, APP_BYTES: '12 parsecs', APP_URL: 'ftp://x' })
    const [head, port, ...lines] = problemText(problems, 'app').trimEnd().split('\n')
    expect(head).toContain('5 problems')
    expect(port).toBe(
      '  APP_PORT is "99999": must be a whole number from 0 to 65535; the default is 80',
    )
    for (const [at, part] of ['LOW, HIGH', 'on, off', '1099511627776', 'https://x'].entries()) {
      expect(lines[at]).toContain(part)
    }
  })

  test('of a URL with a bad port names the port', () => {
    const [problem] = read({ APP_URL: 'https://x:70000' }).problems
    expect(problem?.message).toContain('valid host and port')
  })

  test('show no credentials of a URL', () => {
    const texts = ['https//u:s3cr3t@b@x', 'ftp://u:s3cr3t/b@x', 'ftp://s3cr3t@x']
    for (const text of [...texts, 'ftp://u:s3cr3t s3cr3t@x', 'u:s3cr3t@x']) {
      const [problem] = read({ APP_URL: text }).problems
      expect(problem?.message).toContain('…@x')
      expect(problem?.message).not.toContain('s3cr3t')
    }
    const [problem] = read({ APP_URL: 'ftp://x?a&key=s3cr3t' }).problems
    expect(problem?.message).toContain('ftp://x?…')
  })

  test.each(['8081.5', '0x10', '1e3', '-1', '١'])('%s is no whole number', (text) => {
    expect(read({ APP_PORT: text }).problems).toHaveLength(1)
  })

  test('never show a secret, wherever it came from', () => {
    const fromFile = { APP_TOKEN_FILE: temporaryFile('secret', 'hunter2') }
    for (const { problems } of [read({ APP_TOKEN: 'hunter2' }), read(fromFile)]) {
      expect(problems).toHaveLength(1)
      expect(problemText(problems, 'app')).not.toContain('hunter2')
    }
  })
})

test('documentation has a row for each variable, with its default', () => {
  expect(env.variableTexts(TABLE).slice(0, 3)).toEqual([
    { name: 'APP_PORT', default: '80', meaning: 'port' },
    { name: 'APP_TOKEN', default: '–', meaning: 'token' },
    { name: 'APP_LEVEL', default: '1', meaning: 'level' },
  ])
})
