// "Did you mean …?" must find usual typing mistakes and suggest nothing for unrelated names.
import { expect, test } from 'vitest'
import { nameFix, nearest } from '../../src/process/nearest.ts'

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

test.each([
  ['tag', 'did you mean tags?'],
  ['zebra', `known are ${names.join(', ')}`],
])('the fix for %s', (input, expected) => {
  expect(nameFix(input, names)).toBe(expected)
})

test('a fix where nothing is known says so', () => expect(nameFix('zebra', [])).toMatch(/none/))

test('a fix names some of many', () => {
  const many = Array.from({ length: 50 }, (_, at) => `name-${at}`)
  expect(nameFix('zebra', many)).toMatch(/name-19, …$/)
})
