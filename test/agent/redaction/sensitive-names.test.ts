// Aim: values of sensitive names go from objects, and wherever they stand besides; others stay.
import { describe, expect, test } from 'vitest'
import { createScrubber, SCRUBBED } from '../../../src/agent/redaction/scrub.ts'

describe('sensitive headers', () => {
  const named = createScrubber({ headers: ['X-Internal-Id'] })
  test.each<[string, unknown, unknown]>([
    ['in an object', { Authorization: 'Bearer abcdef' }, { Authorization: SCRUBBED }],
    ['in any case', { 'SET-cookie': ['a=b', 'c=d'] }, { 'SET-cookie': [SCRUBBED, SCRUBBED] }],
    [
      'deep inside',
      { hops: [{ headers: { cookie: 'a' } }] },
      { hops: [{ headers: { cookie: SCRUBBED } }] },
    ],
    ['in a list of pairs', [['X-Api-Key', 'k']], [['X-Api-Key', SCRUBBED]]],
    [
      'in a list of names and values',
      [{ key: 'api-key', value: 'k' }],
      [{ key: 'api-key', value: SCRUBBED }],
    ],
    [
      'with a sensitive part',
      { 'X-My-Token-2': 'a', userPassword: 'b' },
      { 'X-My-Token-2': SCRUBBED, userPassword: SCRUBBED },
    ],
    ['added by settings', { 'x-internal-id': '7' }, { 'x-internal-id': SCRUBBED }],
    [
      'in an assertion',
      { property: 'X-Auth-Token', actual: 'abc', target: 'x', index: 1 },
      { property: 'X-Auth-Token', actual: SCRUBBED, target: SCRUBBED, index: 1 },
    ],
    [
      'in an assertion on JSON',
      { property: '$.data.access_token', actual: '"of-an-answer"', target: 'of-a-target' },
      { property: '$.data.access_token', actual: SCRUBBED, target: SCRUBBED },
    ],
    [
      'but no others',
      { 'content-type': 'text/html', etag: '"x"' },
      { 'content-type': 'text/html', etag: '"x"' },
    ],
    ['and numbers stay', { cookieCount: 2, cookie: 3 }, { cookieCount: 2, cookie: 3 }],
  ])('%s', (_, given, expected) => expect(named.value(given)).toEqual(expected))

  test.each([
    ['$.usage.total_tokens', '1042'],
    ['$.usage.total_tokens', '-10.42e+300'],
    ['$.token_type', '"bearer"'],
    ['$.token', '"a-b1c"'],
    ['$.token', 'nothing'],
    ['$.tokens.length', '"as-long-as-this-1"'],
    ['$.tokenizer.version', '"as-long-as-this-1"'],
    ['$.users[?@.token == 1].name', '"as-long-as-this-1"'],
    ['Forgot your password[?] ([^<]*)', '"as-long-as-this-1"'],
  ])('a value of the property %s stays: %s', (property, actual) => {
    const given = { message: `${property}: got ${actual}`, details: { property, actual } }
    expect(named.value(given)).toEqual(given)
  })

  test.each([
    "$['access_token']",
    '$.tokens[0]',
    '$.tokens[*]',
    '$..token.*',
    '$.token[?@.id == 1]',
    '$.token[',
    '"access_token":"([^"]+)"',
  ])('a long value of the JSONPath %s is scrubbed', (property) => {
    const given = { message: 'got "as-long-as-this-1"', property, actual: '"as-long-as-this-1"' }
    const message = `got "${SCRUBBED}"`
    expect(named.value(given)).toEqual({ message, property, actual: SCRUBBED })
  })

  test.each([
    ['a secret within a value', 'ann@example.com', 'v1.ann@example.com.c2lnbmF0dXJl'],
    ['the same in base64', 'ann@example.com', btoa('v1.ann@example.com.c2lnbmF0dXJl')],
    ['a value within a secret', 'a v1.c2lnbmF0dXJl z', 'v1.c2lnbmF0dXJl'],
    ['a value that ends with a secret', 'dXJl-more', 'v1.c2lnbmF0dXJl'],
  ])('leave nothing where they overlap with others: %s', (_, secret, value) => {
    const given = { headers: { 'x-auth-token': value }, body: `<${value}> <${secret}>` }
    expect(createScrubber({ secrets: [secret] }).value(given)).toEqual({
      headers: { 'x-auth-token': SCRUBBED },
      body: `<${SCRUBBED}> <${SCRUBBED}>`,
    })
    const later = createScrubber({ secrets: [secret] }).and([value])
    expect(later.text(given.body)).toBe(`<${SCRUBBED}> <${SCRUBBED}>`)
  })

  test.each(['"eyJhbGciOi_00040"', '"eyJhbGciOi_00040…', '["an-other-1","eyJhbGciOi_00040…'])(
    'what a failure shows of one is scrubbed elsewhere, too: %s',
    (actual) => {
      const given = { property: '$.access_token', actual, body: 'see eyJhbGciOi_00040 there' }
      expect(named.value(given)).toMatchObject({ actual: SCRUBBED, body: `see ${SCRUBBED} there` })
    },
  )

  test('their values are scrubbed from messages and bodies', () => {
    const given = {
      headers: {
        'set-cookie': ['session=abcdef123456; Path=/'],
        authorization: 'Bearer qwertyuiop',
      },
      body: 'your session is abcdef123456, your bearer qwertyuiop',
    }
    expect(JSON.stringify(named.value(given))).not.toMatch(/abcdef123456|qwertyuiop/)
  })

  test.each([
    'authorization',
    'proxy-authorization',
    'cookie',
    'set-cookie',
    'x-api-key',
    'api-key',
    'x-auth-token',
    'x-access-token',
    'x-csrf-token',
    'x-amz-security-token',
    'x-goog-api-key',
    'x-auth-key',
    'x-access-key',
    'dd-application-key',
    'x-forwarded-authorization',
    'cf-access-jwt-assertion',
    'x-registry-auth',
  ])('%s is one without any setting', (name) => {
    expect(createScrubber({}).isSensitive(name)).toBe(true)
    expect(createScrubber({}).isSensitive(name.toUpperCase())).toBe(true)
  })
})

test('a name that others gave holds no secret; names of ours stay', () => {
  const one = createScrubber({ secrets: ['hunter22', 'headers'] })
  const given = { headers: { 'x-hunter22': 'a' }, response: { trailers: { hunter22: ['b'] } } }
  expect(one.value(given)).toEqual({
    headers: { [`x-${SCRUBBED}`]: 'a' },
    response: { trailers: { [SCRUBBED]: ['b'] } },
  })
})

test('rules of CORS and what is left of a rate limit are no secrets', () => {
  const headers = {
    'access-control-allow-credentials': 'true',
    'x-ratelimit-remaining-tokens': '9',
  }
  expect(createScrubber({}).value(headers)).toEqual(headers)
  expect(createScrubber({}).isSensitive('accessControlToken')).toBe(true)
})
