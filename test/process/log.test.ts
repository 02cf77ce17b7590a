// A log line must be JSON for machines, readable for people, and free of secrets for both.
import { describe, expect, test } from 'vitest'
import { createLog, mayColour, type LogOptions } from '../../src/process/log.ts'

function linesOf(options: Partial<LogOptions>, write: (log: ReturnType<typeof createLog>) => void) {
  const lines: string[] = []
  const destination = { write: (line: string) => void lines.push(line) }
  write(createLog({ level: 'info', pretty: false, destination, ...options }))
  return lines
}

describe('JSON', () => {
  test('has level by name, time in ISO 8601, message and fields', () => {
    const [line = ''] = linesOf({}, (log) => log.warn({ monitors: 3 }, 'loaded'))
    const record = JSON.parse(line) as Record<string, unknown>
    expect(record).toEqual({
      level: 'warn',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      monitors: 3,
      msg: 'loaded',
    })
  })

  test('leaves out what is below the level', () => {
    expect(linesOf({ level: 'warn' }, (log) => log.info('quiet'))).toEqual([])
  })

  test('logs errors with type, message and stack', () => {
    const [line = ''] = linesOf({}, (log) => log.error({ err: new TypeError('odd') }, 'failed'))
    expect(JSON.parse(line)).toMatchObject({ err: { type: 'TypeError', message: 'odd' } })
  })
})

describe('lines for people', () => {
  test('have time, level, message and fields', () => {
    const [line] = linesOf({ pretty: true }, (log) => log.info({ a: 1, b: 'x y' }, 'loaded'))
    expect(line).toMatch(/^\d\d:\d\d:\d\d\.\d{3} INFO {2}loaded {2}a=1 {2}b="x y"\n$/)
  })

  test('indent the stack of an error under the message', () => {
    const [line = ''] = linesOf({ pretty: true }, (log) =>
      log.error({ err: new Error('odd') }, 'f'),
    )
    expect(line.split('\n')[1]).toBe('    Error: odd')
  })

  test('are coloured only when asked', () => {
    const write = (log: ReturnType<typeof createLog>) => log.info('x')
    expect(linesOf({ pretty: true }, write)[0]).not.toContain('\u001B')
    expect(linesOf({ pretty: true, colour: true }, write)[0]).toContain('\u001B[')
  })
})

test.each([
  ['a terminal is coloured', { isTTY: true }, {}, true],
  ['NO_COLOR forbids it', { isTTY: true }, { NO_COLOR: '1' }, false],
  ['an empty NO_COLOR forbids nothing', { isTTY: true }, { NO_COLOR: '' }, true],
  ['a dumb terminal has no colours', { isTTY: true }, { TERM: 'dumb' }, false],
  ['a pipe is not coloured', {}, {}, false],
])('%s', (_, stream, env, expected) => expect(mayColour(stream, env)).toBe(expected))

test('what scrubs sees the fields and the finished line', () => {
  const scrub: Partial<LogOptions> = {
    scrubFields: (fields) => ({ ...fields, Authorization: '***' }),
    scrubText: (text) => text.replaceAll('s3cret', '***'),
  }
  const [line] = linesOf(scrub, (log) =>
    log.info({ Authorization: 'abc', url: 's3cret' }, 's3cret'),
  )
  expect(line).not.toMatch(/abc|s3cret/)
})

test.each(['1', '"', 'time', 'info', '{', 'msg'])(
  'a secret %j leaves a line that can be read',
  (secret) => {
    const scrub = { scrubText: (text: string) => text.replaceAll(secret, '***') }
    const [line = ''] = linesOf(scrub, (log) => log.info({ n: 1, held: secret }, `so: ${secret}.`))
    const { time, ...fields } = JSON.parse(line) as Record<string, unknown>
    expect(Date.parse(String(time))).toBeGreaterThan(0)
    expect(fields).toEqual({ level: 'info', n: 1, held: '***', msg: 'so: ***.' })
  },
)

test('of a line that cannot be scrubbed, nothing is shown', () => {
  const scrub = {
    scrubText: () => {
      throw new Error('s3cret')
    },
  }
  const [line = ''] = linesOf(scrub, (log) => log.info({ held: 's3cret' }, 's3cret'))
  expect(JSON.parse(line)).toMatchObject({ msg: '[scrubbed]' })
  expect(line).not.toContain('s3cret')
})
