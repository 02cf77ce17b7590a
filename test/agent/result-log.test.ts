// Which results are logged, at which level, and their text.
import { describe, expect, test } from 'vitest'
import { createResultLog, resultLine, type ResultLogOptions } from '../../src/agent/result-log.ts'
import { failure } from '../../src/contract/failure.ts'
import type { Result, Verdict } from '../../src/contract/result.ts'
import { collectingLog } from '../support/collecting-log.ts'
import { aResult } from '../support/results.ts'

function logged(which: ResultLogOptions['which'], results: readonly Result[]) {
  const { log, lines } = collectingLog('debug')
  results.forEach(createResultLog({ log, which, pretty: false }))
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>)
}

const verdicts = (...given: Verdict[]) => given.map((verdict) => aResult({ verdict }))
const attempt = { startedAt: 1, durationMs: 1, verdict: 'passed' as const, failures: [] }

test('changes are the first result of a monitor and those that differ from the last one; all are all', () => {
  const given = verdicts('passed', 'passed', 'failed', 'failed', 'missed', 'passed')
  given.splice(3, 0, aResult({ monitorId: 'b', monitorName: 'B', verdict: 'failed' }))
  const texts = logged('changes', given).map(({ msg }) => msg)
  expect(texts).toEqual([
    'Shop: passed',
    'Shop: failed',
    'B: failed',
    'Shop: missed',
    'Shop: passed',
  ])
  expect(logged('all', given)).toHaveLength(7)
})

test.each<[Verdict, string]>([
  ['passed', 'info'],
  ['degraded', 'info'],
  ['failed', 'warn'],
  ['missed', 'warn'],
  ['cancelled', 'warn'],
  ['errored', 'error'],
])('%s is logged as %s', (verdict, level) => {
  expect(logged('all', verdicts(verdict))[0]?.['level']).toBe(level)
})

test('a line of JSON has the result, but not all that was observed', () => {
  const observed = { statusCode: 503, response: { body: 'x'.repeat(4096) } }
  const failures = [failure('HTTP_STATUS', 'the status is 503')]
  const [line] = logged('all', [aResult({ observed, failures, attempts: [attempt] })])
  const told = { monitorId: 'shop', statusCode: 503, failures, attempts: 1 }
  expect(line?.['result']).toMatchObject(told)
  expect(JSON.stringify(line).length).toBeLessThan(1000)
})

describe('a line for people', () => {
  test('shows verdict, name, type, time, the observation and the first failure', () => {
    const failures = [failure('HTTP_STATUS', 'the status is 503'), failure('ASSERTION_FAILED', 'x')]
    const result = aResult({
      verdict: 'failed',
      responseTimeMs: 7.31,
      observed: { statusCode: 503 },
      failures,
      attempts: [attempt, attempt],
    })
    expect(resultLine(result, false)).toBe(
      'failed     Shop  URL  7.3 ms  HTTP 503  2 attempts  HTTP_STATUS: the status is 503 (and 1 more)',
    )
  })

  test('shows why a slot was missed', () => {
    const result = aResult({ verdict: 'missed', missedReason: 'still-running' })
    expect(resultLine(result, false)).toBe('missed     Shop  URL  still-running')
  })

  test('keeps control characters of names and messages from the terminal', () => {
    const failures = [failure('HTTP_STATUS', 'x\r\u0007y')]
    const result = aResult({ monitorName: 'a\u001B[31mb\nc', failures })
    // eslint-disable-next-line no-control-regex
    expect(resultLine(result, false)).not.toMatch(/[\u0000-\u001F]/)
  })
})
