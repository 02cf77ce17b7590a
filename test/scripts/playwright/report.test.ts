// A report has every test, however the run ended; no event of user code makes it fail or grow without end.
import { assert, json, property, string } from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseRunEvent, type PlaywrightEvent } from '../../../src/scripts/playwright/events.ts'
import { PlaywrightReportBuilder, REPORT_BOUNDS } from '../../../src/scripts/playwright/report.ts'

function built(...events: Record<string, unknown>[]): PlaywrightReportBuilder {
  const builder = new PlaywrightReportBuilder()
  for (const one of events) add(builder, one)
  return builder
}

function add(builder: PlaywrightReportBuilder, one: Record<string, unknown>): void {
  const event = parseRunEvent(JSON.stringify(one))
  if (event === undefined) throw new Error(`no event: ${JSON.stringify(one)}`)
  builder.add(event as PlaywrightEvent)
}

const known = (id: string, retries = 0) => ({
  event: 'test',
  id,
  titles: ['group', id],
  project: 'chromium',
  file: 'a.spec.ts',
  line: 3,
  tags: ['@smoke'],
  retries,
  expectedStatus: 'passed',
})
const start = (id: string, retry = 0) => ({ event: 'start', id, retry, at: 1000 })
const end = (id: string, status: string, outcome: string, retry = 0) => ({
  event: 'end',
  id,
  retry,
  status,
  outcome,
  ms: 5,
  errors: status === 'failed' ? [{ message: 'no' }] : [],
  annotations: [],
})

describe('outcomes', () => {
  test.each([
    ['a test that passes', [start('a'), end('a', 'passed', 'expected')], 'expected'],
    ['a test that fails', [start('a'), end('a', 'failed', 'unexpected')], 'unexpected'],
    ['a test that is running', [start('a')], undefined],
    ['a test that has not begun', [], undefined],
  ])('%s', (_, events, outcome) => {
    const report = built(known('a'), ...events).report()
    expect(report.tests[0]?.outcome).toBe(outcome)
    expect(report.stats).toMatchObject({ [outcome ?? 'unfinished']: 1, total: 1 })
  })

  test('a failure that will be tried again is none yet, and flaky when it passes then', () => {
    const builder = built(known('a', 1), start('a'), end('a', 'failed', 'unexpected'))
    expect(builder.report().stats).toMatchObject({ unexpected: 0, unfinished: 1 })
    expect(builder.progress()).toEqual({ done: 0, total: 1 })
    for (const one of [start('a', 1), end('a', 'passed', 'flaky', 1)]) add(builder, one)
    const { stats, tests } = builder.report()
    expect(stats).toMatchObject({ flaky: 1, unfinished: 0 })
    expect(tests[0]?.attempts.map(({ status }) => status)).toEqual(['failed', 'passed'])
    expect(builder.progress()).toEqual({ done: 1, total: 1 })
  })
})

test('steps, output and errors stand with their attempt', () => {
  const step = { event: 'step', id: 'a', retry: 0, title: 'buy', category: 'test.step', depth: 0 }
  const report = built(
    { event: 'begin', playwright: '1.58.2', workers: 2, tests: 1 },
    known('a'),
    start('a'),
    { event: 'output', stream: 'stdout', id: 'a', retry: 0, text: 'hello' },
    { ...step, ms: 7, error: { message: 'out of stock' } },
    end('a', 'failed', 'unexpected'),
    { event: 'finish', status: 'failed', ms: 99 },
  ).report()
  expect(report).toMatchObject({ playwrightVersion: '1.58.2', status: 'failed', durationMs: 99 })
  const steps = [{ title: 'buy', durationMs: 7, error: 'out of stock' }]
  const attempts = [{ output: 'hello', errors: [{ message: 'no' }], steps }]
  expect(report.tests[0]).toMatchObject({ title: 'group › a', attempts })
})

describe('what user code may write', () => {
  test.each([
    ['no JSON', '{'],
    ['another thing', '[1]'],
    ['an unknown event', '{"event":"gift"}'],
    ['a negative time', JSON.stringify({ ...start('a'), at: -1 })],
    ['a text without end', `{"event":"error","error":{"message":"${'x'.repeat(70_000)}"}}`],
  ])('%s is no event', (_, line) => {
    expect(parseRunEvent(line)).toBeUndefined()
  })

  test('nothing makes reading throw', () => {
    assert(property(string(), (line) => void parseRunEvent(line)))
    assert(property(json(), (line) => void parseRunEvent(line)))
  })

  test('the report stays bounded and says how much it left out', () => {
    const builder = new PlaywrightReportBuilder()
    for (let at = 0; at < REPORT_BOUNDS.testsMax + 10; at++) add(builder, known(`t${at}`))
    add(builder, start('t0'))
    add(builder, start('t0'))
    const output = { event: 'output', stream: 'stdout', id: 't0', retry: 0 }
    // Texts that end where the limit is, too.
    const text = 'x'.repeat(REPORT_BOUNDS.outputCharsPerAttemptMax / 4)
    for (let at = 0; at < 50; at++) add(builder, { ...output, text })
    add(builder, end('nobody', 'passed', 'expected'))
    const report = builder.report()
    expect(report.tests).toHaveLength(REPORT_BOUNDS.testsMax)
    const [attempt] = report.tests[0]?.attempts ?? []
    expect(attempt?.output).toHaveLength(REPORT_BOUNDS.outputCharsPerAttemptMax)
    expect(attempt?.output).toMatch(/x…$/)
    expect(report.leftOut).toBeGreaterThan(10)
  })
})
