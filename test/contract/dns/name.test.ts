// Aim: names and addresses that people write become the names that DNS asks for, and what is none is refused.
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { encodeDnsName, reverseName } from '../../../src/contract/dns/name.ts'

describe('names', () => {
  test.each([
    ['the root', '.', '00'],
    ['a name', 'a.bc', '0161026263 00'],
    ['a dot at the end', 'a.bc.', '0161026263 00'],
    ['capital letters stay, and a star', '*.A', '012a0141 00'],
    ['an underscore', '_a', '025f61 00'],
    ['a dot in a label', 'a\\.b', '03612e62 00'],
    ['a byte by its number', 'a\\000', '026100 00'],
    ['the last byte', '\\255', '01ff 00'],
    ['a backslash', '\\\\', '015c 00'],
    ['another script', 'bücher.example', '0d786e2d2d62636865722d6b7661 076578616d706c65 00'],
    ['the longest label', 'a'.repeat(63), `3f${'61'.repeat(63)} 00`],
  ])('%s', (_, text, wire) => {
    expect((encodeDnsName(text) as Buffer).toString('hex')).toBe(wire.replaceAll(' ', ''))
  })

  test.each([
    ['two dots', 'a..b'],
    ['a dot at the beginning', '.a'],
    ['a label of 64 bytes', 'a'.repeat(64)],
    ['a name of 256 bytes', `${'a.'.repeat(127)}a`],
    ['a line end', 'a\n'],
    ['a number above 255', '\\256'],
    ['a backslash at the end', 'a\\'],
    ['a script that IDNA does not know', '\u{e000}.test'],
  ])('refused: %s', (_, text) => {
    expect(typeof encodeDnsName(text)).toBe('string')
  })

  test('any text is a name of at most 255 bytes, or refused', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (text) => {
        const wire = encodeDnsName(text)
        const bytes = typeof wire === 'string' ? 1 : wire.length
        expect(bytes > 0 && bytes <= 255).toBe(true)
      }),
    )
  })
})

describe('names of addresses', () => {
  const zeros = (count: number) => Array<string>(count).fill('0').join('.')
  test.each([
    ['192.0.2.10', '10.2.0.192.in-addr.arpa.'],
    ['2001:DB8::1', `1.${zeros(23)}.8.b.d.0.1.0.0.2.ip6.arpa.`],
    ['::ffff:192.0.2.1', `1.0.2.0.0.0.0.c.f.f.f.f.${zeros(20)}.ip6.arpa.`],
  ])('%s', (address, name) => {
    expect(reverseName(address)).toBe(name)
  })

  test.each(['a.test', '10.2.0.192.in-addr.arpa', '1.2.3', 'fe80::1%eth0'])('none: %s', (text) => {
    expect(reverseName(text)).toBeUndefined()
  })
})
