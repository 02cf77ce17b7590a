// Aim: what reads packets, control messages and addresses never throws, whatever comes, and reads back what
// was written; the figures are those of hand calculation.
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readControl, readTimespec } from '../../../src/network/native/control-messages.ts'
import { icmpErrorOf, localError } from '../../../src/monitors/icmp/errors.ts'
import * as packets from '../../../src/monitors/icmp/packet.ts'
import { internetChecksum } from '../../../src/network/native/internet-checksum.ts'
import { jitterOf, latencyOf } from '../../../src/network/native/round-trips.ts'
import {
  readAddress,
  readPort,
  socketAddress,
  unmapped,
} from '../../../src/network/native/socket-address.ts'

const bytes = fc.uint8Array({ maxLength: 300 }).map((some) => Buffer.from(some))

const uint32 = fc.integer({ min: 0, max: 0xffffffff })
const half = fc.integer({ min: 0, max: 0xffff })

describe('garbage', () => {
  test('packets', () => {
    const property = fc.property(
      bytes,
      uint32,
      uint32,
      fc.integer({ min: 8, max: 400 }),
      (some, high, low, size) => {
        packets.unwrapIpv4(some)
        packets.readEcho(some)
        packets.hasToken(some, high, low)
        packets.isIntact(some, size)
        internetChecksum(some)
      },
    )
    expect(() => fc.assert(property)).not.toThrow()
  })

  test('control messages', () => {
    const property = fc.property(
      bytes,
      fc.nat(512),
      (some, length) => void readControl(some, length, 0),
    )
    expect(() => fc.assert(property)).not.toThrow()
  })

  test('control messages with true headers', () => {
    const headers = fc.record({
      length: fc.integer({ min: 0, max: 80 }),
      kind: fc.constantFrom([1, 35], [1, 37], [0, 2], [0, 11], [41, 25], [41, 52], [9, 9]),
      data: fc.uint8Array({ minLength: 0, maxLength: 64 }),
    })
    const property = fc.property(fc.array(headers, { maxLength: 6 }), (messages) => {
      const all = messages.map(({ length, kind, data }) => {
        const header = Buffer.alloc(16)
        header.writeUInt32LE(length, 0)
        header.writeInt32LE(kind[0], 8)
        header.writeInt32LE(kind[1], 12)
        return Buffer.concat([header, data])
      })
      const joined = Buffer.concat(all)
      const { error } = readControl(joined, joined.length, 0)
      if (error !== undefined) icmpErrorOf(error, '192.0.2.1')
    })
    expect(() => fc.assert(property)).not.toThrow()
  })

  test('addresses', () => {
    const property = fc.property(bytes, fc.nat(300), (some, at) => void readAddress(some, at))
    expect(() => fc.assert(property)).not.toThrow()
  })
})

describe('echoes', () => {
  test('read as they were written', () => {
    fc.assert(
      fc.property(
        half,
        half,
        uint32,
        uint32,
        fc.integer({ min: 8, max: 2000 }),
        (identifier, sequence, high, low, size) => {
          const mark = { identifier, sequence, high, low }
          const packet = packets.writeRequest('IPv4', size, mark, true)
          // The checksum of a packet with its own checksum is zero (RFC 1071).
          expect(internetChecksum(packet)).toBe(0)
          const read = packets.readEcho(packet)
          expect(read).toMatchObject({ type: 8, identifier, sequence })
          const payload = Buffer.from(read?.payload ?? [])
          expect(packets.hasToken(payload, high, low)).toBe(true)
          expect(packets.isIntact(payload, size)).toBe(true)
        },
      ),
    )
  })

  test('a flipped bit anywhere behind the token is noticed', () => {
    const mark = { identifier: 1, sequence: 2, high: 3, low: 4 }
    const payload = Buffer.from(packets.writeRequest('IPv6', 100, mark, false).subarray(8))
    for (let bit = 64; bit < 800; bit++) {
      const bent = Buffer.from(payload)
      bent[bit >> 3] = (bent[bit >> 3] as number) ^ (1 << (bit & 7))
      expect(packets.isIntact(bent, 100)).toBe(false)
    }
  })
})

describe('addresses', () => {
  test.each([
    ['192.0.2.7', '192.0.2.7'],
    ['::1', '::1'],
    ['2001:DB8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
    ['2001:db8:0:1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
    ['::', '::'],
    ['fe80::1%3', 'fe80::1%3'],
    ['fe80::1%eth9', 'fe80::1%7'],
    ['::ffff:c000:201', '::ffff:192.0.2.1'],
    ['1:2:3:4:5:6:7::', '1:2:3:4:5:6:7:0'],
  ])('%s becomes %s', (literal, canonical) => {
    const address = socketAddress(literal, 4711, () => 7)
    expect(address.address).toBe(canonical)
    expect(readAddress(address.bytes, 0)).toBe(canonical)
    expect(readPort(address.bytes, 0)).toBe(4711)
  })

  test.each([
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['::FFFF:c000:0201', '192.0.2.1'],
    ['::fffe:192.0.2.1', '::fffe:192.0.2.1'],
    ['192.0.2.1', '192.0.2.1'],
    ['2001:db8::1', '2001:db8::1'],
  ])('%s without its mapping is %s', (literal, plain) => expect(unmapped(literal)).toBe(plain))

  test('what is no literal is refused', () => {
    expect(() => socketAddress('example.com', 0)).toThrow(TypeError)
  })
})

test('a kernel time is read with both halves of its seconds', () => {
  const time = Buffer.alloc(16)
  time.writeBigInt64LE(5_000_000_000n, 0)
  time.writeBigInt64LE(250_000n, 8)
  expect(readTimespec(time, 0, 4_999_999_999)).toBe(1000.25)
})

describe('errors', () => {
  const said = (origin: number, type: number, code: number, info = 0) =>
    icmpErrorOf({ errno: 113, origin, type, code, info, offender: '192.0.2.1' }, '192.0.2.9')

  test.each([
    [2, 3, 0, 'ICMP_UNREACHABLE'],
    [2, 3, 2, 'ICMP_UNREACHABLE'],
    [2, 3, 9, 'ICMP_PROHIBITED'],
    [2, 11, 0, 'ICMP_TTL_EXCEEDED'],
    [2, 77, 0, 'ICMP_REJECTED'],
    [3, 1, 3, 'ICMP_UNREACHABLE'],
    [3, 3, 0, 'ICMP_TTL_EXCEEDED'],
    [3, 4, 0, 'ICMP_REJECTED'],
  ])('origin %i type %i code %i: %s', (origin, type, code, expected) => {
    expect(said(origin, type, code)).toMatchObject({ code: expected, from: '192.0.2.1' })
  })

  test('the MTU is reported where a packet is too large', () => {
    expect(said(2, 3, 4, 1400)).toMatchObject({ code: 'ICMP_TOO_LARGE', mtu: 1400 })
    expect(said(3, 2, 0, 1280)).toMatchObject({ code: 'ICMP_TOO_LARGE', mtu: 1280 })
    expect(said(2, 3, 4, 0)).not.toHaveProperty('mtu')
  })

  test('a time stamp is no error', () => expect(said(4, 0, 0)).toBeUndefined())

  test.each([
    [1, 'ADDRESS_BLOCKED'],
    [13, 'ADDRESS_BLOCKED'],
    [22, 'CONNECT_FAILED'],
    [90, 'ICMP_TOO_LARGE'],
    [99, 'CONNECT_UNREACHABLE'],
    [101, 'CONNECT_UNREACHABLE'],
    [113, 'CONNECT_UNREACHABLE'],
    [105, 'RESOURCES_EXHAUSTED'],
  ])('errno %i of our own system: %s', (errno, code) => {
    expect(localError(errno, '2001:db8::1').code).toBe(code)
  })
})

describe('figures', () => {
  test('of some round-trip times', () => {
    expect(latencyOf([1, 2, 3, 6])).toEqual({ avg: 3, min: 1, max: 6, stdDev: Math.sqrt(3.5) })
    expect(jitterOf([1, 2, 3, 6])).toBeCloseTo(5 / 3)
  })

  test('of one, and of none', () => {
    expect(latencyOf([4])).toEqual({ avg: 4, min: 4, max: 4, stdDev: 0 })
    expect(jitterOf([4])).toBeUndefined()
    expect(latencyOf([])).toBeUndefined()
  })
})
