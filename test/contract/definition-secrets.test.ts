// Aim: a definition whose secrets could not be scrubbed is refused, with the place of the secret and without it.
import { describe, expect, test } from 'vitest'
import { definitionSecrets, secretsProblem } from '../../src/contract/definition-secrets.ts'
import { AccountVariableInput } from '../../src/contract/api/account-variable.ts'
import { Variable } from '../../src/contract/monitor.ts'
import { LIMITS } from '../../src/contract/versions.ts'

const MOST = 'x'.repeat(LIMITS.secretCharactersMax)
const PARAMETER = ['queryParameters', 0, 'value']
const TARGET = ['assertions', 0, 'target']
const request = (fields: object) => ({ checkType: 'API', request: fields })

describe('a secret over the limit', () => {
  test.each<[string, (value: string) => object, (string | number)[]]>([
    ['password', (password) => ({ basicAuth: { password } }), ['basicAuth', 'password']],
    ['header', (value) => ({ headers: [{ key: 'Cookie', value }] }), ['headers', 0, 'value']],
    ['parameter', (value) => ({ queryParameters: [{ value, locked: true }] }), PARAMETER],
    ['expected header', (target) => ({ assertions: [{ property: 'set-cookie', target }] }), TARGET],
    ['password in a URL', (one) => ({ url: `http://u:${one}@a.test/` }), ['url']],
  ])('is found as a %s', (_, fields, path) => {
    expect(secretsProblem(request(fields(MOST)))).toBeUndefined()
    const problem = secretsProblem(request(fields(`${MOST}x`)))
    expect(problem?.path).toEqual(['request', ...path])
    expect(problem?.message).not.toContain('xxx')
  })

  test.each([Variable, AccountVariableInput])('is refused as a variable', (schema) => {
    const of = (value: string) => schema.safeParse({ key: 'A', value, secret: true })
    expect(of(MOST).success).toBe(true)
    expect(of(`${MOST}x`).error?.issues[0]?.path).toEqual(['value'])
  })
})

test('more secret values than a definition may contain are refused', () => {
  const cookies = (count: number) => {
    const all = Array.from({ length: count }, (_, at) => `c${at}=value-${at}`).join('; ')
    return request({ headers: [{ key: 'Cookie', value: all }] })
  }
  // The whole header is a value, too.
  expect(secretsProblem(cookies(LIMITS.definitionSecretsMax - 1))).toBeUndefined()
  expect(secretsProblem(cookies(LIMITS.definitionSecretsMax))?.path).toEqual([])
})

test('secrets that are too long together are refused', () => {
  const headers = (count: number) =>
    request({
      headers: Array.from({ length: count }, (_, at) => ({
        key: 'X-Api-Key',
        value: `${MOST.slice(4)}${at + 1000}`,
      })),
    })
  const most = LIMITS.secretsCharactersMax / LIMITS.secretCharactersMax
  expect(secretsProblem(headers(most))).toBeUndefined()
  expect(secretsProblem(headers(most + 1))?.message).toContain(`${LIMITS.secretsCharactersMax}`)
})

test('an agent scrubs what it is asked to besides', () => {
  const definition = request({ headers: [{ key: 'X-Mine', value: 'of-mine' }] })
  expect(definitionSecrets(definition, (name) => name === 'X-Mine')).toEqual(['of-mine'])
})
