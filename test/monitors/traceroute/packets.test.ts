// Aim: packets of a trace are known again whatever comes back of them, none of somebody else's is taken for
// one, and all of a flow have the same checksum.
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  EchoFormat,
  ICMP_HEADER_BYTES,
  internetChecksum,
} from '../../../src/network/native/icmp-echo.ts'
import { crc32c, echoMarks, sctpMarks, udpMarks } from '../../../src/monitors/traceroute/marks.ts'

const FAMILIES = ['IPv4', 'IPv6'] as const
type Family = (typeof FAMILIES)[number]
const echoes = (family: Family, isRaw: boolean) => () =>
  echoMarks(new EchoFormat({ family, isRaw, identifier: 7 }))
const KINDS = FAMILIES.flatMap((family) => [
  { name: `ICMP over ${family}`, make: echoes(family, false) },
  { name: `raw ICMP over ${family}`, make: echoes(family, true) },
  { name: `SCTP over ${family}`, make: () => sctpMarks({ family, sourcePort: 20_000, port: 9 }) },
]).concat({ name: 'UDP', make: udpMarks })

const number = fc.integer({ min: 1, max: 65_535 })
const size = fc.integer({ min: 12, max: 1500 })

describe.each(KINDS)('$name', ({ name, make }) => {
  const marks = make()

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
        marks.reply(packet)
      }),
      { numRuns: 2000 },
    )
  })

  test('packets of another trace are not taken for its own', () => {
    expect(marks.numberInError(make().packet(5, 32))).toBeUndefined()
  })
})

test.each(KINDS.filter(({ name }) => !name.startsWith('SCTP')))(
  '$name: all packets of a flow have one checksum',
  ({ make }) => {
    const packets = [1, 2, 255, 256, 4660, 65_535].map((one) => make().packet(one, 32))
    expect(new Set(packets.map(internetChecksum)).size).toBe(1)
  },
)

describe('replies', () => {
  test.each(FAMILIES)('an echo reply over %s', (family) => {
    const marks = echoes(family, false)()
    const reply = marks.packet(99, 32)
    expect(marks.reply(reply)).toBeUndefined()
    reply[0] = family === 'IPv4' ? 0 : 129
    expect(marks.reply(reply)).toEqual({ number: 99 })
    reply[ICMP_HEADER_BYTES] = ((reply[ICMP_HEADER_BYTES] ?? 0) + 1) & 0xff
    expect(marks.reply(reply)).toBeUndefined()
  })

  test.each([
    [2, 'open'],
    [6, 'closed'],
  ] as const)('an SCTP answer with a chunk of type %i', (chunk, portState) => {
    const marks = sctpMarks({ family: 'IPv6', sourcePort: 20_000, port: 9 })
    const init = marks.packet(7, 0)
    const reply = Buffer.alloc(32)
    reply.writeUInt16BE(9, 0)
    reply.writeUInt16BE(20_000, 2)
    init.copy(reply, 4, 16, 20)
    reply[12] = chunk
    expect(marks.reply(reply)).toEqual({ number: 7, portState })
    reply.writeUInt16BE(10, 0)
    expect(marks.reply(reply)).toBeUndefined()
  })

  test('CRC-32C is that of RFC 3720, B.4', () => {
    expect(crc32c(new Uint8Array(32))).toBe(0x8a9136aa)
    expect(crc32c(Uint8Array.from({ length: 32 }, (_, at) => at))).toBe(0x46dd794e)
  })
})
