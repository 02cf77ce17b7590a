// A log line must be JSON for machines, readable for people, and free of secrets for both.
import { expect, test } from 'vitest'
import { createLog, mayColour, type LogOptions } from '../../src/process/log.ts'

function linesOf(options: Partial<LogOptions>, write: (log: ReturnType<typeof createLog>) => void) {
  const lines: string[] = []
  const destination = { write: (line: string) => void lines.push(line) }
  write(createLog({ level: 'info', pretty: false, destination, ...options }))
  return lines
}

test('JSON has level by name, time in ISO 8601, message and fields, from the level on', () => {
  const lines = linesOf({ level: 'warn' }, (log) => {
    log.info('quiet')
    log.warn({ monitors: 3 }, 'loaded')
    log.error({ err: new TypeError('odd') }, 'failed')
  })
  const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/) as string
  expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
    { level: 'warn', time, monitors: 3, msg: 'loaded' },
    expect.objectContaining({
      err: expect.objectContaining({ type: 'TypeError', message: 'odd' }) as object,
    }),
  ])
})

test('lines for people have time, level, message and fields, and are coloured only when asked', () => {
  const write = (log: ReturnType<typeof createLog>) => {
    log.info({ a: 1, b: 'x y' }, 'loaded')
    log.error({ err: new Error('odd') }, 'f')
  }
  const [line, failed = ''] = linesOf({ pretty: true }, write)
  expect(line).toMatch(/^\d\d:\d\d:\d\d\.\d{3} INFO {2}loaded {2}a=1 {2}b="x y"\n$/)
  expect(failed.split('\n')[1]).toBe('    Error: odd')
  expect(linesOf({ pretty: true, colour: true }, write)[0]).toContain('\u001B[')
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

test.each(['1', '"', 'time', 'info', '{', 'msg'])('a secret %j leaves a legible line', (secret) => {
  const scrubText = (text: string) => text.replaceAll(secret, '***')
  const [line = ''] = linesOf({ scrubText }, (log) =>
    log.info({ n: 1, held: secret }, `: ${secret}`),
  )
  const { time, ...fields } = JSON.parse(line) as Record<string, unknown>
  expect(Date.parse(String(time))).toBeGreaterThan(0)
  expect(fields).toEqual({ level: 'info', n: 1, held: '***', msg: ': ***' })
})

test('of a line that cannot be scrubbed, nothing is shown', () => {
  const scrubText = () => {
    throw new Error('s3cret')
  }
  const [line = ''] = linesOf({ scrubText }, (log) => log.info({ held: 's3cret' }, 's3cret'))
  expect(JSON.parse(line)).toMatchObject({ msg: '[scrubbed]' })
  expect(line).not.toContain('s3cret')
})
