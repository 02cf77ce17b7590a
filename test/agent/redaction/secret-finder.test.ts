// Aim: a secret in any spelling is found wherever it stands and whatever stands around it, in linear time; every
// match is what an independent search finds as well; and an internal error reveals nothing.
import { createHash } from 'node:crypto'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { byteRules, ByteScrubber } from '../../../src/agent/redaction/byte-scrubber.ts'
import { NamedTexts } from '../../../src/agent/run/named-texts.ts'
import { NeedleIndex } from '../../../src/agent/redaction/needle-index.ts'
import { createScrubber, SCRUBBED } from '../../../src/agent/redaction/scrub.ts'
import { SecretFinder } from '../../../src/agent/redaction/secret-finder.ts'
import { startStopwatch } from '../../support/stopwatch.ts'
import { createNameTest } from '../../../src/contract/protocol/sensitive-name.ts'
import { LIMITS } from '../../../src/contract/versions.ts'

const base64 = (text: string | Buffer) => Buffer.from(text).toString('base64')
const hex = (text: string) => Buffer.from(text).toString('hex')
const inLines = (text: string, width: number, end: string) =>
  Array.from({ length: Math.ceil(text.length / width) }, (_, at) =>
    text.slice(at * width, (at + 1) * width),
  ).join(end)
const bytesOf = (text: string) =>
  Array.from(Buffer.from(text), (one) => one.toString(16).padStart(2, '0'))
const json = (text: string) => JSON.stringify(text).slice(1, -1)

/** Independent of the finder. */
const SPELLINGS: Record<string, (secret: string) => string> = {
  plain: (one) => one,
  url: encodeURIComponent,
  'url twice': (one) => encodeURIComponent(encodeURIComponent(one)),
  'url of all bytes': (one) =>
    bytesOf(one)
      .map((byte) => `%${byte}`)
      .join(''),
  form: (one) => new URLSearchParams({ a: one }).toString().slice(2),
  JSON: json,
  'JSON in JSON': (one) => json(json(one)),
  'JSON in JSON in JSON': (one) => json(json(json(one))),
  'JSON in a URL': (one) => encodeURIComponent(json(one)),
  'JSON of all units': (one) =>
    Array.from(
      { length: one.length },
      (_, at) => `\\u${one.charCodeAt(at).toString(16).padStart(4, '0')}`,
    ).join(''),
  'escapes of all bytes': (one) =>
    bytesOf(one)
      .map((byte) => `\\x${byte}`)
      .join(''),
  'entities of all characters': (one) =>
    Array.from(one, (c) => `&#x${c.codePointAt(0)?.toString(16)};`).join(''),
  HTML: (one) =>
    one
      .replaceAll('&', '&amp;')
      .replaceAll('<', '&lt;')
      .replaceAll('"', '&quot;')
      .replaceAll("'", '&#39;'),
  hex,
  HEX: (one) => hex(one).toUpperCase(),
  'mixed hex': (one) =>
    hex(one).replaceAll(/[a-f]/g, (c, at: number) => (at % 3 === 0 ? c.toUpperCase() : c)),
  'hex of PostgreSQL': (one) => `\\x${hex(one)}`,
  'hex of PostgreSQL in JSON': (one) => json(`\\x${hex(one)}`),
  'hex with colons': (one) => bytesOf(one).join(':'),
  'hex with spaces in lines': (one) => inLines(bytesOf(one).join(' '), 24, '\n'),
  'hex with 0x': (one) =>
    bytesOf(one)
      .map((byte) => `0x${byte}`)
      .join(', '),
  'hex in rows of a dump': (one) =>
    `\n${inLines(bytesOf(`Token: ${one}`).join(' '), 48, '\n')}`.replaceAll(
      /\n(.+)/g,
      (_, row: string, at: number) =>
        `\n${((at / 49) * 16).toString(16).padStart(8, '0')}  ${row.padEnd(48)} |${'.'.repeat(16)}|`,
    ),
  base64,
  'base64 after 1': (one) => base64(`!${one}?`),
  'base64 after 2': (one) => base64(`!!${one}??`),
  base64url: (one) => Buffer.from(one).toString('base64url'),
  'base64 in a URL': (one) => encodeURIComponent(base64(one)),
  'base64 in lines': (one) => inLines(base64(one), 20, '\r\n'),
  'base64 in lines of JSON': (one) => json(inLines(base64(one), 20, '\n')),
  'base64 in indented lines': (one) => inLines(base64(one), 20, '\n    '),
  'base64 of base64': (one) => base64(base64(one)),
  'base64 of base64 with neighbours': (one) => base64(`x: ${base64(`a=${one};`)}\n`),
  'base64 of JSON': (one) => base64(JSON.stringify({ password: one })),
  'base64 of hex': (one) => base64(hex(one)),
  'hex of base64': (one) => hex(base64(one)),
}

/** Long enough for all spellings; no letters of hexadecimal or base64 would join with what is around it. */
const secrets = fc
  .array(
    fc.oneof(
      fc.constantFrom(...Array.from('abXYZ019 +/=%&<>"\'\\.*()[]{}|^$?;:\t-_')),
      fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 }),
    ),
    { minLength: 8, maxLength: 40 },
  )
  .map((parts) => parts.join(''))
  .filter((one) => one.isWellFormed() && /[A-Za-z0-9]{2}/.test(one))
const around = fc.constantFrom('<', '> ', '"', ' = "', '(', '\n', '}, ', '"; ')

test.each(['x', 'X', 'x200.png'])(
  'hexadecimal that ends with 0 is found in front of %s',
  (after) => {
    const scrubber = createScrubber({ secrets: ['Zq7Rk2LmB0K0'] })
    for (const spelled of [hex('Zq7Rk2LmB0K0'), hex('Zq7Rk2LmB0K0').toUpperCase()]) {
      expect(scrubber.text(`to ${spelled}${after}`)).toBe(`to ${SCRUBBED}${after}`)
    }
  },
)

describe.each(Object.entries(SPELLINGS))('%s', (_, spelled) => {
  test('is found in a text', () => {
    fc.assert(
      fc.property(secrets, around, around, (secret, before, after) => {
        const text = `begin${before}${spelled(secret)}${after}end`
        const clean = createScrubber({ secrets: [secret] }).text(text)
        expect(clean).toContain(SCRUBBED)
        expect(clean).not.toContain(spelled(secret))
      }),
      { numRuns: 60 },
    )
  })

  test('is found in a stream wherever it is cut', () => {
    const secret = 'p\u00e4ss "w\u20acrd" & <more>+\u{1F511}/x'
    const bytes = Buffer.from(`begin <${spelled(secret)}> end`)
    const rules = { ...byteRules([secret], createNameTest()), overlapBytes: bytes.length }
    const filler = Buffer.from('some line\n'.repeat(40))
    const run = (cut: number) => {
      const one = new ByteScrubber(rules)
      const all = Buffer.concat([filler, bytes, filler])
      return Buffer.concat([
        one.write(all.subarray(0, cut)),
        one.write(all.subarray(cut)),
        one.end(),
      ])
    }
    const whole = run(0)
    expect(whole.includes(SCRUBBED)).toBe(true)
    expect(whole.includes(spelled(secret))).toBe(false)
    for (let cut = filler.length; cut <= filler.length + bytes.length; cut++) {
      expect(run(cut).equals(whole)).toBe(true)
    }
    // What has been given when the secret comes ends anywhere before it, or within it.
    for (let after = 0; after <= bytes.length + 8; after++) {
      const one = new ByteScrubber(rules)
      const tail = filler.subarray(0, bytes.length - after + 8)
      const head = Buffer.concat([filler, bytes, tail])
      const clean = Buffer.concat([one.write(head), one.write(filler), one.end()])
      expect(clean.toString().split(SCRUBBED)).toHaveLength(2)
    }
  })
})

describe('an index', () => {
  test('finds what a search for each needle finds', () => {
    const bytes = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 60 })
    const needles = fc.array(
      fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 3, maxLength: 9 }),
      { maxLength: 12 },
    )
    fc.assert(
      fc.property(bytes, needles, (text, given) => {
        const found: string[] = []
        const index = new NeedleIndex(given.map((one) => ({ bytes: one, isOpen: false })))
        index.find(Buffer.from(text), (from, to) => found.push(`${from}-${to}`))
        const expected = Array.from({ length: text.length }, (_, at) => {
          const here = given.filter((one) => text.startsWith(one, at)).map((one) => one.length)
          return here.length === 0 ? [] : [`${at}-${at + Math.max(...here)}`]
        })
        expect(found).toEqual(expected.flat())
      }),
      { numRuns: 500 },
    )
  })

  test('finds the beginning of the longest needle at a cut end', () => {
    const index = new NeedleIndex([{ bytes: 'abcdefgh', isOpen: false }])
    const found: number[][] = []
    index.find(Buffer.from('xx abcdef'), (from, to) => found.push([from, to]), { isCut: true })
    expect(found).toEqual([[3, 9]])
  })

  test.each([
    [
      'one letter, and a secret of it with another end',
      ['a'.repeat(65_000) + 'b'],
      'a'.repeat(400_000),
    ],
    [
      'nested needles',
      Array.from({ length: 2000 }, (_, at) => 'a'.repeat(3 + at)),
      'a'.repeat(200_000),
    ],
    [
      'cookies with one beginning',
      Array.from({ length: 1000 }, (_, at) => `session_${'a'.repeat(60)}${at}`),
      `session_${'a'.repeat(60)}`.repeat(5000),
    ],
    [
      'long values with one beginning',
      Array.from({ length: 1000 }, (_, at) => `${'a'.repeat(16_500)}${1000 + at}`),
      'a'.repeat(200),
    ],
    ['backslashes', ['\\'.repeat(6)], '\\'.repeat(200_000)],
  ])('needs a bounded time: %s', (_, given, text) => {
    const ownMs = startStopwatch()
    createScrubber({ secrets: given }).text(text)
    expect(ownMs()).toBeLessThan(15_000)
  })

  test('looks for parts of needles as long as these are not too many', () => {
    const contains = (length: number) =>
      new NeedleIndex([{ bytes: 'a'.repeat(length), isOpen: false }]).contains(Buffer.from('aaaa'))
    expect([contains(3), contains(131_072), contains(131_073)]).toEqual([false, true, false])
  })

  test('refuses what needs too many comparisons, and says nothing of it', () => {
    const needles = ['b', 'c'].map((end) => ({ bytes: 'a'.repeat(65_000) + end, isOpen: false }))
    const index = new NeedleIndex(needles)
    const search = () => index.find(Buffer.from('a'.repeat(400_000)), () => undefined)
    expect(search).toThrow(/bound/)
    expect(search).not.toThrow(/aaa/)
  })
})

describe('an internal failure', () => {
  const secret = 'hunter22hunter22'

  test.each([
    [
      'making it',
      () => {
        throw new Error(secret)
      },
    ],
    [
      'searching',
      () => ({
        spans() {
          throw new Error(secret)
        },
      }),
    ],
  ])('of %s takes the whole text', (_, finderOf) => {
    const one = createScrubber({ secrets: [secret] }, undefined, finderOf)
    expect(one.text(`a ${secret} b`)).toBe(SCRUBBED)
    const given = { cookie: 'abcdefgh', deep: [{ body: `a ${secret}` }] }
    expect(one.value(given)).toEqual({ cookie: SCRUBBED, deep: [{ body: SCRUBBED }] })
  })

  test('in a stream ends it', () => {
    class Failing extends SecretFinder {
      override spans(): never {
        throw new Error(secret)
      }
    }
    const rules = { ...byteRules([], createNameTest()), finder: new Failing([]), overlapBytes: 10 }
    const one = new ByteScrubber(rules)
    const clean = [
      one.write(Buffer.from('a'.repeat(50) + secret)),
      one.write(Buffer.from(secret)),
      one.end(),
    ]
    expect(Buffer.concat(clean).toString()).toBe(SCRUBBED)
  })

  test('by too many comparisons takes the whole text', () => {
    const one = createScrubber({ secrets: ['b', 'c'].map((end) => 'a'.repeat(65_000) + end) })
    expect(one.text('a'.repeat(400_000))).toBe(SCRUBBED)
  })

  test('by more values than may be known takes all texts', () => {
    const many = Array.from({ length: LIMITS.secretValuesMax + 1 }, (_, at) => `value-${at}`)
    expect(createScrubber({ secrets: many }).text('an answer')).toBe(SCRUBBED)
    expect(createScrubber({ secrets: many.slice(1) }).text('an answer')).toBe('an answer')
  })
})

describe('a value over the limit', () => {
  const long = Array.from({ length: 2000 }, (_, at) =>
    createHash('sha256').update(`${at}`).digest('hex'),
  ).join('')

  test('takes all that follows it, so that nothing is left and its length does not show', () => {
    expect(long.length).toBeGreaterThan(LIMITS.secretCharactersMax)
    const one = createScrubber({ secrets: [long] })
    expect(one.text(`a ${long} b`)).toBe(`a ${SCRUBBED}`)
    const stream = new ByteScrubber(byteRules([long], createNameTest()))
    const clean = [
      stream.write(Buffer.from(`a ${long}`)),
      stream.write(Buffer.from(`${long} b`)),
      stream.end(),
    ]
    expect(Buffer.concat(clean).toString()).toBe(`a ${SCRUBBED}`)
  })

  test.each<[string, (value: string) => string]>([
    ['JSON', (value) => JSON.stringify({ a: 1, token: value, end: 2 })],
    ['JSON in JSON', (value) => JSON.stringify([JSON.stringify({ token: value, end: 2 })])],
    ['a list of headers', (value) => JSON.stringify([{ name: 'cookie', value }, 'end'])],
    ['lines', (value) => `cookie: ${value}\nend: 2\n`],
  ])('or near it stands nowhere next to its name: %s', (_, written) => {
    const inStream = (text: string) => {
      const stream = new ByteScrubber(byteRules([], createNameTest()))
      return Buffer.concat([stream.write(Buffer.from(text)), stream.end()]).toString()
    }
    const inText = (text: string) => new NamedTexts(createScrubber({})).text(text)
    for (const length of [20_000, 70_000, long.length]) {
      const value = long.slice(0, length)
      for (const clean of [inStream(written(value)), inText(written(value))]) {
        expect(clean).toContain(SCRUBBED)
        expect(clean.length).toBeLessThan(100)
        // What stands after it stays where the end of it is known.
        expect(clean.includes('end')).toBe(length === 20_000)
      }
    }
  })

  test('of just the limit goes alone', () => {
    const one = long.slice(0, LIMITS.secretCharactersMax)
    expect(createScrubber({ secrets: [one] }).text(`a ${one} b`)).toBe(`a ${SCRUBBED} b`)
  })
})

test.each([6500, 65_536])('a secret of %d characters that repeats itself goes alone', (length) => {
  const secret = Array.from({ length }, (_, at) =>
    String.fromCharCode(33 + ((at * at + at * 7) % 90)),
  ).join('')
  const one = createScrubber({ secrets: [secret] })
  for (const name of ['plain', 'url', 'base64'] as const) {
    expect(one.text(`a ${SPELLINGS[name]?.(secret)} b`).replace(/=+/, '')).toBe(`a ${SCRUBBED} b`)
  }
})

test('a quote in a value of JSON in JSON does not end it', () => {
  const text = JSON.stringify([JSON.stringify({ token: 'correct"horse\\battery\nstaple', b: 2 })])
  const stream = new ByteScrubber(byteRules([], createNameTest()))
  const clean = Buffer.concat([stream.write(Buffer.from(text)), stream.end()]).toString()
  expect(clean).toBe(JSON.stringify([JSON.stringify({ token: SCRUBBED, b: 2 })]))
})

test('a secret with backslashes at its ends leaves JSON that can be read', () => {
  for (const secret of [
    'correct-horse\\',
    '\\correct-horse',
    '\\\\correct-horse\\\\',
    'a\\"correct-horse\\"',
  ]) {
    const one = createScrubber({ secrets: [secret] })
    for (const value of [secret, `"${secret}"`]) {
      const clean = one.text(JSON.stringify({ a: value, b: 1 }))
      expect(JSON.parse(clean)).toMatchObject({ b: 1 })
      expect(clean).not.toContain('horse')
    }
  }
})

test.each([
  ['deadbeefcafe0123', String.raw`{"v":"\\xdeadbeefcafe0123"}`],
  ['sers-Xk93', String.raw`{"v":"C:\\users-Xk93"}`],
  ['abc12\\', String.raw`{"a":"abc12\"x","b":1}`],
])('JSON stays one that can be read without %s', (secret, text) => {
  const clean = createScrubber({ secrets: [secret] }).text(text)
  expect(clean).toContain(SCRUBBED)
  expect(() => JSON.parse(clean) as unknown).not.toThrow()
})

test('a text that was cut keeps no beginning and no end of a secret, however it is written', () => {
  const secret = 'p\u00e4ss "word" & <more>'
  const one = createScrubber({ secrets: [secret] })
  for (const name of ['plain', 'url', 'JSON', 'HTML', 'hex', 'base64'] as const) {
    const written = SPELLINGS[name]?.(secret) ?? ''
    for (let cut = 16; cut < written.length; cut++) {
      const atEnd = one.text(`${'.\n'.repeat(60)}${written.slice(0, cut)}`)
      expect([name, cut, atEnd]).toEqual([name, cut, `${'.\n'.repeat(60)}${SCRUBBED}`])
    }
  }
  const tail = one.text(`word" & <more>${'.\n'.repeat(60)}`)
  expect(tail).toBe(`${SCRUBBED}${'.\n'.repeat(60)}`)
})

test.each([0, 1, 2])(
  'a line of base64 that begins within a byte of a secret goes, shifted by %d',
  (shift) => {
    const secret = 'correct horse battery'
    const whole = Buffer.from('x'.repeat(shift) + secret).toString('base64')
    const core = whole.slice(
      Math.ceil((shift * 8) / 6),
      Math.floor(((shift + secret.length) * 8) / 6),
    )
    const text = `{"a":"${core}"}\n${core}\n${core}\nAAAAAAAAAAAA\n`
    const clean = createScrubber({ secrets: [secret] }).text(text)
    expect(clean).toBe(`{"a":"${SCRUBBED}"}\n${SCRUBBED}\n${SCRUBBED}\nAAAAAAAAAAAA\n`)
  },
)
