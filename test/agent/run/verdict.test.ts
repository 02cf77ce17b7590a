// The verdict: what is about the target is never mixed up with what is about us.
import { expect, test } from 'vitest'
import { verdictOf } from '../../../src/agent/run/verdict.ts'
import { failure } from '../../../src/contract/failure.ts'
import { FAILURES } from '../../../src/monitors/definitions.ts'

const failures = (...codes: string[]) => codes.map((code) => failure<string>(code, 'x'))

test.each<[string, string[], boolean, string]>([
  ['nothing wrong passes', [], false, 'passed'],
  ['slow is degraded', [], true, 'degraded'],
  ['a failure of the target fails', ['CONNECT_REFUSED'], false, 'failed'],
  ['failing outweighs being slow', ['HTTP_STATUS'], true, 'failed'],
  ['a fault of ours says nothing about the target', ['INTERNAL'], false, 'errored'],
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
  expect(failure('SANDBOX_FAILED', 'x', { a: 1 }).details).toEqual({
    a: 1,
    formerCode: 'CAGE_FAILED',
  })
})
