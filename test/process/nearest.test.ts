// "Did you mean …?" must find usual typing mistakes and suggest nothing for unrelated names.
import { expect, test } from 'vitest'
import { nameFix, nearest } from '../../src/process/nearest.ts'

const names = ['maxResponseTime', 'degradedResponseTime', 'frequency', 'request', 'tags']

test.each([
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

test('a fix names the nearest, or some of many, and says where there is none', () => {
  const many = Array.from({ length: 50 }, (_, at) => `name-${at}`)
  expect(nameFix('tag', names)).toBe('did you mean tags?')
  expect(nameFix('zebra', names)).toBe(`known are ${names.join(', ')}`)
  expect(nameFix('zebra', many)).toMatch(/name-19, …$/)
  expect(nameFix('zebra', [])).toMatch(/none/)
})
