// "Did you mean …?" must find usual typing mistakes and suggest nothing for unrelated names.
import { expect, test } from 'vitest'
import { nearest } from '../../src/process/nearest.ts'

const names = ['maxResponseTime', 'degradedResponseTime', 'frequency', 'request', 'tags']

test.each([
  ['maxResponsTime', 'maxResponseTime'],
  ['maxresponsetime', 'maxResponseTime'],
  ['reqeust', 'request'],
  ['tag', 'tags'],
  ['frequencies', 'frequency'],
  ['zebra', undefined],
  ['', undefined],
  ['x'.repeat(1000), undefined],
])('%s → %s', (input, expected) => {
  expect(nearest(input, names)).toBe(expected)
})
