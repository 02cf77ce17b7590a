// Which results are logged, at which level, and their text.
import { describe, expect, test } from 'vitest'
import { createResultLog, resultLine, type ResultLogOptions } from '../../src/agent/result-log.ts'
import { failure } from '../../src/contract/failure.ts'
import type { Result, Verdict } from '../../src/contract/result.ts'
import { createLog } from '../../src/process/log.ts'
import { aResult } from '../support/results.ts'

async function logged(options: Partial<ResultLogOptions>, results: readonly Result[]) {
  const lines: string[] = []
  const destination = { write: (line: string) => void lines.push(line) }
  const log = createLog({ level: 'debug', pretty: false, destination })
  const logResult = createResultLog({ log, which: 'all', pretty: false, ...options })
  results.forEach(logResult)
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>)
}

const verdicts = (...given: Verdict[]) => given.map((verdict) => aResult({ verdict }))
const attempt = { startedAt: 1, durationMs: 1, verdict: 'passed' as const, failures: [] }

describe('which', () => {
  test('all logs each', async () => {
    expect(await logged({}, verdicts('passed', 'passed', 'failed'))).toHaveLength(3)
  })

  test('changes logs results that differ from the last one, and a first one that is not passed', async () => {
    const given = verdicts('passed', 'passed', 'failed', 'failed', 'missed', 'passed')
    const lines = await logged({ which: 'changes' }, given)
    expect(lines.map(({ msg }) => msg)).toEqual(['Shop: failed', 'Shop: missed', 'Shop: passed'])
  })

  test('changes are logged for each monitor separately', async () => {
    const given = ['a', 'b'].map((monitorId) => aResult({ monitorId, verdict: 'failed' }))
    expect(await logged({ which: 'changes' }, given)).toHaveLength(2)
  })
})

test.each<[Verdict, string]>([
  ['passed', 'info'],
  ['degraded', 'info'],
  ['failed', 'warn'],
  ['missed', 'warn'],
  ['cancelled', 'warn'],
  ['errored', 'error'],
])('%s is logged as %s', async (verdict, level) => {
  const [line] = await logged({}, verdicts(verdict))
  expect(line?.['level']).toBe(level)
})

test('a line of JSON has the result, but not all that was observed', async () => {
  const observed = { statusCode: 503, response: { body: 'x'.repeat(4096) } }
  const failures = [failure('HTTP_STATUS', 'the status is 503')]
  const [line] = await logged({}, [aResult({ observed, failures, attempts: [attempt] })])
  expect(line?.['result']).toMatchObject({
    monitorId: 'shop',
    statusCode: 503,
    failures,
    attempts: 1,
  })
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
    const result = aResult({
      monitorName: 'a\u001B[31mb\nc',
      failures: [failure('HTTP_STATUS', 'x\r\u0007y')],
    })
    // eslint-disable-next-line no-control-regex
    expect(resultLine(result, false)).not.toMatch(/[\u0000-\u001F]/)
  })
})
