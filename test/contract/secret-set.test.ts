// Aim: many long secrets with a common prefix are distinguished in linear time, and exceeded limits are reported.
import { expect, test } from 'vitest'
import { SecretSet } from '../../src/contract/secret-set.ts'
import { LIMITS } from '../../src/contract/versions.ts'

const { secretCharactersMax, secretValuesMax, secretsCharactersMax } = LIMITS
const long = (at: number, length = secretCharactersMax) =>
  `${'a'.repeat(length - 4)}${String(at).padStart(4, '0')}`

test('values count once; of one over the limit, so much is kept that this shows', () => {
  const set = new SecretSet(['abc', long(1), 'abc', long(2), long(1)])
  expect([...set]).toEqual(['abc', long(1), long(2)])
  const [kept] = new SecretSet([long(1, 2 * secretCharactersMax)])
  expect(kept?.length).toBe(secretCharactersMax + 1)
})

test('too many values and too many characters show, also in a copy', () => {
  const values = Array.from({ length: secretValuesMax + 5 }, (_, at) => `value-${at}`)
  const most = secretsCharactersMax / secretCharactersMax
  const texts = Array.from({ length: most + 5 }, (_, at) => long(at))
  for (const [all, max] of [
    [values, secretValuesMax],
    [texts, most],
  ] as const) {
    expect(new SecretSet(all.slice(0, max)).isOver).toBe(false)
    const over = new SecretSet(all)
    expect(over.size).toBe(max + 1)
    expect(new SecretSet(over).isOver).toBe(true)
  }
})
