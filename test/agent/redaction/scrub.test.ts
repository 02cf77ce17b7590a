// No secret leaves: not by header, not by value in any usual encoding, not in a URL. And nothing else
// is changed.
import { inspect } from 'node:util'
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
    ['Latin-1 read as UTF-8', umlauts, Buffer.from(umlauts, 'latin1').toString()],
    ['DNS', umlauts, String.raw`gr\195\182\195\159e-Schl\195\188ssel-9`],
    ['DNS, in JSON', 'lead trail x', String.raw`lead\\032trail\\032x`],
    ['a host', 'MixedCaseToken42', 'mixedcasetoken42'],
    ['a short host', 'Zk9qT4x', 'zk9qt4x'],
    ['a URL, a slash for a backslash', String.raw`CORP\pw99xyz`, 'CORP/pw99xyz'],
    ['a URL, without white space', 'tab\tpw\nline', 'tabpwline'],
    ['a control character, in JSON', 'pw\u007F99xyz', String.raw`pw\u007f99xyz`],
    ['the function escape', 'Z\u00fcr\u20ac\u{1F511}99', 'Z%FCr%u20AC%uD83D%uDD1199'],
    ['Python, in ASCII', 'Z\u00fcrich\u20ac99', String.raw`Z\xfcrich\u20ac99`],
    ['Python, beyond the basic plane', 'pw\u{1F511}99xyz', String.raw`pw\U0001f51199xyz`],
    ['a terminal, in colours', token, 'K3yTok\u001B[7m9zQw\u001B[27m7Lm2Xv'],
    ['a terminal, with a character set', token, 'K3yTok\u001B(B\u001B[m9zQw7Lm2Xv'],
    ['a terminal, in colours, in JSON', token, String.raw`K3yTok9z\u001b[38;5;1mQw7Lm2Xv`],
    ['a terminal, in an escape of JSON', 'K3yTök99', 'K3yT\\u00\u001B[31mf6\u001B[39mk99'],
    [
      'a form, in hexadecimal',
      token,
      Buffer.from(token)
        .toString('hex')
        .replaceAll(/..(?=.)/g, '$&+'),
    ],
    ['a form, with an escape', '6mg nR%20j', '6mg+nR%2520j'],
    ['a page, one blank for several', 'correct  horse\tbattery', 'correct horse battery'],
    ['a line, without control characters', 'user\t pw77', 'user  pw77'],
    ['a call log, with signs', 'user\tpw77', 'user⇆pw77'],
    ['a URL, without its fragment', String.raw`aB3$\dE6f#gH9`, 'aB3$/dE6f'],
    ['a URL, without its fragment, in the query', String.raw`aB3$\dE6f#gH9`, String.raw`aB3$\dE6f`],
    ['a URL of several hosts', 'mongodb://u:pw99xyz@a:1,b:2/x?w=1', 'pw99xyz'],
    ['its parameters', 'postgresql://a:1,b:2/x?password=pw99xyz', 'pw99xyz'],
    ['a URL, its parameters', 'postgresql://db/x?user=u&password=pw99xyz%21', 'pw99xyz!'],
    ['a URL, its path', 'https://x.test/T0/B0/hook-77-secret', 'T0/B0/hook-77-secret'],
    ['a URL, path and query', 'https://x.test/p?key=abc-1234567#f', 'p?key=abc-1234567'],
    ['a URL, its user without a password', 'https://key77x@x.test/p', 'key77x'],
    ['a URL, its password', 'postgres://u:pw99xyz%21@db/x', 'pw99xyz!'],
    ['no blanks around it', ' hunter2\n', 'hunter2'],
    ['an escape that it ends', '2019', String.raw`\u2019`],
  ])('is found in what programs make of it: %s', (_, secret, text) => {
    const one = createScrubber({ secrets: [secret] })
    expect(one.text(`<<${text}>>`)).toBe(`<<${SCRUBBED}>>`)
  })

  test.each([
    ['JSON', 'tabc"defXY9!', String.raw`CORP\\tabc\"defXY9!`],
    ['JSON in ASCII', 'fü9kLx2!Q', String.raw`C:\\keys\\f\u00fc9kLx2!Q`],
    ['HTML', 'nK4d&9x<Lw2', String.raw`CORP\nK4d&amp;9x&lt;Lw2`],
    ['a URL', 'nK4d/9xLw2', String.raw`CORP\nK4d%2F9xLw2`],
    ['a form', "nina's pass word 99X", 'CORP%5Cnina%27s+pass+word+99X'],
    ['a URL behind a percent sign', 'beef/9xLw2', '5%beef%2F9xLw2'],
    ['JSON, in front of digits', '7Rt5"Yw8<L/q%', String.raw`57Rt5\"Yw8<L/q%41`],
  ])('is found where an end of it may be of an escape: %s', (_, secret, text) => {
    const clean = createScrubber({ secrets: [secret] }).text(`"${text}" z`)
    expect(clean).toMatch(/^"(?:CORP(?:%5C)?|C:\\\\keys|5)\[scrubbed\](?:%41)?" z$/)
  })

  test('of a URL has no parts that are words', () => {
    const one = createScrubber({ secrets: ['https://user:words@x.test/customers/overview'] })
    expect(one.text('words of /customers/overview')).toBe('words of /customers/overview')
  })

  test('is found line by line, also where its ends of lines are escaped', () => {
    const lines = ['MIIEvQIBADANBgkqhkiG9w0B', 'MzEfYyjiWA4R4-M2bS1GB4t7']
    const key = ['-----BEGIN PRIVATE KEY-----', ...lines, '-----END PRIVATE KEY-----']
    for (const end of [String.raw`\n`, String.raw`\r\n`]) {
      const one = createScrubber({ secrets: [key.join(end)] })
      expect(one.text(inspect(`${key.join('\n')}\n`))).not.toMatch(/MIIE|MzEf|4t7/)
    }
    const path = String.raw`\\server\new-7`
    expect(createScrubber({ secrets: [path] }).text('the server')).toBe('the server')
  })

  test('is found line by line, also where all of its lines are short', () => {
    const one = createScrubber({ secrets: ['pin-77\npin-88\n'] })
    expect(one.text('- pin-77\n- pin-88\n')).toBe(`- ${SCRUBBED}\n- ${SCRUBBED}\n`)
    expect(createScrubber({ secrets: ['on\noff\nk3-y'] }).text('it is off')).toBe('it is off')
  })

  const [HEX, BASE64] = [
    Buffer.from(token)
      .toString('hex')
      .replaceAll(/..(?=.)/g, '$&:'),
    Buffer.from(token).toString('base64'),
  ]
  test.each([
    ['an excerpt in a message', '“K3yTok9zQ…” within 1500 ms', `“${SCRUBBED}…” within 1500 ms`],
    ['the same in ASCII JSON', String.raw`{"a":"K3yTok9z\u2026"}`, `{"a":"${SCRUBBED}\\u2026"}`],
    ['the same in HTML', '<b>K3yTok9z&hellip;</b>', `<b>${SCRUBBED}&hellip;</b>`],
    ['an error of JSON.parse', '"{"a": K3yTok9z"... is', `"{"a": ${SCRUBBED}"... is`],
    ['one that begins with a cut', 'at ..."zQw7Lm2Xv" is', `at ..."${SCRUBBED}" is`],
    ['one with a cut on either side', 'at ..."yTok9zQw"... is', `at ..."${SCRUBBED}"... is`],
    ['the same in JSON', String.raw`...\"yTok9zQw\"...`, String.raw`...\"${SCRUBBED}\"...`],
    ['an inspected text', "'K3yTok9z'... 12 more", `'${SCRUBBED}'... 12 more`],
    ['hexadecimal behind a separator', `${HEX.slice(0, 21)}…`, `${SCRUBBED}…`],
    ['hexadecimal in front of a separator', `…${HEX.slice(20)}`, `…:${SCRUBBED}`],
    ['base64 on either side', `a …${BASE64.slice(5, 21)}… z`, `a …${SCRUBBED}… z`],
    ['an escape of a URL that it begins in', '…B3yTok9zQw7Lm2Xv %', `…${SCRUBBED} %`],
    ['an escape of HTML that it begins in', '…5;yTok9zQw7Lm2Xv', `…${SCRUBBED}`],
    ['four dots', 'at ....zQw7Lm2Xv', `at ....${SCRUBBED}`],
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

  test('is not suspected where a long text begins or ends with a few of its characters', () => {
    const one = createScrubber({ secrets: ['postgres://app:Kq7ZtLw9@db/shop'] })
    const text = `shop is open. ${'lorem '.repeat(20)}written by post`
    expect(one.text(text)).toBe(text)
    expect(one.text(`${text}gres://`)).toBe(text.replace(/post$/, SCRUBBED))
  })

  test('is not suspected next to an ellipsis with blanks around, or by few bytes between two', () => {
    const text = 'K3yT ... zQw7 … K3yT ...Tok9...'
    expect(createScrubber({ secrets: [token] }).text(text)).toBe(text)
  })

  test('shorter than three characters is left alone', () => {
    expect(createScrubber({ secrets: ['ab', ''] }).text('cab')).toBe('cab')
  })
})

// Docker leaves quotes around values in a file of variables.
test.each(['"correct-horse"', 'correct-horse"', '"correct-horse'])(
  'a secret with quotes leaves JSON that can be read: %s',
  (secret) => {
    const one = createScrubber({ secrets: [secret] })
    for (const value of ['correct-horse', secret, `"${secret}"`]) {
      const inner = JSON.stringify({ a: value, b: 1 })
      const clean = one.text(JSON.stringify({ a: value, inner, b: 1 }))
      expect(clean).not.toContain('horse')
      const outer = JSON.parse(clean) as { a: string; inner: string }
      expect(outer.a).toContain(SCRUBBED)
      expect(JSON.parse(outer.inner)).toMatchObject({ b: 1 })
    }
  },
)

describe('URLs', () => {
  const plain = createScrubber({})
  test.each([
    ['user and password', 'http://user:pass@host/path', `http://${SCRUBBED}@host/path`],
    ['a user alone', 'at https://token@host:1', `at https://${SCRUBBED}@host:1`],
    ['slashes as in PHP', String.raw`https:\/\/u:p@h`, String.raw`https:\/\/${SCRUBBED}@h`],
    ['percent signs', 'https%3A%2F%2Fu%3Ap%40h', `https%3A%2F%2F${SCRUBBED}%40h`],
    ['an apostrophe in the password', "http://u:pa'ss@host", `http://${SCRUBBED}@host`],
    ['escapes of JSON', String.raw`https://u:p\u0026\u00e9@h`, `https://${SCRUBBED}@h`],
    ['no credentials', 'https://host/a@b', 'https://host/a@b'],
    ['no credentials, in a literal', "['http://host','a@b']", "['http://host','a@b']"],
    ['a mail address', 'mail me@host about http://host', 'mail me@host about http://host'],
  ])('with %s', (_, given, expected) => expect(plain.text(given)).toBe(expected))
})

test('a secret that is JSON is found by its sensitive fields', () => {
  const database = { username: 'shop-1', password: 'Zq7Rk2Lm', tokenType: 'Bearer' }
  const key = '-----BEGIN PRIVATE KEY-----\nMIIEvQ1x\n-----END PRIVATE KEY-----'
  const also = { private_key: key, url: 'postgres://app:S3cr3tPw@db/shop' }
  const secrets = [JSON.stringify({ database }), ` ${JSON.stringify(also, null, 2)}`, '{"a":']
  const one = createScrubber({ secrets })
  const given = `shop-1 Zq7Rk2Lm Bearer MIIEvQ1x app S3cr3tPw at db/shop`
  const gone = `shop-1 ${SCRUBBED} Bearer ${SCRUBBED} app ${SCRUBBED} at db/shop`
  expect(one.text(given)).toBe(gone)
})

describe('a text without a secret', () => {
  test('is given back as it is, not copied', () => {
    const given = { a: [{ b: 'c' }], headers: { accept: '*/*' } }
    expect(scrubber.value(given)).toBe(given)
    const certificate = { signatureAlgorithm: 'ecdsa-with-SHA256', keyAlgorithm: 'EC' }
    expect(scrubber.value({ certificate })).toEqual({ certificate })
  })

  test('keeps what is left of a rate limit on tokens', () => {
    const given = { headers: { 'x-ratelimit-remaining-tokens': '149984' } }
    expect(scrubber.value(given)).toBe(given)
  })

  test('keeps two names of hosts, of which the first one looks like a name of a header', () => {
    const certificate = { sans: ['secrets.example.com', 'vault.example.com'] }
    const given = { url: 'https://vault.example.com/', certificate, tags: ['@password', '@smoke'] }
    expect(scrubber.value(given)).toBe(given)
  })

  test('and objects that are no plain ones too', () => {
    const given = { err: new Error('odd'), buffer: Buffer.from('x') }
    expect(scrubber.value(given)).toBe(given)
  })
})
