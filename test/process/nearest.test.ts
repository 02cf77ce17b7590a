// "Did you mean …?" must find the usual slips of the finger and stay silent about strangers.
import { expect, test } from 'vitest'
import { nearest } from '../../src/process/nearest.ts'

const words = ['maxResponseTime', 'degradedResponseTime', 'frequency', 'request', 'tags']

test.each([
  ['maxResponsTime', 'maxResponseTime'],
  ['maxresponsetime', 'maxResponseTime'],
  ['reqeust', 'request'],
  ['tag', 'tags'],
  ['frequencies', 'frequency'],
  ['zebra', undefined],
  ['', undefined],
  ['x'.repeat(1000), undefined],
])('%s → %s', (word, expected) => {
  expect(nearest(word, words)).toBe(expected)
})
