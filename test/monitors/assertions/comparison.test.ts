// Aim: integers that a double cannot hold are compared digit by digit, wherever they stand in a document,
// and what a failure says of them is plain JSON.
import { describe, expect, test } from 'vitest'
import type { Assertion, Comparison } from '../../../src/contract/assertion.ts'
import { parseExactJson } from '../../../src/contract/exact-json.ts'
import { evaluateAssertions } from '../../../src/monitors/assertions/assertions.ts'
import { holds, type Actual } from '../../../src/monitors/assertions/comparison.ts'

const EVEN = '9007199254740992'
const ODD = '9007199254740993'
const NEXT = '9007199254740994'
const TWENTY = '12345678901234567890'

describe('long integers', () => {
  test.each<[string, Comparison, string, boolean]>([
    [EVEN, 'EQUALS', ODD, false],
    [ODD, 'EQUALS', ODD, true],
    [ODD, 'EQUALS', ` ${ODD} `, true],
    [ODD, 'EQUALS', `${ODD}.0`, true],
    [ODD, 'EQUALS', `${EVEN}.0`, false],
    [`-${ODD}`, 'EQUALS', `-${ODD}`, true],
    [`-${ODD}`, 'EQUALS', ODD, false],
    ['100000000000000000000', 'EQUALS', '1e20', true],
    ['1e23', 'EQUALS', '100000000000000000000000', true],
    ['3.14159265358979323846', 'EQUALS', '3.14159265358979323846', true],
    [ODD, 'GREATER_THAN', EVEN, true],
    [ODD, 'GREATER_THAN', ODD, false],
    [ODD, 'GREATER_THAN', '9007199254740991', true],
    [ODD, 'LESS_THAN', NEXT, true],
    [`-${ODD}`, 'LESS_THAN', `-${EVEN}`, true],
    ['9007199254740991', 'LESS_THAN', EVEN, true],
    [TWENTY, 'GREATER_THAN', '12345678901234567889', true],
    [TWENTY, 'LESS_THAN', '1e300', true],
    [`"${ODD}"`, 'EQUALS', EVEN, false],
    [`"${ODD}"`, 'GREATER_THAN', EVEN, true],
    [ODD, 'CONTAINS', '0993', true],
    [`[${ODD}]`, 'CONTAINS', EVEN, false],
    [`[1,${ODD}]`, 'EQUALS', `[1.0, ${ODD}]`, true],
    [`{"a":[${ODD}]}`, 'EQUALS', `{"a":[${EVEN}]}`, false],
    [`{"a":${ODD}}`, 'HAS_VALUE', EVEN, false],
    [`{"a":${ODD}}`, 'CONTAINS', `"a":${ODD}`, true],
    [ODD, 'HAS_KEY', '0', false],
    [ODD, 'IS_EMPTY', '', false],
    // Longer than any number that is kept exactly: unequal at least.
    ['7'.repeat(2000), 'EQUALS', '8'.repeat(2000), false],
  ])('%s %s %s is %s', (actual, comparison, target, expected) => {
    expect(holds(comparison, parseExactJson(actual) as Actual, target)).toBe(expected)
  })
})

describe('assertions on a body', () => {
  const evaluate = (text: string, one: Partial<Assertion>) => {
    const defaults = { source: 'JSON_BODY', property: '$.id', target: '', regex: null } as const
    const assertion: Assertion = { ...defaults, comparison: 'EQUALS', ...one }
    const json = { kind: 'json', text: () => text } as const
    return evaluateAssertions([assertion], { JSON_BODY: json }, new AbortController().signal)
  }
  const body = `{"id": ${ODD}, "users": [{"id": ${EVEN}, "name": "a"}, {"id": ${ODD}, "name": "b"}]}`

  test('a failure shows the digits, and its details are plain JSON', async () => {
    const failures = await evaluate(body, { target: EVEN })
    expect(failures).toMatchObject([
      { code: 'ASSERTION_FAILED', details: { actual: ODD, target: EVEN } },
    ])
    expect(JSON.parse(JSON.stringify(failures))).toEqual(failures)
  })

  test.each<[string, Partial<Assertion>]>([
    ['the number', { target: ODD }],
    ['a filter', { property: `$.users[?@.id == ${ODD}].name`, target: 'b' }],
    ['a filter by order', { property: `$.users[?@.id > ${EVEN}].name`, target: 'b' }],
    ['a filter between two paths', { property: '$.users[?@.id == $.id].name', target: 'b' }],
    ['several matches', { property: '$.users[*].id', target: `[${EVEN}, ${ODD}]` }],
    ['the whole document', { property: '', comparison: 'HAS_VALUE', target: ODD }],
    ['a regex on its digits', { regex: '(\\d{3})$', target: '993' }],
  ])('%s', async (_, one) => {
    expect(await evaluate(body, one)).toEqual([])
  })

  test('the same in the thread that evaluates expensive ones', async () => {
    const property = `$.users[?search(@.name, 'b') && @.id > ${EVEN}].id`
    expect(await evaluate(body, { property, target: ODD })).toEqual([])
    expect(await evaluate(body, { property, target: EVEN })).toMatchObject([
      { code: 'ASSERTION_FAILED', details: { actual: ODD } },
    ])
  })
})
