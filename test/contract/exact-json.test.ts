// Aim: no digit of an integer is lost between JSON text and value, and numbers are ordered by their value.
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { differenceOf, parseExactJson, readNumber } from '../../src/contract/exact-json.ts'

const DIGITS_MAX = 1000

describe('parseExactJson', () => {
  test.each<[string, string, unknown]>([
    ['with blanks around', '{"id" :\n\t9007199254740993 }', { id: 9007199254740993n }],
    ['as many digits as are kept', '7'.repeat(DIGITS_MAX), BigInt('7'.repeat(DIGITS_MAX))],
    ['too many digits', '7'.repeat(DIGITS_MAX + 1), Infinity],
    ['the last that a double is sure of', '[9007199254740991]', [9007199254740991]],
    ['the first beyond', '[9007199254740992]', [9007199254740992n]],
    ['a fraction', '[9007199254740993.5]', [9007199254740994]],
    ['an exponent', '[9007199254740993e2, 1e23]', [9007199254740993e2, 1e23]],
    ['a name', '{"9007199254740993": 9007199254740995}', { '9007199254740993': 9007199254740995n }],
    ['of two same names the last', '{"a": 9007199254740993, "a": 1}', { a: 1 }],
  ])('%s', (_, text, expected) => {
    expect(parseExactJson(text)).toEqual(expected)
  })

  test('a member __proto__ is a member, and depth costs no stack', () => {
    const read = parseExactJson('{"__proto__": 9007199254740993}') as object
    expect(Object.entries(read)).toEqual([['__proto__', 9007199254740993n]])
    const [open, close] = ['[', ']'].map((one) => one.repeat(100_000))
    expect(() => parseExactJson(`${open}9007199254740993${close}`)).not.toThrow()
  })

  const refused = ['{9007199254740993 \n: 1}', '[1] 9007199254740993', '09007199254740993', '']
  test.each(refused)('refuses %j as JSON.parse does', (text) => {
    let expected: unknown
    try {
      JSON.parse(text)
    } catch (error) {
      expected = error
    }
    expect(expected).toBeInstanceOf(SyntaxError)
    expect(() => parseExactJson(text)).toThrow(expected)
  })

  test('any JSON is what a reviver with the source of each number makes of it', () => {
    const exactly = (_: string, value: unknown, { source }: { source?: string } = {}) =>
      typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(source ?? '')
        ? BigInt(source as string)
        : value
    // A double has no digits of its own beyond 2^53, so integers stand in the tree as texts with a mark.
    const integer = fc.bigInt({ min: -(10n ** 25n), max: 10n ** 25n }).map((one) => `int:${one}`)
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof(
        { maxDepth: 4 },
        integer,
        fc.string({ unit: fc.constantFrom('"', '\\', ',', ' ', '9007199254740993', 'a') }),
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        fc.array(tie('tree')),
        fc.dictionary(fc.string(), tie('tree')),
      ),
    }))
    fc.assert(
      fc.property(tree, fc.constantFrom(0, 2), (value, indent) => {
        const text = JSON.stringify(value, null, indent).replaceAll(/"int:(-?\d+)"/g, '$1')
        expect(parseExactJson(text)).toEqual(JSON.parse(text, exactly))
      }),
    )
  })

  test('the caller may say what becomes of a long integer', () => {
    const text = '{"target": 9007199254740993, "list": [9007199254740995]}'
    const read = parseExactJson(text, (digits, key) => `${key}: ${digits}`)
    expect(read).toEqual({ target: 'target: 9007199254740993', list: ['0: 9007199254740995'] })
  })
})

describe('numbers', () => {
  test.each<[string, number | bigint | undefined]>([
    ['200', 200],
    [' 2e2\n', 200],
    ['-9007199254740993', -9007199254740993n],
    ['9007199254740991', 9007199254740991],
    ['9007199254740993.0', 9007199254740992],
    ['0o17', undefined],
    ['007', undefined],
    ['', undefined],
  ])('%j is %s', (text, expected) => {
    expect(readNumber(text)).toBe(expected)
  })

  test('are in the order of their values', () => {
    const integers = fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n })
    const near = integers.chain((one) => fc.tuple(fc.constant(one), fc.constantFrom(one, one + 1n)))
    fc.assert(
      fc.property(fc.oneof(near, fc.tuple(integers, integers)), ([left, right]) => {
        const read = (one: bigint) => readNumber(String(one)) as number | bigint
        const order = left < right ? -1 : left > right ? 1 : 0
        expect(Math.sign(differenceOf(read(left), read(right)))).toBe(order)
      }),
    )
  })
})
