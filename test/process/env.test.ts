// Settings come from variables or files; all problems are reported at once, and no secret with it.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import {
  problemText,
  readEnvironment,
  variableTexts,
  type Environment,
} from '../../src/process/env.ts'
import {
  anyText,
  byteCount,
  onOff,
  oneOf,
  readableFile,
  urlSetting,
  wholeNumber,
  nameList,
} from '../../src/process/settings.ts'
import { temporaryFile, temporaryFolder } from '../support/temporary-folder.ts'

const folder = temporaryFolder()

function pipe(): string {
  const path = join(folder, 'pipe')
  execFileSync('mkfifo', [path])
  return path
}

const TABLE = {
  APP_PORT: wholeNumber({ meaning: 'port', otherwise: 80, min: 0, max: 65_535 }),
  APP_TOKEN: anyText({
    meaning: 'token',
    secret: true,
    problem: (text) => (text.startsWith('t_') ? undefined : { allowed: 't_…', fix: 'copy it' }),
  }),
  APP_LEVEL: oneOf({ meaning: 'level', otherwise: 1, names: { LOW: 1, HIGH: 2 } }),
  APP_REPORT: onOff({ meaning: 'report', otherwise: true }),
  APP_BYTES: byteCount({ meaning: 'room', otherwise: 1024, min: 1, max: 2 ** 40 }),
  APP_CA: readableFile({ meaning: 'certificates', fromFile: false }),
  APP_URL: urlSetting({
    meaning: 'url',
    protocols: ['https:'],
    example: 'https://x',
    alsoAs: ['app_url'],
  }),
  APP_NAMES: nameList({ meaning: 'names' }),
} as const

const read = (env: Environment) => readEnvironment(TABLE, env)

describe('values', () => {
  test('nothing set gives the defaults', () => {
    const { values, problems } = read({})
    expect(values).toEqual({
      APP_PORT: 80,
      APP_TOKEN: undefined,
      APP_LEVEL: 1,
      APP_REPORT: true,
      APP_BYTES: 1024,
      APP_CA: undefined,
      APP_URL: undefined,
      APP_NAMES: [],
    })
    expect(problems).toEqual([])
  })

  test.each<[string, Environment, Record<string, unknown>]>([
    ['a number', { APP_PORT: ' 8081 ' }, { APP_PORT: 8081 }],
    ['an empty variable is not set', { APP_PORT: '' }, { APP_PORT: 80 }],
    ['names in any case', { APP_LEVEL: 'high' }, { APP_LEVEL: 2 }],
    ['off', { APP_REPORT: 'OFF' }, { APP_REPORT: false }],
    ['bytes with a binary unit', { APP_BYTES: '256MiB' }, { APP_BYTES: 268_435_456 }],
    ['bytes with a decimal unit', { APP_BYTES: '1.5 GB' }, { APP_BYTES: 1_500_000_000 }],
    ['plain bytes', { APP_BYTES: '4096' }, { APP_BYTES: 4096 }],
    ['a list with commas and blanks', { APP_NAMES: ' a, b c,,' }, { APP_NAMES: ['a', 'b', 'c'] }],
    ['another spelling', { app_url: 'https://a' }, { APP_URL: 'https://a' }],
  ])('%s', (_, env, expected) => {
    const { values, problems } = read(env)
    expect(problems).toEqual([])
    expect(values).toMatchObject(expected)
  })
})

describe('files', () => {
  test('a value from a file loses only its final newline', () => {
    const env = {
      APP_TOKEN_FILE: temporaryFile('token', 't_one\n'),
      APP_NAMES_FILE: temporaryFile('names', 'a\nb\n'),
    }
    expect(read(env).values).toMatchObject({ APP_TOKEN: 't_one', APP_NAMES: ['a', 'b'] })
  })

  test.each<[string, Environment, string[]]>([
    ['a missing one', { APP_TOKEN_FILE: '/nope' }, ['APP_TOKEN_FILE', '/nope', 'does not exist']],
    ['a folder', { APP_TOKEN_FILE: folder }, ['APP_TOKEN_FILE', 'folder']],
    ['an empty one', { APP_TOKEN_FILE: temporaryFile('empty', '\n') }, ['APP_TOKEN_FILE', 'empty']],
    ['a pipe', { APP_TOKEN_FILE: pipe() }, ['not a regular file']],
    [
      'a large one',
      { APP_TOKEN_FILE: temporaryFile('large', 'x'.repeat(2 ** 20 + 1)) },
      ['larger'],
    ],
    [
      'both ways at once',
      { APP_TOKEN: 't_a', APP_TOKEN_FILE: temporaryFile('both', 't_b') },
      ['APP_TOKEN and APP_TOKEN_FILE', 'keep one'],
    ],
  ])('%s is a problem', (_, env, parts) => {
    const { problems } = read(env)
    expect(problems.map(({ variable }) => variable)).toEqual(['APP_TOKEN'])
    for (const part of parts) expect(problems[0]?.message).toContain(part)
  })
})

describe('problems', () => {
  test('are reported all at once, each with name, value, what is allowed and the fix', () => {
    const wrong = {
      APP_PORT: '99999',
      APP_LEVEL: 'middle',
      APP_REPORT: 'maybe',
      APP_BYTES: '12 parsecs',
    }
    const { problems } = read({ ...wrong, APP_URL: 'ftp://x' })
    const [head, port, ...lines] = problemText(problems, 'app').trimEnd().split('\n')
    expect(head).toContain('5 problems')
    expect(port).toBe(
      '  APP_PORT is "99999": must be a whole number from 0 to 65535; the default is 80',
    )
    for (const [at, part] of ['LOW, HIGH', 'on, off', '1099511627776', 'https://x'].entries()) {
      expect(lines[at]).toContain(part)
    }
  })

  test.each(['https//u:s3cr3t@b@x', 'ftp://u:s3cr3t/b@x', 'ftp://s3cr3t@x'])(
    'show no credentials of a URL: %s',
    (text) => {
      const [problem] = read({ APP_URL: text }).problems
      expect(problem?.message).toContain('//…@x')
      expect(problem?.message).not.toContain('s3cr3t')
    },
  )

  test.each(['8081.5', '0x10', '1e3', '-1', 'abc', '١'])('%s is no whole number', (text) => {
    expect(read({ APP_PORT: text }).problems).toHaveLength(1)
  })

  test('never show a secret, wherever it came from', () => {
    const env = { APP_TOKEN: 'hunter2' }
    const fromFile = { APP_TOKEN_FILE: temporaryFile('secret', 'hunter2') }
    for (const { problems } of [read(env), read(fromFile)]) {
      expect(problems).toHaveLength(1)
      expect(problemText(problems, 'app')).not.toContain('hunter2')
    }
  })
})

test('documentation has a row for each variable, with its default', () => {
  expect(variableTexts(TABLE).slice(0, 3)).toEqual([
    { name: 'APP_PORT', default: '80', meaning: 'port' },
    { name: 'APP_TOKEN', default: '–', meaning: 'token' },
    { name: 'APP_LEVEL', default: '1', meaning: 'level' },
  ])
})
