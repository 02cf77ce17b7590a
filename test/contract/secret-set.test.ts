// Aim: many long secrets with a common prefix are distinguished in linear time, and exceeded limits are reported.
import { expect, test } from 'vitest'
import { DEFAULT_BOUNDS, SecretSet, USER_CODE_BOUNDS } from '../../src/contract/secret-set.ts'
import { LIMITS } from '../../src/contract/versions.ts'

const { secretCharactersMax } = LIMITS
const long = (at: number, length = secretCharactersMax) =>
  `${'a'.repeat(length - 4)}${String(at).padStart(4, '0')}`

test('values count once; of one over the limit, so much is kept that this shows', () => {
  const set = new SecretSet(['abc', long(1), 'abc', long(2), long(1)])
  expect([...set]).toEqual(['abc', long(1), long(2)])
  const [kept] = new SecretSet([long(1, 2 * secretCharactersMax)])
  expect(kept?.length).toBe(secretCharactersMax + 1)
})

test.each([
  ['a definition', DEFAULT_BOUNDS],
  ['user code', USER_CODE_BOUNDS],
])('too many values and too many characters of %s show, also in a copy', (_name, bounds) => {
  const values = Array.from({ length: bounds.valuesMax + 5 }, (_, at) => `value-${at}`)
  const most = bounds.charactersMax / secretCharactersMax
  const texts = Array.from({ length: most + 5 }, (_, at) => long(at))
  for (const [all, max] of [
    [values, bounds.valuesMax],
    [texts, most],
  ] as const) {
    expect(new SecretSet(all.slice(0, max), bounds).isOver).toBe(false)
    const over = new SecretSet(all, bounds)
    expect(over.size).toBe(max + 1)
    expect(new SecretSet(over, bounds).isOver).toBe(true)
  }
})
