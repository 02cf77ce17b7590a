// Aim: what is secret within a secret goes alone as well, at a bounded cost, and what is not stays.
import { describe, expect, test } from 'vitest'
import { createScrubber, SCRUBBED } from '../../../src/agent/redaction/scrub.ts'
import { LIMITS } from '../../../src/contract/versions.ts'
import { startStopwatch } from '../../support/stopwatch.ts'

const base64 = (text: string) => Buffer.from(text).toString('base64')

test.each([
  ['the token behind a scheme', 'Bearer Zq7Rk2Lm'],
  ['the password of basic authentication', `Basic ${base64('app:Zq7Rk2Lm')}`],
  ['a parameter of a connection string', 'Server=db;User Id=app;Password=Zq7Rk2Lm;Encrypt=true'],
  ['a line of a file of settings', 'A=1\nexport DB_PASSWORD="Zq7Rk2Lm"\n'],
  ['a line of YAML', 'users:\n  token: Zq7Rk2Lm\n'],
  ['a setting among blanks', 'host=db user=app password=Zq7Rk2Lm dbname=shop'],
  ['a setting among commas', 'redis:6380,password=Zq7Rk2Lm,ssl=True'],
  [
    'a setting in quotes',
    'x.LoginModule required username="app" password="Zq7;Rk2Lm";',
    'Zq7;Rk2Lm',
  ],
  ['a setting with a quote within', "Server=x;Password=Zq7'Rk2Lm;x", "Zq7'Rk2Lm"],
  ['a setting in a text in quotes', 'x="Server=y;Password=Zq7Rk2Lm"'],
  ['a setting in a setting', 'JAVA_OPTS=-Dtoken=Zq7Rk2Lm'],
  ['a setting in a setting of YAML', 'connection: Password=Zq7Rk2Lm;Server=db'],
  ['a setting in a text of JSON', '{"Default":"Server=db;Password=Zq7Rk2Lm"}'],
  ['a setting with a brace within', 'Password=Zq7{Rk2Lm;x', 'Zq7{Rk2Lm'],
  ['a parameter of a URL', 'https://h.test/x?token=Zq7Rk2Lm&a=1'],
  ['a setting that begins with a bracket', 'Server=db;Password=[Zq7!Rk2Lm;x', '[Zq7!Rk2Lm'],
  ['a setting of digits', 'Password=4711-0815-2342;x', '4711-0815-2342'],
  ['a setting that begins with a quote', "Password='Zq7!Rk2Lm;x", "'Zq7!Rk2Lm"],
  ['a header with its name', 'Authorization: Bearer Zq7Rk2Lm'],
  ['the same in JSON', '{"Authorization":"Bearer Zq7Rk2Lm"}'],
  ['JSON in JSON', String.raw`{"SecretString":"{\"password\":\"Zq7Rk2Lm\"}"}`],
  ['JSON of a cookie', encodeURIComponent('{"user":{"access_token":"Zq7Rk2Lm"}}')],
  ['a form of a cookie', encodeURIComponent('uid=5&access_token=Zq7Rk2Lm')],
  ['a short text in base64', btoa('elevenChar9'), 'elevenChar9'],
  ['a text in quotes', String.raw`"-----BEGIN KEY-----\nZq7Rk2Lm\n-----END KEY-----"`],
  ['a line of a cookie', 'first-line-1%0Asecond%2Bline-2%0A', 'second+line-2'],
  ['a token of a cookie', 'Bearer%20Zq7Rk2Lm'],
  ['JSON in base64 of a cookie', encodeURIComponent(btoa('{"token":"Zq7Rk2Lm","a":[1]}'))],
  ['base64 in a field of JSON', JSON.stringify({ auth: btoa('{"token":"Zq7Rk2Lm"}') })],
  ['base64 of a cookie of Supabase', `base64-${base64('{"access_token":"Zq7Rk2Lm"}')}`],
  ['JSON of a cookie of Express', encodeURIComponent('j:{"access_token":"Zq7Rk2Lm"}')],
  ['a field of JSON in base64', btoa('{"n":1,"private_key":"Zq7Rk2Lm"}').replace(/.{40}/, '$&\n')],
  ['a line of a text in base64', `${btoa('-----BEGIN KEY-----\nZq7Rk2Lm\n-----END KEY-----\n')}\n`],
  [
    'a password of letters',
    'smtps://me%40a.test:qzjvmkxhwbtrnlpc@smtp.test:465',
    'qzjvmkxhwbtrnlpc',
  ],
  ['a field of words', '{"jwtSecret":"correct-horse-battery"}', 'correct-horse-battery'],
  ['a line of letters', 'first-line-1\nqzjvmkxhwbtrnlpc', 'qzjvmkxhwbtrnlpc'],
  ['a line with a backslash', 'ab12cd\\nef34gh\nsecond line of it', 'ab12cd\\nef34gh'],
  ['a setting in braces', 'DRIVER=x;PWD={Zq7;Rk2Lm};', 'Zq7;Rk2Lm'],
  ['a setting of npm', '//npm.test/:_auth=Zq7Rk2Lm'],
  ['a key of a subscription', 'a=1;Subscription-Key=Zq7Rk2Lm'],
  ['a short name of settings', 'DB_PASS=Zq7Rk2Lm'],
  ['the same in camel case', 'a=1;dbPass=Zq7Rk2Lm;b=2'],
  ['a user with an apostrophe', "https://2VW'k72Wz9@h.test/x", "2VW'k72Wz9"],
  ['an option of a command', 'mysql --user=app --password=Zq7Rk2Lm shop'],
  ['the password of the last of several hosts', 'amqp://a:One-1@h:1,amqp://a:Zq7Rk2Lm@h:2'],
  ['the password of a URL in a list of YAML', 'hosts: [https://app:Zq7Rk2Lm@es:9200]'],
  ['the password of a URL without a host', 'postgres://app:Zq7Rk2Lm@/shop?host=/x'],
  ['a form', 'user=app&client_secret=Zq7Rk2Lm'],
  ['the password of a URL on another line', 'https://a:One-1@h.test\nhttps://b:Zq7Rk2Lm@h.test'],
  ['the password of a URL in quotes', '"postgres://app:Zq7Rk2Lm@db/shop"'],
  ['the password of a URL within another', 'jdbc:mysql://app:Zq7Rk2Lm@db/shop'],
  ['a password with a comma of several hosts', 'mongodb://app:Zq7,Rk2Lm@a:1,b:2/x', 'Zq7,Rk2Lm'],
  [
    'the user of a URL whose password is a word',
    'https://ghp_Zq7Rk2Lm4711x:x-oauth-basic@h.test',
    'ghp_Zq7Rk2Lm4711x',
  ],
  ['a path of letters', 'https://h.test/hooks/qwxzkjhgfdsapoiuy', 'hooks/qwxzkjhgfdsapoiuy'],
  ['the password of SASL in base64', btoa('\0ann@a.test\0Zq7Rk2Lm')],
  ['a text in base64 in base64', btoa(btoa('a longer pass phrase 99')), 'a longer pass phrase 99'],
])('of a secret, %s is found', (_, secret, part = 'Zq7Rk2Lm') => {
  expect(createScrubber({ secrets: [secret] }).text(`is ${part}.`)).toBe(`is ${SCRUBBED}.`)
})

test.each([
  ['the path of a URL in settings', 'API=https://a.test/api/v2/orders-1', '/api/v2/orders-1'],
  [
    'numbers, dates and versions',
    'TOKEN_TTL=3600\ntoken_created: 2026-10-01\ntoken=1.0',
    '3600 2026-10-01 1.0',
  ],
  ['what a field of sensitive name holds', '{"auth":{"region":"eu-1","port":"5432"}}', 'eu-1 5432'],
  ['a line that is a short word', 'database\nk3y-77x-1\nworker', 'database and worker'],
  ['the user next to a word', 'postgres://db2:postgres@h/x', 'db2 postgres'],
])('of a secret, %s stays', (_, secret, text) => {
  expect(createScrubber({ secrets: [secret] }).text(text)).toBe(text)
})

test('more lines than can be searched for take all of a text', () => {
  const lines = (n: number) => Array.from({ length: 5000 }, (_, at) => `Zq${n}-${at} é`).join('\n')
  const secrets = Array.from({ length: 40 }, (_, n) => lines(n))
  const ownMs = startStopwatch()
  expect(createScrubber({ secrets }).text('an answer')).toBe(SCRUBBED)
  expect(ownMs()).toBeLessThan(5000)
})

test.each([
  ['a scheme without a colon', `a:// ${'a'.repeat(60_000)}`],
  ['a header of blanks', `a${' '.repeat(64_000)}x\ny`],
  ['escaped ends of lines', String.raw`Zq000001 a\n`.repeat(5000)],
  ['blanks in base64', `${'a'.repeat(32_000)}${' '.repeat(32_000)}!`],
  ['names in names', 'token='.repeat(10_000)],
  ['names without values', 'aa={'.repeat(16_000)],
  [
    'the same parts found in several ways',
    `${'token+a://k1?token=token+'.repeat(6)}${'aa={'.repeat(1500)}`,
  ],
  ['URLs with names in a row', 'token%20token://k1?token='.repeat(240)],
  ['URLs in a row', 'https://u:p9@h/ '.repeat(4000)],
])('%s of a secret are read in a bounded time', (_, secret) => {
  const ownMs = startStopwatch()
  createScrubber({ secrets: [secret] }).text('an answer')
  expect(ownMs()).toBeLessThan(2000)
})

describe('of a secret that is JSON', () => {
  test.each([
    ['a number', '{"token":12345678}', '12345678'],
    [
      'a number of many digits, as it is written',
      '{"a":{"token": 12345678901234567890}}',
      '12345678901234567890',
    ],
    ['a number in a list', '{"tokens":[123456,"x"]}', '123456'],
    ['a field in a list', '[{"password":"Zq7Rk2Lm"}]', 'Zq7Rk2Lm'],
    [
      'a field in a list of a field',
      ' {"users": [{"name": "ann-1", "password": "Zq7Rk2Lm"}]}',
      'Zq7Rk2Lm',
    ],
    ['a text in a list of a field', '{"passwords":["other-1","Zq7Rk2Lm"]}', 'Zq7Rk2Lm'],
    ['a text in a list in a list', '{"token":[["a-1"],["Zq7Rk2Lm"]]}', 'Zq7Rk2Lm'],
    [
      'a line of a text in a list',
      '{"keys":1,"secrets":["first-line-1\\nsecond+line=2"]}',
      'second+line=2',
    ],
    [
      'the password of a URL in a list',
      '["x-1",{"urls":["postgres://app:S3cr3tPw@db/shop"]}]',
      'S3cr3tPw',
    ],
    [
      'the password of a sensitive URL',
      '{"secretUrl":"postgres://app:S3cr3tPw@db/shop"}',
      'S3cr3tPw',
    ],
    ['a short name', '{"smtp":{"pass":"Zq7Rk2Lm"}}', 'Zq7Rk2Lm'],
    [
      'a cookie of a storageState',
      '{"cookies":[{"name":"sid","value":"s%3AZq7Rk2Lm","path":"/"}]}',
      's%3AZq7Rk2Lm',
    ],
    [
      'an item of a storageState that is JSON',
      `{"origins":[{"localStorage":[{"name":"user","value":"{\\"token\\":\\"Zq7Rk2Lm\\"}"}]}]}`,
      'Zq7Rk2Lm',
    ],
  ])('%s is found', (_, secret, part) => {
    expect(createScrubber({ secrets: [secret] }).text(`is ${part}.`)).toBe(`is ${SCRUBBED}.`)
  })

  test('plain words, short numbers, and what has no sensitive name stay', () => {
    const secrets = [
      '{"token":3600,"tokenLists":[true,null,"deleted",42],"port":543210,"hosts":["db-1","db-2"]}',
      '[{"password":"none","user":"ann-77"},["words","only"],8080]',
      '{"password":{"hint":"dog-5"}}',
      '[1234567',
    ]
    const cookie = { name: 'theme', value: 'dark', path: '/', sameSite: 'Lax' }
    secrets.push(JSON.stringify({ cookies: [cookie] }, null, 2))
    const text =
      '3600 true null deleted 42 543210 db-1 none ann-77 words 8080 dog-5 1234567 dark "sameSite": "Lax"'
    expect(createScrubber({ secrets }).text(text)).toBe(text)
  })

  test('the values count as values of the run', () => {
    const list = (count: number) =>
      JSON.stringify({ tokens: Array.from({ length: count }, (_, at) => `v-${at}`) })
    // The secret itself is one, and `["v-0"` looks like a setting.
    const max = LIMITS.secretValuesMax - 2
    expect(createScrubber({ secrets: [list(max)] }).text(`the v-${max - 1}!`)).toBe(
      `the ${SCRUBBED}!`,
    )
    expect(createScrubber({ secrets: [list(max + 1)] }).text('an answer')).toBe(SCRUBBED)
  })

  test.each([
    ['deep lists', '['.repeat(30_000) + ']'.repeat(30_000)],
    ['deep objects', '{"token":'.repeat(7000) + '1' + '}'.repeat(7000)],
    ['wide lists', `[${'1,'.repeat(30_000)}1]`],
    ['blanks', ' '.repeat(60_000)],
  ])('%s are read in a bounded time', (_, secret) => {
    const ownMs = startStopwatch()
    expect(createScrubber({ secrets: [secret, 'hush-hush'] }).text('hush-hush')).toBe(SCRUBBED)
    expect(ownMs()).toBeLessThan(5000)
  })
})
