// The verdict: what is about the target is never mixed up with what is about us.
import { expect, test } from 'vitest'
import { isMadeByDelay, verdictOf } from '../../../src/agent/run/verdict.ts'
import { failure } from '../../../src/contract/failure.ts'
import { LIMITS } from '../../../src/contract/versions.ts'
import { FAILURES } from '../../../src/monitors/definitions.ts'

const failures = (...codes: string[]) => codes.map((code) => failure<string>(code, 'x'))

test.each<[string, string[], boolean, string]>([
  ['nothing wrong passes', [], false, 'passed'],
  ['slow is degraded', [], true, 'degraded'],
  ['failing outweighs being slow', ['HTTP_STATUS'], true, 'failed'],
  ['a fault of ours outweighs failures', ['HTTP_STATUS', 'ADDRESS_BLOCKED'], false, 'errored'],
  ['cancelled outweighs everything', ['HTTP_STATUS', 'INTERNAL', 'CANCELLED'], true, 'cancelled'],
])('%s', (_, codes, degraded, expected) => {
  expect(verdictOf(failures(...codes), degraded)).toBe(expected)
})

test('every code leads to a verdict that fits whom it is about', () => {
  for (const [code, { about }] of Object.entries(FAILURES)) {
    const verdict = verdictOf(failures(code), false)
    const expected = code === 'CANCELLED' ? 'cancelled' : about === 'target' ? 'failed' : 'errored'
    expect([code, verdict]).toEqual([code, expected])
  }
})

test('a code that was renamed comes with its earlier name', () => {
  const { details } = failure('SANDBOX_FAILED', 'x', { a: 1 })
  expect(details).toEqual({ a: 1, formerCode: 'CAGE_FAILED' })
})

// Which failures rest on a time that the delay of the agent's own event loop has stretched.
const times = { elapsedMs: 1000, deadlineMs: 1000, delayMs: 200 }
const asserted = (source: string, comparison: string, actual: string) =>
  failure('ASSERTION_FAILED', 'x', { source, comparison, target: '500', actual })
const timedOut = (code: string, details = {}) => failure<string>(code, 'x', details)

test.each([
  [asserted('RESPONSE_TIME', 'LESS_THAN', '600'), true],
  [asserted('RESPONSE_TIME', 'LESS_THAN', '800'), false],
  [asserted('RESPONSE_TIME', 'GREATER_THAN', '100'), false],
  [asserted('RESPONSE_TIME', 'EQUALS', '600'), true],
  [asserted('STATUS_CODE', 'LESS_THAN', '600'), false],
  [asserted('RESPONSE_DATA', 'CONTAINS', ''), true],
  [timedOut('TIMEOUT_CONNECT'), true],
  [timedOut('TIMEOUT_RUN'), false],
  [timedOut('DNS_SERVER_FAILED', { reason: 'ETIMEOUT' }), true],
  [timedOut('DNS_SERVER_FAILED', { reason: 'ESERVFAIL' }), false],
  [timedOut('DESTINATION_UNREACHED'), true],
  [timedOut('DESTINATION_UNREACHED', { refusal: { from: '::1' } }), false],
  [timedOut('HTTP_STATUS', { statusCode: 500 }), false],
  [timedOut('RESOLVER_UNREACHABLE'), false],
])('%j: %s', (failed, expected) => {
  expect(isMadeByDelay({ observed: {}, failures: [failed] }, {}, times)).toBe(expected)
})

test.each([
  ['less than the limit', { delayMs: LIMITS.agentDelayMsMax - 1, elapsedMs: 100 }, false],
  ['the limit', { delayMs: LIMITS.agentDelayMsMax, elapsedMs: 100 }, true],
  ['a small part of the attempt', { delayMs: 200, elapsedMs: 5000, deadlineMs: 5000 }, false],
  ['made up for by the deadline', { delayMs: 500, elapsedMs: 1500, deadlineMs: 1000 }, false],
  ['more than the deadline makes up for', { delayMs: 1500, elapsedMs: 2000 }, true],
  ['most of a short deadline', { delayMs: 260, elapsedMs: 300, deadlineMs: 60 }, true],
  ['made up for by a short deadline', { delayMs: 60, elapsedMs: 120, deadlineMs: 60 }, false],
])('a time-out and a delay that is %s: %s', (_, some, expected) => {
  const observation = { observed: {}, failures: [timedOut('TIMEOUT_FIRST_BYTE')] }
  expect(isMadeByDelay(observation, {}, { ...times, ...some })).toBe(expected)
})
