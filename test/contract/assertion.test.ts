// Aim: the schema of assertions takes what the wire and people write, and refuses, with the field and a
// fix, what could never be evaluated.
import { describe, expect, test } from 'vitest'
import { assertionsSchema } from '../../src/contract/assertion.ts'
import { API_SOURCES } from '../../src/contract/http-monitor.ts'
import { TCP_SOURCES } from '../../src/monitors/tcp/definition.ts'
import { LIMITS } from '../../src/contract/versions.ts'

const api = assertionsSchema(API_SOURCES)
const tcp = assertionsSchema(TCP_SOURCES)

const problemsOf = (value: object) =>
  (api.safeParse([value]).error?.issues ?? []).map(({ path }) => path.join('.'))

test('defaults are those of the wire, and numbers become text', () => {
  expect(api.parse([{ source: 'STATUS_CODE', comparison: 'EQUALS', target: 200 }])).toEqual([
    { source: 'STATUS_CODE', property: '', comparison: 'EQUALS', target: '200', regex: null },
  ])
})

test.each([
  ...['EQUALS', 'NOT_EQUALS', 'GREATER_THAN', 'LESS_THAN'].map((one) => [one, ['0.target']]),
  ...['HAS_KEY', 'NOT_HAS_KEY', 'HAS_VALUE', 'CONTAINS', 'NOT_CONTAINS', 'IS_NULL'].map((one) => [
    one,
    [],
  ]),
])('a time that is compared by %s with a text: problems at %j', (comparison, paths) => {
  expect(problemsOf({ source: 'RESPONSE_TIME', comparison, target: 'x' })).toEqual(paths)
})

test('an integer beyond the range of a double is a number', () => {
  const value = { source: 'JSON_BODY', comparison: 'LESS_THAN', property: '$.id' }
  expect(api.safeParse([{ ...value, target: '9'.repeat(400) }]).success).toBe(true)
  expect(api.safeParse([{ ...value, target: '1e400' }]).success).toBe(false)
})

describe('refused', () => {
  const one = { source: 'JSON_BODY', comparison: 'EQUALS', target: 'x' }
  test.each([
    ['an unknown source', { ...one, source: 'BODY' }, 'source'],
    ['an unknown comparison', { ...one, comparison: 'IS' }, 'comparison'],
    ['a path that cannot be read', { ...one, property: '$.a[' }, 'property'],
    ['a header without a name', { ...one, source: 'HEADERS' }, 'property'],
    ['a regex that cannot be read', { ...one, regex: '(' }, 'regex'],
    ['a text source with a bad regex', { ...one, source: 'TEXT_BODY', property: '[' }, 'property'],
    ['a number in octal', { ...one, source: 'RESPONSE_TIME', target: '0o17' }, 'target'],
    ['an order without a number', { ...one, comparison: 'LESS_THAN', target: 'ten' }, 'target'],
    ['a needless property', { ...one, source: 'STATUS_CODE', property: 'x' }, 'property'],
  ])('%s', (_, value, field) => {
    expect(problemsOf(value)).toContain(`0.${field}`)
  })

  test('a comparison that the source does not offer', () => {
    const value = { source: 'RESPONSE_DATA', comparison: 'HAS_KEY', target: 'x' }
    expect(tcp.safeParse([value]).error?.issues[0]?.path).toEqual([0, 'comparison'])
  })

  test('more assertions than the limit', () => {
    const many = Array.from({ length: LIMITS.assertionsMax + 1 }, () => one)
    expect(api.safeParse(many).success).toBe(false)
  })
})
