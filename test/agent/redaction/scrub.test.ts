// No secret leaves: not by header, not by value in any usual encoding, not in a URL. And nothing else
// is changed.
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createScrubber, SCRUBBED } from '../../../src/agent/redaction/scrub.ts'

const SECRET = 'p@ss w/ö"rd&<+\'%=\\n'
const scrubber = createScrubber({ secrets: [SECRET] })

const html = (text: string) =>
  text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;')

describe('a secret value', () => {
  test('of any kind is found in every encoding', () => {
    const value = fc.string({ unit: 'grapheme', minLength: 3, maxLength: 30 })
    fc.assert(
      fc.property(value, (secret) => {
        fc.pre(secret.isWellFormed())
        const one = createScrubber({ secrets: [secret] })
        const written = [
          secret,
          encodeURIComponent(secret),
          JSON.stringify(secret).slice(1, -1),
          html(secret),
          new URLSearchParams({ a: secret }).toString().slice(2),
        ]
        for (const text of written) {
          expect(one.text(`<<${text}>>`)).not.toContain(`<<${text}>>`)
        }
      }),
    )
  })

  test('of which another one is the beginning leaves no rest', () => {
    const both = createScrubber({ secrets: ['secret', 'secret-and-more'] })
    expect(both.text('x secret-and-more y')).toBe(`x ${SCRUBBED} y`)
  })

  test('is found over the lines of a private key, however they end', () => {
    const key = '-----BEGIN PRIVATE KEY-----\nMIIE+a/b\n-----END PRIVATE KEY-----'
    const one = createScrubber({ secrets: [key] })
    for (const text of [key, key.replaceAll('\n', '\r\n'), key.replaceAll('\n', String.raw`\n`)]) {
      expect(one.text(`a ${text} b`)).toBe(`a ${SCRUBBED} b`)
    }
  })

  const umlauts = 'größe-Schlüssel-9'
  const utf8 = Buffer.from(umlauts)
  const token = 'K3yTok9zQw7Lm2Xv'
  test.each<[string, string, string]>([
    ['UTF-8 read as Latin-1', umlauts, utf8.toString('latin1')],
    ['UTF-8 read as Windows-1252', umlauts, new TextDecoder('windows-1252').decode(utf8)],
    ['Latin-1 read as UTF-8', umlauts, Buffer.from(umlauts, 'latin1').toString()],
    ['HTML with names', umlauts, 'gr&ouml;&szlig;e-Schl&uuml;ssel-9'],
    ['DNS', umlauts, String.raw`gr\195\182\195\159e-Schl\195\188ssel-9`],
    ['DNS, in JSON', 'lead trail x', String.raw`lead\\032trail\\032x`],
    ['a host', 'MixedCaseToken42', 'mixedcasetoken42'],
    ['a URL, a slash for a backslash', String.raw`CORP\pw99xyz`, 'CORP/pw99xyz'],
    ['a URL, without white space', 'tab\tpw\nline', 'tabpwline'],
    ['SQL', "O'Hara99", "O''Hara99"],
    ['CSV', 'O"Hara99', 'O""Hara99'],
    ['a shell', "O'Hara99", String.raw`O'\''Hara99`],
    ['a terminal, in colours', token, 'K3yTok\u001B[7m9zQw\u001B[27m7Lm2Xv'],
    ['a terminal, in colours, in JSON', token, String.raw`K3yTok9z\u001b[38;5;1mQw7Lm2Xv`],
    ['a page, one blank for several', 'correct  horse\tbattery', 'correct horse battery'],
    ['a line, without control characters', 'user\t pw77', 'user  pw77'],
    ['a call log, with signs', 'user\tpw77', 'user⇆pw77'],
    ['a URL, without its fragment', String.raw`aB3$\dE6f#gH9`, 'aB3$/dE6f'],
    ['a file name, with hyphens next to others', 'Ux-+7f/Rk-=2m', 'Ux--7f-Rk--2m'],
    ['a file name, with other letters', 'пар+оль=ключ', 'пар-оль-ключ'],
    ['no blanks around it', ' hunter2\n', 'hunter2'],
    ['an escape that it ends', '2019', String.raw`\u2019`],
  ])('is found in what programs make of it: %s', (_, secret, text) => {
    const one = createScrubber({ secrets: [secret] })
    expect(one.text(`<<${text}>>`)).toBe(`<<${SCRUBBED}>>`)
  })

  test('is found line by line, also where all of its lines are short', () => {
    const one = createScrubber({ secrets: ['pin-77\npin-88\n'] })
    expect(one.text('- pin-77\n- pin-88\n')).toBe(`- ${SCRUBBED}\n- ${SCRUBBED}\n`)
    expect(createScrubber({ secrets: ['on\noff\nk3-y'] }).text('it is off')).toBe('it is off')
  })

  test.each([
    ['an excerpt in a message', '“K3yTok9zQ…” within 1500 ms', `“${SCRUBBED}…” within 1500 ms`],
    ['an error of JSON.parse', '"{"a": K3yTok9z"... is', `"{"a": ${SCRUBBED}"... is`],
    ['one that begins with a cut', 'at ..."zQw7Lm2Xv" is', `at ..."${SCRUBBED}" is`],
    ['an inspected text', "'K3yTok9z'... 12 more", `'${SCRUBBED}'... 12 more`],
    ['one within a colour', 'K3yTok9zQ\u001B[38;2;255;255;25…', `${SCRUBBED}…`],
    ['inspected bytes', '4b 33 79 54 6f ... 9 more bytes', `${SCRUBBED} ... 9 more bytes`],
  ])('is found where it was cut: %s', (_, text, expected) => {
    expect(createScrubber({ secrets: [token] }).text(text)).toBe(expected)
  })

  test('is found in base64 that was filled up after a cut', () => {
    const text = Buffer.from(`xy${token.slice(0, 14)}`).toString('base64')
    expect(text).toMatch(/=$/)
    expect(createScrubber({ secrets: [token] }).text(`${text}…`)).toContain(SCRUBBED)
  })

  test('is not suspected next to an ellipsis with blanks around', () => {
    const text = 'K3yT ... zQw7 … K3yT'
    expect(createScrubber({ secrets: [token] }).text(text)).toBe(text)
  })

  test('shorter than three characters is left alone', () => {
    expect(createScrubber({ secrets: ['ab', ''] }).text('cab')).toBe('cab')
  })
})

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
      'but no others',
      { 'content-type': 'text/html', etag: '"x"' },
      { 'content-type': 'text/html', etag: '"x"' },
    ],
    ['and numbers stay', { cookieCount: 2, cookie: 3 }, { cookieCount: 2, cookie: 3 }],
  ])('%s', (_, given, expected) => expect(named.value(given)).toEqual(expected))

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
  ])('%s is one without any setting', (name) => {
    expect(createScrubber({}).isSensitive(name)).toBe(true)
    expect(createScrubber({}).isSensitive(name.toUpperCase())).toBe(true)
  })
})

describe('URLs', () => {
  const plain = createScrubber({})
  test.each([
    ['user and password', 'http://user:pass@host/path', `http://${SCRUBBED}@host/path`],
    ['a user alone', 'at https://token@host:1', `at https://${SCRUBBED}@host:1`],
    ['slashes as in PHP', String.raw`https:\/\/u:p@h`, String.raw`https:\/\/${SCRUBBED}@h`],
    ['percent signs', 'https%3A%2F%2Fu%3Ap%40h', `https%3A%2F%2F${SCRUBBED}%40h`],
    ['an apostrophe in the password', "http://u:pa'ss@host", `http://${SCRUBBED}@host`],
    ['no credentials', 'https://host/a@b', 'https://host/a@b'],
    ['no credentials, in a literal', "['http://host','a@b']", "['http://host','a@b']"],
    ['a mail address', 'mail me@host about http://host', 'mail me@host about http://host'],
  ])('with %s', (_, given, expected) => expect(plain.text(given)).toBe(expected))
})

test('a name that others gave holds no secret; names of ours stay', () => {
  const one = createScrubber({ secrets: ['hunter22', 'headers'] })
  const given = { headers: { 'x-hunter22': 'a' }, response: { trailers: { hunter22: ['b'] } } }
  expect(one.value(given)).toEqual({
    headers: { [`x-${SCRUBBED}`]: 'a' },
    response: { trailers: { [SCRUBBED]: ['b'] } },
  })
})

describe('a text without a secret', () => {
  test('is given back as it is, not copied', () => {
    const given = { a: [{ b: 'c' }], headers: { accept: '*/*' } }
    expect(scrubber.value(given)).toBe(given)
  })

  test('and objects that are no plain ones too', () => {
    const given = { err: new Error('odd'), buffer: Buffer.from('x') }
    expect(scrubber.value(given)).toBe(given)
  })
})
