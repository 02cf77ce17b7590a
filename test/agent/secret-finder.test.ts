// Aim: a secret is found in every spelling, wherever a piece of a stream ends, and nothing beside it goes; what
// goes wrong inside shows nothing.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { ByteScrubber, byteRules } from '../../src/agent/byte-scrubber.ts'
import { type Needle, NeedleIndex } from '../../src/agent/needle-index.ts'
import { NamedTexts } from '../../src/agent/named-texts.ts'
import { createScrubber, SCRUBBED } from '../../src/agent/scrub.ts'
import { scrubFiles } from '../../src/agent/scrub-files.ts'
import { SECRET_CHARS_MAX, SECRET_VALUES_MAX, SecretFinder } from '../../src/agent/secret-finder.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const base64 = (text: string) => Buffer.from(text).toString('base64')
const bytesOf = (text: string) => [...Buffer.from(text)]
const hexOf = (byte: number) => byte.toString(16).padStart(2, '0')
const unitsOf = (text: string) =>
  Array.from({ length: text.length }, (_, at) => text.charCodeAt(at))
const inJson = (text: string) => JSON.stringify(text).slice(1, -1)
const inHtml = (text: string) =>
  text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')

/** Written without looking at how they are found. */
const SPELLINGS: Readonly<Record<string, (secret: string) => string>> = {
  plain: (secret) => secret,
  url: encodeURIComponent,
  'url in lower case': (secret) =>
    encodeURIComponent(secret).replaceAll(/%../g, (escape) => escape.toLowerCase()),
  'url of url': (secret) => encodeURIComponent(encodeURIComponent(secret)),
  'url of url of url': (secret) =>
    encodeURIComponent(encodeURIComponent(encodeURIComponent(secret))),
  'every byte in a url': (secret) =>
    bytesOf(secret)
      .map((byte) => `%${hexOf(byte)}`)
      .join(''),
  form: (secret) => new URLSearchParams({ a: secret }).toString().slice(2),
  json: inJson,
  'json in json': (secret) => inJson(inJson(secret)),
  'json in a url': (secret) => encodeURIComponent(inJson(secret)),
  'url in json': (secret) => inJson(encodeURIComponent(secret)),
  'units of json': (secret) =>
    unitsOf(secret)
      .map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`)
      .join(''),
  'bytes of javascript': (secret) =>
    bytesOf(secret)
      .map((byte) => `\\x${hexOf(byte)}`)
      .join(''),
  html: inHtml,
  'html in html': (secret) => inHtml(inHtml(secret)),
  'html in json': (secret) => inJson(inHtml(secret)),
  'numbers of html': (secret) => Array.from(secret, (one) => `&#${one.codePointAt(0)};`).join(''),
  'hexadecimal numbers of html': (secret) =>
    Array.from(secret, (one) => `&#x${(one.codePointAt(0) ?? 0).toString(16)};`).join(''),
  hex: (secret) => Buffer.from(secret).toString('hex'),
  'upper case hex': (secret) => Buffer.from(secret).toString('hex').toUpperCase(),
  'bytes apart': (secret) => bytesOf(secret).map(hexOf).join(' '),
  'bytes by colons': (secret) => bytesOf(secret).map(hexOf).join(':'),
  base64,
  base64url: (secret) => Buffer.from(secret).toString('base64url'),
  'base64 in a url': (secret) => encodeURIComponent(base64(secret)),
  'base64 at the second alignment': (secret) => base64(`:${secret}`),
  'base64 at the third alignment': (secret) => base64(`u:${secret}!`),
  'base64 of base64': (secret) => base64(base64(secret)),
  'base64 of JSON with base64': (secret) =>
    base64(JSON.stringify({ auth: base64(`me:${secret}`) })),
}

/** So many letters of a spelling may depend on what stands beside the secret. */
const leftMax = (name: string) =>
  name.includes('JSON with') ? 40 : name.includes('base64') ? 12 : 0

/** Long enough for every spelling: shorter ones are found in fewer of them. */
const secretOf = fc
  .string({ unit: 'grapheme', minLength: 12, maxLength: 60 })
  .filter((one) => one.isWellFormed() && /[A-Za-z0-9]{4}/.test(one) && !/[\0\r]|^\\|\\$/.test(one))
const plainSecretOf = fc
  .string({ minLength: 12, maxLength: 60 })
  .filter((one) => /[A-Za-z0-9]{4}/.test(one) && !/^\\|\\$/.test(one))

describe('a secret', () => {
  test.each(Object.keys(SPELLINGS))('is found as %s, and what is beside it stays', (name) => {
    const write = SPELLINGS[name] as (secret: string) => string
    fc.assert(
      fc.property(fc.oneof(secretOf, plainSecretOf), (secret) => {
        const written = write(secret)
        const clean = createScrubber({ secrets: [secret, 'another one'] }).text(`[[~${written}~]]`)
        expect(clean.startsWith('[[~')).toBe(true)
        expect(clean.endsWith('~]]')).toBe(true)
        expect(clean).toContain(SCRUBBED)
        const left = clean.slice(3, -3).replaceAll('~', '').replaceAll(SCRUBBED, '')

        // Of base64, the letters at either end belong to what stands beside the secret as well.
        expect(left.length).toBeLessThanOrEqual(leftMax(name))
        expect(left).not.toContain(secret)
      }),
      { numRuns: 200 },
    )
  })

  test('that ends with backslashes leaves JSON that can be read', () => {
    for (const secret of ['correct-horse\\', '\\correct-horse', '\\\\correct-horse\\\\']) {
      const clean = createScrubber({ secrets: [secret] }).text(JSON.stringify({ a: secret, b: 1 }))
      expect(JSON.parse(clean)).toMatchObject({ a: expect.stringContaining(SCRUBBED), b: 1 })
      expect(clean).not.toContain('horse')
    }
  })

  test('is found wherever a piece of a stream ends', () => {
    const secret = 'p@ss w/"rd&more-of-it'
    for (const [name, write] of Object.entries(SPELLINGS)) {
      const text = Buffer.from(`before ${write(secret)} after`)
      const rules = { ...byteRules([secret], () => false), overlapBytes: write(secret).length + 16 }
      const whole = scrubbedIn(rules, [text])
      expect([name, whole.includes(SCRUBBED)]).toEqual([name, true])
      const padded = (before: number) =>
        Buffer.from(`${'.'.repeat(before)}${text.toString()}${'.'.repeat(2000)}`)
      for (let before = 0; before < text.length; before++) {
        const bytes = padded(before)
        const pieces = [
          bytes.subarray(0, before + 20),
          bytes.subarray(before + 20, before + 400),
          bytes.subarray(before + 400),
        ]
        expect(scrubbedIn(rules, pieces)).toBe(`${'.'.repeat(before)}${whole}${'.'.repeat(2000)}`)
      }
    }
  })

  test('that is too long is scrubbed by its first part, and its length is not revealed', () => {
    const long = 'k3y'.repeat(SECRET_CHARS_MAX)
    const one = createScrubber({ secrets: [long] })
    expect(one.text(`a ${long} b`)).toBe(`a ${SCRUBBED} b`)
    expect(one.text(`a ${long}${long} b`)).toBe(`a ${SCRUBBED} b`)
  })

  test.each([6_500, 65_536])('of %d characters is found whole', (length) => {
    const secret = Array.from({ length }, (_, at) =>
      String.fromCharCode(33 + ((at * at + at * 7) % 90)),
    ).join('')
    const one = createScrubber({ secrets: [secret] })
    for (const write of [
      SPELLINGS['plain'],
      SPELLINGS['url'],
      SPELLINGS['base64'],
      SPELLINGS['hex'],
    ]) {
      const clean = one.text(`a ${write?.(secret)} b`)
      expect(clean.length).toBeLessThan(24)
      expect(clean.endsWith(' b')).toBe(true)
    }
  })
})

function scrubbedIn(rules: ReturnType<typeof byteRules>, pieces: readonly Buffer[]): string {
  const scrubber = new ByteScrubber(rules)
  return Buffer.concat([...pieces.map((piece) => scrubber.write(piece)), scrubber.end()]).toString()
}

describe('the index', () => {
  const letters = (min: number, max: number) =>
    fc
      .array(fc.constantFrom(0, 97, 98, 255), { minLength: min, maxLength: max })
      .map((codes) => Uint8Array.from(codes))

  test('finds at each byte the longest needle, as a naive search does', () => {
    fc.assert(
      fc.property(
        fc.array(letters(1, 12), { maxLength: 20 }),
        letters(0, 200),
        (prefixes, text) => {
          const needles: Needle[] = prefixes.map((prefix) => ({ prefix, whole: undefined }))
          const found: string[] = []
          new NeedleIndex(needles).search(text, (from, to) => found.push(`${from}-${to}`))
          expect(found).toEqual(naively(prefixes, text))
        },
      ),
      { numRuns: 2000 },
    )
  })

  test('finds with which beginning of a needle a text ends, as a naive search does', () => {
    fc.assert(
      fc.property(
        fc.array(letters(4, 12), { maxLength: 20 }),
        letters(4, 100),
        (prefixes, text) => {
          const index = new NeedleIndex(prefixes.map((prefix) => ({ prefix, whole: undefined })))
          const at = Array.from(text.keys()).find((from) => {
            const end = text.subarray(from)
            return (
              end.length >= 4 &&
              prefixes.some((one) => one.length > end.length && startsWith(one, 0, end))
            )
          })
          expect(index.beginningAtEnd(text, 4)).toBe(at ?? -1)
        },
      ),
      { numRuns: 2000 },
    )
  })
})

function startsWith(text: Uint8Array, at: number, part: Uint8Array): boolean {
  return at + part.length <= text.length && part.every((byte, i) => text[at + i] === byte)
}

function naively(prefixes: readonly Uint8Array[], text: Uint8Array): string[] {
  return Array.from(text.keys()).flatMap((at) => {
    const lengths = prefixes.filter((one) => startsWith(text, at, one)).map(({ length }) => length)
    return lengths.length === 0 ? [] : [`${at}-${at + Math.max(...lengths)}`]
  })
}

describe('a fault inside', () => {
  afterEach(() => void vi.restoreAllMocks())

  test('of a search leaves nothing of the text', () => {
    const scrubber = createScrubber({ secrets: ['correct-horse'] })
    vi.spyOn(SecretFinder.prototype, 'spansOfCut').mockImplementation(() => {
      throw new Error('correct-horse')
    })
    expect(scrubber.text('a correct-horse')).toBe(SCRUBBED)
    expect(scrubber.value({ a: ['correct-horse'], n: 1 })).toEqual({ a: [SCRUBBED], n: 1 })
  })
})

test('more values than are searched for leave nothing of any text', () => {
  const secrets = Array.from({ length: SECRET_VALUES_MAX + 1 }, (_, at) => `value-${at}`)
  expect(createScrubber({ secrets }).text('nothing secret')).toBe(SCRUBBED)
  expect(createScrubber({ secrets: secrets.slice(1) }).text('nothing secret')).toBe(
    'nothing secret',
  )
  const seen = new NamedTexts(createScrubber({}))
  seen.saw([...secrets, 'the-last-one'])
  expect(seen.withoutSeen('the-last-one')).toBe(SCRUBBED)
})

test('files with more values than are searched for are left out', async () => {
  const path = join(temporaryFolder(), 'many.txt')
  const lines = Array.from(
    { length: SECRET_VALUES_MAX + 1 },
    (_, at) => `authorization: token-${at}-of-many\n`,
  )
  writeFileSync(path, lines.join(''))
  expect([...(await scrubFiles([path], createScrubber({}))).keys()]).toEqual([path])
})

test('many values that share their beginning are told apart', () => {
  const secrets = Array.from({ length: 1000 }, (_, at) => `${'session='.repeat(40)}${at}-end`)
  const one = createScrubber({ secrets })
  for (const secret of secrets.slice(0, 50))
    expect(one.text(`a ${secret} b`)).toBe(`a ${SCRUBBED} b`)
})
