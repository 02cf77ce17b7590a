// Aim: packets of a trace are known again whatever comes back of them, none of somebody else's is taken for
// one, all of a flow have the same checksum, and no ICMP message is without a meaning.
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createSctpMarks, crc32c } from '../../../src/monitors/traceroute/marks.ts'
import { icmpMeaning } from '../../../src/monitors/traceroute/prober.ts'
import { createMarks, HEADER_BYTES, type Marks } from '../../../src/monitors/traceroute/marks.ts'

const FAMILIES = ['IPv4', 'IPv6'] as const
const KINDS = FAMILIES.flatMap((family) => [
  {
    name: `UDP over ${family}`,
    marks: createMarks({ protocol: 'UDP', family, isRaw: false, identifier: 0 }),
  },
  {
    name: `ICMP over ${family}`,
    marks: createMarks({ protocol: 'ICMP', family, isRaw: false, identifier: 7 }),
  },
  {
    name: `raw ICMP over ${family}`,
    marks: createMarks({ protocol: 'ICMP', family, isRaw: true, identifier: 7 }),
  },
  { name: `SCTP over ${family}`, marks: createSctpMarks({ family, sourcePort: 20_000, port: 9 }) },
])

const number = fc.integer({ min: 1, max: 65_535 })
const size = fc.integer({ min: 12, max: 1500 })

/** The Internet's checksum of all 16-bit words. */
function sumOf(bytes: Buffer): number {
  let sum = 0
  for (let at = 0; at < bytes.length; at += 2) {
    sum += (bytes[at] ?? 0) * 256 + (bytes[at + 1] ?? 0)
  }
  return sum % 0xffff
}

describe.each(KINDS)('$name', ({ name, marks }) => {
  test('a whole packet in an error shows its number', () => {
    fc.assert(
      fc.property(number, size, (one, bytes) => {
        expect(marks.numberInError(marks.packet(one, bytes))).toBe(one)
      }),
    )
  })

  test('a truncated packet shows its number or none, and never another', () => {
    const whole = marks.packet(4660, 32)
    for (let length = 0; length <= whole.length; length++) {
      expect([0, 4660]).toContain(marks.numberInError(whole.subarray(0, length)))
    }
    // Eight bytes are what a router must send back at least (RFC 792).
    const isEcho = name.includes('ICMP')
    expect(marks.numberInError(whole.subarray(0, 8))).toBe(isEcho ? 4660 : 0)
  })

  test('nothing that comes makes it throw', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        const packet = Buffer.from(bytes)
        expect([0, undefined, expect.any(Number)]).toContainEqual(marks.numberInError(packet))
        marks.numberInReply(packet)
        marks.portState(packet)
      }),
      { numRuns: 2000 },
    )
  })

  test('packets of another trace are not taken for its own', () => {
    const others: Marks = KINDS.find((kind) => kind.name === name)?.marks as Marks
    const family = name.endsWith('6') ? 'IPv6' : 'IPv4'
    const other = name.startsWith('SCTP')
      ? createSctpMarks({ family, sourcePort: 20_000, port: 9 })
      : createMarks({
          protocol: name.startsWith('UDP') ? 'UDP' : 'ICMP',
          family,
          isRaw: name.startsWith('raw'),
          identifier: 7,
        })
    expect(others.numberInError(other.packet(5, 32))).toBeUndefined()
  })
})

const SUMMED = KINDS.filter(({ name }) => !name.startsWith('SCTP'))
test.each(SUMMED)('$name: all packets of a flow have one checksum', ({ marks }) => {
  const sums = [1, 2, 255, 256, 4660, 65_535].map((one) => sumOf(marks.packet(one, 32)))
  expect(new Set(sums).size).toBe(1)
})

describe('replies', () => {
  test.each(FAMILIES)('an echo reply over %s', (family) => {
    const marks = createMarks({ protocol: 'ICMP', family, isRaw: false, identifier: 7 })
    const reply = marks.packet(99, 32)
    expect(marks.numberInReply(reply)).toBeUndefined()
    reply[0] = family === 'IPv4' ? 0 : 129
    expect(marks.numberInReply(reply)).toBe(99)
    reply[HEADER_BYTES] = ((reply[HEADER_BYTES] ?? 0) + 1) & 0xff
    expect(marks.numberInReply(reply)).toBeUndefined()
  })

  test.each([
    [2, 'open'],
    [6, 'closed'],
  ] as const)('an SCTP answer with a chunk of type %i', (chunk, state) => {
    const marks = createSctpMarks({ family: 'IPv6', sourcePort: 20_000, port: 9 })
    const init = marks.packet(7, 0)
    const reply = Buffer.alloc(32)
    reply.writeUInt16BE(9, 0)
    reply.writeUInt16BE(20_000, 2)
    init.copy(reply, 4, 16, 20)
    reply[12] = chunk
    expect(marks.numberInReply(reply)).toBe(7)
    expect(marks.portState(reply)).toBe(state)
    reply.writeUInt16BE(10, 0)
    expect(marks.numberInReply(reply)).toBeUndefined()
  })

  test('CRC-32C is that of RFC 3720, B.4', () => {
    expect(crc32c(new Uint8Array(32))).toBe(0x8a9136aa)
    expect(crc32c(new Uint8Array(32).fill(255))).toBe(0x62a8ab43)
    expect(crc32c(Uint8Array.from({ length: 32 }, (_, at) => at))).toBe(0x46dd794e)
  })
})

describe('ICMP messages', () => {
  test.each([
    ['IPv4', 11, 0, 'hop'],
    ['IPv4', 3, 2, 'arrived'],
    ['IPv4', 3, 3, 'arrived'],
    ['IPv4', 3, 4, 'too-big'],
    ['IPv4', 3, 1, 'refused'],
    ['IPv4', 11, 1, 'refused'],
    ['IPv6', 3, 0, 'hop'],
    ['IPv6', 1, 4, 'arrived'],
    ['IPv6', 4, 1, 'arrived'],
    ['IPv6', 2, 0, 'too-big'],
    ['IPv6', 1, 3, 'refused'],
  ] as const)('%s, type %i, code %i: %s', (family, type, code, kind) => {
    expect(icmpMeaning(family, type, code).kind).toBe(kind)
  })

  test('every type and code has a meaning', () => {
    for (const family of FAMILIES) {
      for (let type = 0; type < 256; type++) {
        for (let code = 0; code < 256; code++) {
          const meaning = icmpMeaning(family, type, code)
          if (meaning.kind !== 'refused') continue
          expect(meaning.refusal.name).not.toBe('')
          expect(meaning.refusal.mark).toMatch(/^!/)
        }
      }
    }
  })
})
