// Aim: packets of a trace are known again whatever comes back of them, none of somebody else's is taken for one, and
// all of a flow have the same checksum; the hash of a path is the same for ever, and so is what counts as a change.
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  EchoFormat,
  ICMP_HEADER_BYTES,
  internetChecksum,
} from '../../../src/network/native/icmp-echo.ts'
import { loopsOf, pathHash, PathMemory } from '../../../src/monitors/traceroute/path.ts'
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

/** `a * b`, as a path. */
const path = (text: string) =>
  text.split(' ').map((hop) => (hop === '*' || hop === '' ? undefined : hop))

// Dashboards keep these numbers: they never change. FNV-1a, 32 bits, of what is shown.
test.each([
  ['', 0x811c9dc5],
  ['a', 0xe40c292c],
  ['10.77.1.2 10.77.2.2 10.77.3.2 10.77.4.2', 0xd225e147],
  ['10.77.1.2 * 10.77.3.2 10.77.4.2', 0x8fd72916],
])('the hash: of "%s"', (text, hash) => {
  expect(pathHash(path(text))).toBe(hash)
})

test('the hash: unresponsive hops at the end are no part of the path', () => {
  expect(pathHash(path('a b * *'))).toBe(pathHash(path('a b')))
})

describe('changes', () => {
  const REACHED = true
  test.each([
    ['the same', 'a b t', REACHED, 'a b t', REACHED, false],
    ['another router', 'a b t', REACHED, 'a c t', REACHED, true],
    ['a router more', 'a b t', REACHED, 'a b c t', REACHED, true],
    ['a router less', 'a b t', REACHED, 'a t', REACHED, true],
    ['a router that fell silent', 'a b t', REACHED, 'a * t', REACHED, false],
    ['a router that speaks again', 'a * t', REACHED, 'a b t', REACHED, false],
    ['a target that fell silent', 'a b t', REACHED, 'a b * *', false, false],
    ['a target that speaks again', 'a b', false, 'a b t', REACHED, false],
    ['another way to a target that is not reached', 'a b', false, 'a c', false, true],
    ['a target that turns out to be nearer', 'a * * t', REACHED, 'a b t', REACHED, false],
    ['two distances in doubt', 'a * t', REACHED, 'a * * t', REACHED, false],
  ])('%s', (_, before, wasReached, now, reached, changed) => {
    const memory = new PathMemory()
    expect(memory.compare('m', path(before), wasReached)).toBeUndefined()
    const change = memory.compare('m', path(now), reached)
    expect(change?.pathChanged).toBe(changed)
    expect(change?.previousPath).toEqual(changed ? before.split(' ') : undefined)
  })

  test('monitors are kept apart, and the oldest is forgotten', () => {
    const memory = new PathMemory(2)
    for (const key of ['one', 'two', 'three']) memory.compare(key, path(key), false)
    expect(memory.compare('one', path('other'), false)).toBeUndefined()
    expect(memory.compare('three', path('other'), false)?.pathChanged).toBe(true)
  })
})

test('an address that comes again is a loop', () => {
  expect(loopsOf(path('a b c b c'))).toEqual([
    { address: 'b', hops: [2, 4] },
    { address: 'c', hops: [3, 5] },
  ])
  expect(loopsOf(path('a * * b'))).toEqual([])
})
