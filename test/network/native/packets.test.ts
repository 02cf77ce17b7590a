// Aim: what reads packets, control messages and addresses never throws, whatever comes, and reads back what was
// written.
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readControl, readTimespec } from '../../../src/network/native/control-messages.ts'
import { EchoFormat, internetChecksum } from '../../../src/network/native/icmp-echo.ts'
import { jitterOf, latencyOf } from '../../../src/network/native/round-trips.ts'
import { readAddress, socketAddress, unmapped } from '../../../src/network/native/socket-address.ts'

const FAMILIES = ['IPv4', 'IPv6'] as const
const bytes = fc.uint8Array({ maxLength: 300 }).map((some) => Buffer.from(some))

describe('garbage is no reason to throw', () => {
  test.each(FAMILIES)('packets and addresses of %s', (family) => {
    const format = new EchoFormat({ family, isRaw: true, identifier: 7 })
    const property = fc.property(bytes, fc.nat(300), (some, at) => {
      format.readReply(some)
      format.readRequest(some)
      readAddress(some, at)
    })
    expect(() => fc.assert(property)).not.toThrow()
  })

  test('control messages, also with true headers', () => {
    const headers = fc.record({
      length: fc.integer({ min: 0, max: 80 }),
      kind: fc.constantFrom([1, 35], [1, 37], [0, 2], [0, 11], [41, 25], [41, 52], [9, 9]),
      data: fc.uint8Array({ minLength: 0, maxLength: 64 }),
    })
    const property = fc.property(fc.array(headers, { maxLength: 6 }), bytes, (messages, some) => {
      const all = messages.map(({ length, kind, data }) => {
        const header = Buffer.alloc(16)
        header.writeUInt32LE(length, 0)
        header.writeInt32LE(kind[0], 8)
        header.writeInt32LE(kind[1], 12)
        return Buffer.concat([header, data])
      })
      for (const one of [Buffer.concat(all), some]) readControl(one, 512, 0)
    })
    expect(() => fc.assert(property)).not.toThrow()
  })
})

test.each(FAMILIES)('echoes of %s are read as they were written', (family) => {
  const half = fc.nat(0xffff)
  fc.assert(
    fc.property(half, half, bytes, (identifier, sequence, payload) => {
      const format = new EchoFormat({ family, isRaw: true, identifier })
      const packet = Buffer.concat([Buffer.alloc(8), payload])
      format.writeHeader(packet, sequence)
      // The checksum of a packet with its own checksum is zero (RFC 1071); over IPv6 it is the kernel's.
      const sum = family === 'IPv4' ? internetChecksum(packet) : packet.readUInt16BE(2)
      expect(sum).toBe(0)
      expect(format.readRequest(packet)).toEqual({ sequence, payload })
      expect(format.readReply(packet)).toBeUndefined()
    }),
  )
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

test('figures of round-trip times', () => {
  expect(latencyOf([1, 2, 3, 6])).toEqual({ avg: 3, min: 1, max: 6, stdDev: 1.871 })
  expect(jitterOf([1, 2, 3, 6])).toBe(1.667)
  expect(latencyOf([4])).toEqual({ avg: 4, min: 4, max: 4, stdDev: 0 })
  expect(jitterOf([4])).toBeUndefined()
  expect(latencyOf([])).toBeUndefined()
})
