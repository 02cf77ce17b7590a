// Aim: what stands in a file in the place of a secret leaves the file one that can be read.
import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import { byteRules, ByteScrubber } from '../../../src/agent/redaction/byte-scrubber.ts'
import { createNameTest } from '../../../src/contract/protocol/sensitive-name.ts'
import { SCRUBBED } from '../../../src/agent/redaction/scrub.ts'

test.each([
  ['{"n":482913,"pin": 482913}', '{"n":null,"pin": null}'],
  ['{\n "pins": [\n  1,\n  482913\n ]\n}', '{\n "pins": [\n  1,\n  null\n ]\n}'],
  ['[{"a":1}, 482913, "b",482913]', '[{"a":1}, null, "b",null]'],
  ['{"a":1.482913e-10,"b":-482913}', '{"a":null,"b":null}'],
  [`[[\n${' '.repeat(24)}482913,`, `[[\n${' '.repeat(24)}null,`],
  ['{ "pin" : 482913 }', '{ "pin" : null }'],
  ['{\n   "pin": 482913\n}', '{\n   "pin": null\n}'],
  [
    '{"now":482913203,"at":1.482913,"text":"482913203"}',
    `{"now":null,"at":null,"text":"${SCRUBBED}203"}`,
  ],
  ['{"n":"482913"} "pin": 482913.', `{"n":"${SCRUBBED}"} "pin": ${SCRUBBED}.`],
])('a secret that is a number leaves JSON that can be read: %s', (text, expected) => {
  expect(scrubbed(text, '482913')).toBe(expected)
})

test.each([
  ['{"user":"ann","pass":"Zq7Rk2Lm"}', '{"config":SECRET,"n":[1, SECRET ]}'],
  ['[{"name":"sid","value":"Zq7Rk2Lm"}]', '{"cookies":SECRET}'],
  ['1001,1002,1003', '{"ids":[SECRET],"more":[SECRET,1004]}'],
])('a secret that is JSON itself leaves JSON: %s', (secret, text) => {
  const expected = text.replaceAll('SECRET', 'null')
  expect(scrubbed(text.replaceAll('SECRET', secret), secret)).toBe(expected)
  const quoted = JSON.stringify({ config: secret })
  expect(scrubbed(quoted, secret)).toBe(JSON.stringify({ config: SCRUBBED }))
  expect(scrubbed(`is: ${secret}, or`, secret)).toBe(`is: ${SCRUBBED}, or`)
})

test.each([
  ['< set-cookie: SECRET\n< via: 1', 'a="Q01"; b="Q02=="; Version=1'],
  ['authorization: SECRET\r\n', 'Digest username="u", response="Q03"'],
  ['x-api-key: "SECRET",\n', 'Q04'],
  [String.raw`{"out":"\nCookie: SECRET\r\nvia: 1"}`, String.raw`a=\"Q05\"; b=Q06`],
])('a header in a line goes to its end, also with quotes: %s', (text, value) => {
  expect(scrubbed(text.replace('SECRET', value), 'unused', (name) => name !== 'out')).toBe(
    text.replace('SECRET', SCRUBBED).replace('via: 1', `via: ${SCRUBBED}`),
  )
})

test.each([
  ['an object', { user: 'ann', access_token: 'Zq7Rk2Lm', id: 17 }],
  ['with a quoted name', { 'x-api-key': 'Zq7Rk2Lm', accept: 'a/b' }],
  ['of several lines', { text: 'a'.repeat(90), answer: { client_secret: 'Zq7Rk2Lm' } }],
  ['a map', new Map([['api-key', 'Zq7Rk2Lm']])],
])('what a console shows of it in a trace: %s', (_, value) => {
  for (const colors of [false, true]) {
    const text = JSON.stringify({ type: 'stdout', text: `got ${inspect(value, { colors })}` })
    const found: string[] = []
    const bytes = new ByteScrubber(byteRules([], createNameTest()), {
      onSecret: (one) => found.push(one),
    })
    const clean = Buffer.concat([bytes.write(Buffer.from(text)), bytes.end()]).toString()
    expect(clean).toBe(text.replace('Zq7Rk2Lm', SCRUBBED))
    // Elsewhere the literal of a program may be any text.
    expect(found).toEqual([])
  }
})

test.each([
  ['JSON in a text', (json: string) => `Received string: ${json}`],
  ['the same in JSON', (json: string) => JSON.stringify({ message: `Received: ${json}` })],
  [
    'and that in a text of JSON',
    (json: string) => JSON.stringify([JSON.stringify({ message: `Received: ${json}` })]),
  ],
])('a field of %s', (_, written) => {
  const json = (token: string) => JSON.stringify({ refresh_token: token, b: 'c "d" \\' })
  const pair = (value: string) => JSON.stringify([{ name: 'x-api-key', value }, 'end'])
  for (const one of [json, pair]) {
    expect(scrubbed(written(one('Zq7"Rk\\2Lm')), 'unused', createNameTest())).toBe(
      written(one(SCRUBBED)),
    )
  }
})

test.each([
  ['a query', 'GET /cb?user=1&access_token=SECRET&x=y HTTP/1.1'],
  ['a fragment', '"url":"https://a.test/cb#access_token=SECRET&refresh_token=SECRET"'],
  ['a form in JSON', '{"text":"grant_type=x\\u0026client_secret=SECRET"}'],
  ['a form', 'client_secret=SECRET&grant_type=x'],
  [
    'a form of several parts',
    '--a\r\nContent-Disposition: form-data; name="password"\r\n\r\nSECRET\r\n--a--',
  ],
  ['an attribute of HTML', '<a href="/x?a=b&amp;id_token=SECRET">'],
])('a sensitive parameter of %s goes, here and elsewhere', (_, text) => {
  const found: string[] = []
  const rules = byteRules([], createNameTest())
  const bytes = new ByteScrubber(rules, { onSecret: (one) => found.push(one) })
  const given = text.replaceAll('SECRET', 'eyJh.Zq7Rk2Lm%3D')
  const clean = Buffer.concat([bytes.write(Buffer.from(given)), bytes.end()]).toString()
  expect(clean).toBe(text.replaceAll('SECRET', SCRUBBED))
  expect(found).toContain('eyJh.Zq7Rk2Lm%3D')
})

test.each([
  [
    'a slash of PHP',
    '{"a":"{\\"access_token\\":\\"ab\\\\/cdSECRET\\",\\"b\\":1}"}',
    'ab\\\\/cdSECRET',
  ],
  [
    'an escape of the text around',
    String.raw`\\\"token\\\":\\\"a\\u00fcSECRET\\\"`,
    String.raw`a\\u00fcSECRET`,
  ],
  ['the value in front', String.raw`[{\"value\":\"SECRET\",\"name\":\"x-api-key\"}]`, 'SECRET'],
  ['a comma in a query', 'GET /?password=Hun,ter2SECRET, and more', 'Hun,ter2SECRET'],
  ['a dollar in a query', 'GET /?password=$ecret12 ', '$ecret12'],
  ['a form in a HAR', '{"text":"password=SECRET12&user=bob"}', 'SECRET12'],
  [
    'a part in JSON',
    String.raw`; name=\"password\"\r\nContent-Type: a/b\r\n\r\nSECRET\r\n--x`,
    'SECRET',
  ],
])('a value goes to its end: %s', (_, text, value) => {
  expect(scrubbed(text, 'unused', createNameTest())).toBe(text.replace(value, SCRUBBED))
})

test('a long value three deep goes at every border of chunks', () => {
  const value = '"'.repeat(40_000)
  const json = JSON.stringify(JSON.stringify(JSON.stringify({ access_token: `${value}REST` })))
  for (const before of [0, 99_991, 300_007, 520_011]) {
    expect(scrubbed(' '.repeat(before) + json, 'unused', createNameTest())).not.toContain('REST')
  }
})

test.each([
  'fetch(`/x?token=${token}&api_key={{API_KEY}}`)',
  `{"a":"Your token: '","b":"' is wrong"}`,
  String.raw`{"source":"  token: process.env.TOKEN,\n  cookies: [],"}`,
  `{"source":"  await page.getByLabel('Password:').fill('x')"}`,
  `{"source":"const names = ['token', 'x'], keys = { token: ',' }"}`,
])('other text stays: %s', (text) => {
  expect(scrubbed(text, 'unused', createNameTest())).toBe(text)
})

function scrubbed(text: string, secret: string, isSensitive?: (name: string) => boolean) {
  const bytes = new ByteScrubber(byteRules([secret], isSensitive ?? (() => false)))
  return Buffer.concat([bytes.write(Buffer.from(text)), bytes.end()]).toString()
}
