// Aim: the schema of assertions refuses, with the field, what could never be evaluated.
import { describe, expect, test } from 'vitest'
import { assertionsSchema, COMPARISONS } from '../../src/contract/assertion.ts'
import { API_SOURCES } from '../../src/contract/http-monitor.ts'
import { LIMITS } from '../../src/contract/versions.ts'

const api = assertionsSchema(API_SOURCES)

const problemsOf = (value: object) =>
  (api.safeParse([value]).error?.issues ?? []).map(({ path }) => path.join('.'))

test('defaults are those of the wire, and numbers become text', () => {
  expect(api.parse([{ source: 'STATUS_CODE', comparison: 'EQUALS', target: 200 }])).toEqual([
    { source: 'STATUS_CODE', property: '', comparison: 'EQUALS', target: '200', regex: null },
  ])
})

test('only comparisons of numbers refuse a text as the target of a time', () => {
  const refused = COMPARISONS.filter((comparison) =>
    problemsOf({ source: 'RESPONSE_TIME', comparison, target: 'x' }).includes('0.target'),
  )
  expect(refused).toEqual(['EQUALS', 'NOT_EQUALS', 'GREATER_THAN', 'LESS_THAN'])
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

  test('more assertions than the limit', () => {
    const many = Array.from({ length: LIMITS.assertionsMax + 1 }, () => one)
    expect(api.safeParse(many).success).toBe(false)
  })
})
