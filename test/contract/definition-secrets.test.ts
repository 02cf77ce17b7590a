// Aim: a definition whose secrets could not be scrubbed is refused, with the place of the secret and without it.
import { describe, expect, test } from 'vitest'
import {
  definitionSecrets,
  echoedSecrets,
  headerSecrets,
  secretsProblem,
  urlSecrets,
} from '../../src/contract/definition-secrets.ts'
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
    const all = Array.from({ length: count }, (_, at) => `c${at}=value-${at}`)
    return request({ headers: [{ key: 'Cookie', value: all.join('; ') }] })
  }
  // The whole header is a value, too.
  expect(secretsProblem(cookies(LIMITS.definitionSecretsMax - 1))).toBeUndefined()
  expect(secretsProblem(cookies(LIMITS.definitionSecretsMax))?.path).toEqual([])
})

test('secrets that are too long together are refused', () => {
  const header = (at: number) => ({ key: 'X-Api-Key', value: `${MOST.slice(4)}${at + 1000}` })
  const headers = (count: number) =>
    request({ headers: Array.from({ length: count }, (_, at) => header(at)) })
  const most = LIMITS.secretsCharactersMax / LIMITS.secretCharactersMax
  expect(secretsProblem(headers(most))).toBeUndefined()
  const tooLong = { path: [], message: expect.stringContaining(`${LIMITS.secretsCharactersMax}`) }
  expect(secretsProblem(headers(most + 1))).toEqual(tooLong)
  // Variables that are secret count, too.
  const variable = { key: 'A', value: MOST, secret: true, locked: true }
  const withVariable = { ...headers(most), environmentVariables: [variable] }
  expect(secretsProblem(withVariable)).toEqual(tooLong)
})

test('an expected value of a JSONPath with a sensitive last name is a secret unless it is a number or a word', () => {
  const values = ['of-a-target', '1000000', 'bearer', 'a-b1c']
  const found = (property: string) => {
    const assertions = values.map((target) => ({ property, target }))
    return definitionSecrets(request({ assertions }), (name) => name === 'token')
  }
  expect(found('$.data.token')).toEqual(['of-a-target'])
  expect(found('$.token.length')).toEqual([])
  expect(found('token')).toEqual(values)
})

test('no more headers are looked at than a run may have secrets', () => {
  const received = Array.from({ length: 5 * LIMITS.secretValuesMax }, (_, at) => ({
    header: 'Set-Cookie',
    value: `visit=Zq7Rk2Lm${at}`,
  }))
  let looked = 0
  const isCookie = (name: string) => name === 'Set-Cookie' && (looked++, true)
  const found = definitionSecrets({ received }, isCookie)
  expect(found.length).toBeGreaterThan(LIMITS.secretValuesMax)
  expect(looked).toBeLessThanOrEqual(LIMITS.secretValuesMax)
})

test.each([
  ['Your session has expired, please sign in again.', []],
  ['Europe/Berlin', []],
  ['Sun, 29 Nov 2026 01:00:00 GMT', []],
  ['https://login.test/oauth2/v2.0/token', []],
  ['sort=description; Path=/', []],
  ['/login/step2', []],
  ['Correct Horse Battery Staple', ['Correct Horse Battery Staple']],
  ['Card of 4111 1111 1111 1111', ['Card of 4111 1111 1111 1111']],
  ['1795915144.48291047382910473829', ['1795915144.48291047382910473829']],
  ['29-Nov-2026', []],
  ['1795915144', []],
  ['1795915144305', []],
  ['4795915144', ['4795915144']],
  ['correct horse battery', ['correct horse battery']],
  ['Zq7Rk2Lm and words', ['Zq7Rk2Lm and words']],
  ['/reset/a1b2c3d4', ['/reset/a1b2c3d4']],
])('what texts have anyway is searched nowhere else: %s', (value, secrets) => {
  expect(echoedSecrets(value)).toEqual(expect.arrayContaining(secrets))
  expect(echoedSecrets(value).length > 0).toBe(secrets.length > 0)
})

test('an agent scrubs what it is asked to besides', () => {
  const definition = request({ headers: [{ key: 'X-Mine', value: 'of-mine' }] })
  expect(definitionSecrets(definition, (name) => name === 'X-Mine')).toEqual(['of-mine'])
})

describe('a key in place of the user', () => {
  const plainly = () => false
  test.each<[string, object, string[]]>([
    ['of basic authentication', { basicAuth: { username: 'key-42', password: '' } }, ['key-42']],
    ['of a URL', { url: 'http://key%2F42:@a.test/' }, ['key%2F42', 'key/42']],
    ['with a short password', { basicAuth: { username: 'key-42', password: 'X' } }, ['key-42']],
    ['is none with a password', { basicAuth: { username: 'joe-42', password: 'pw-42' } }, []],
    [
      'is none as a plain word',
      { basicAuth: { username: 'joe' }, url: 'http://agent@a.test/' },
      [],
    ],
  ])('%s', (_, fields, secrets) => {
    expect(definitionSecrets(request(fields), plainly)).toEqual(secrets)
  })

  test('of a header', () => {
    const value = `Basic ${Buffer.from('key-0f-header:').toString('base64')}`
    expect(headerSecrets(value)).toContain('key-0f-header')
    expect(headerSecrets(`Basic ${btoa('user:größe-9')}`)).toContain('größe-9')
  })

  test('of a header that ends a line', () => {
    expect(headerSecrets('Bearer Zq7Rk2Lm\n')).toContain('Zq7Rk2Lm')
  })

  test('of a proxy', () => {
    expect(urlSecrets('http://key-42:@proxy.test:3128')).toContain('key-42')
    expect(urlSecrets('http://proxy.test:3128')).toEqual([])
  })
})

test('of headers that were received, short plain words are no secrets', () => {
  const received = [{ header: 'set-cookie', value: 'sid=deleted; Path=/; id=Zq7Rk2Lm' }]
  expect(definitionSecrets({ received }, (name) => name === 'set-cookie')).not.toContain('deleted')
})

test.each([
  'https://user:Zq7Rk2Lm@a.test/login',
  'https://a.test/Zq7Rk2Lm',
  '[4f:9a:2c:71:be:03:5d:e8:11:aa]',
  '{ab-12}{cd-34}{ef-56}',
])('what only looks like a page or JSON is searched for: %s', (value) => {
  expect(echoedSecrets(value)).toContain(value)
})

test.each(['QUJDREVGR0g5MTIzNDU=;v=1', 'Zq7Rk2Lm=; Path=/', 'expires=Zq7Rk2;max-age=Lm4711'])(
  'a value that only looks like cookies is searched as a whole: %s',
  (value) => {
    expect(echoedSecrets(value)).toContain(value)
  },
)

test.each([
  '%22%2C%22',
  '0%2C0%2C0',
  '[{}]',
  'true,true',
  'no-check!',
  '%2Fmy%2Fsettings',
  'https%3A%2F%2Fshop-7.test%3A8443%2F',
  'http://127.0.0.1:3000/my/settings',
  '2026-11-28',
  '{"width":1280,"height":720}',
])('a cookie of %s is not searched for elsewhere: it stands in any text', (value) => {
  expect(echoedSecrets(`a=${value}`)).not.toContain(value)
  expect(echoedSecrets(`a=${value}Zq7Rk2`)).toContain(`${value}Zq7Rk2`)
})

test('parameters of a URL are secrets by their names, as those of a list are', () => {
  const url = 'https://a.test/?api_key=key%2F42&page=7'
  const found = definitionSecrets(request({ url }), (name) => name === 'api_key')
  expect(found).toEqual(['key/42', 'key%2F42'])
  const inFragment = request({ url: 'https://a.test/#api_key=key-42&page=7' })
  expect(definitionSecrets(inFragment, (name) => name === 'api_key')).toEqual(['key-42'])
  const word = request({ url: 'https://a.test/?password=sunshine' })
  expect(definitionSecrets(word, (name) => name === 'password')).toEqual(['sunshine'])
})

test.each(['OAuth', 'X-Own-2'])(
  'parameters of credentials are secrets by their names: %s',
  (scheme) => {
    const found = headerSecrets(
      `${scheme} realm="example", oauth_token="token-42", oauth_signature=sig-42, response="resp-42"`,
    )
    expect(found).toEqual(expect.arrayContaining(['token-42', 'sig-42', 'resp-42']))
    expect(found).not.toContain('example')
  },
)

test.each([
  ['joined by ends of lines', 'a=first-1; Path=/orders\nb=second-2; HttpOnly'],
  [
    'joined by commas',
    'a=first-1; Expires=Wed, 21 Oct 2026 07:28:00 GMT, b=second-2; Path=/orders',
  ],
  ['in quotes', 'a="first-1"; b="second-2"'],
  ['next to one with the name of an attribute', 'a=first-1; domain=shop-7; b=second-2'],
])('each cookie of a header is a secret: %s', (_, header) => {
  expect(headerSecrets(header)).toEqual(['first-1', 'second-2'])
})
