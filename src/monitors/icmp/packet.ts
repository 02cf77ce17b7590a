// Echo requests and what comes back for them (RFC 792, RFC 4443). The payload begins with eight random bytes
// by which a reply is known to be ours, and goes on with bytes that must come back as they were.
import { randomFillSync, randomInt } from 'node:crypto'
import type { Family } from '../../network/dial.ts'
import { internetChecksum } from '../../network/native/internet-checksum.ts'

/** The header of an echo, and of every ICMP message. */
export const ICMP_HEADER_BYTES = 8
/** Payload by which a reply is known. */
export const TOKEN_BYTES = 8
/** Largest payload of an IPv4 packet, without its headers. */
export const PAYLOAD_BYTES_MAX = 65_507

const TYPES: Record<Family, { request: number; reply: number }> = {
  IPv4: { request: 8, reply: 0 },
  IPv6: { request: 128, reply: 129 },
}

/** Identity of an echo. */
export interface EchoMark {
  /** Of the socket. */
  identifier: number
  sequence: number
  /** The token's two halves. */
  high: number
  low: number
}

/** An echo, as read from a packet: its payload from the first byte on. */
export interface EchoRead {
  type: number
  identifier: number
  sequence: number
  payload: Buffer
}

/** One for all: every echo of this process is a piece of it, written and sent in one go. */
const outbox = Buffer.alloc(ICMP_HEADER_BYTES + PAYLOAD_BYTES_MAX)
// Random, so that no other program and no buffer full of zeros has the same bytes by chance.
randomFillSync(outbox)

/**
 * The request, valid until the next one is written. With `checksummed` it has its checksum, which a raw
 * socket of IPv4 needs.
 */
export function writeRequest(
  family: Family,
  payloadBytes: number,
  { identifier, sequence, high, low }: EchoMark,
  checksummed: boolean,
): Buffer {
  const packet = outbox.subarray(0, ICMP_HEADER_BYTES + payloadBytes)
  packet.writeUInt16BE(TYPES[family].request << 8, 0)
  packet.writeUInt16BE(0, 2)
  packet.writeUInt16BE(identifier, 4)
  packet.writeUInt16BE(sequence, 6)
  packet.writeUInt32BE(high, 8)
  packet.writeUInt32BE(low, 12)
  if (checksummed) packet.writeUInt16BE(internetChecksum(packet), 2)
  return packet
}

/** Reads an ICMP message that may be an echo; undefined when it is too short for one. */
export function readEcho(message: Buffer): EchoRead | undefined {
  if (message.length < ICMP_HEADER_BYTES) return undefined
  return {
    type: message.readUInt8(0),
    identifier: message.readUInt16BE(4),
    sequence: message.readUInt16BE(6),
    payload: message.subarray(ICMP_HEADER_BYTES),
  }
}

/** Whether the message is a reply (and not a request that loopback shows to a raw socket). */
export function isReply(family: Family, { type }: EchoRead): boolean {
  return type === TYPES[family].reply
}

/** Whether the payload begins with the token. */
export function hasToken(payload: Buffer, high: number, low: number): boolean {
  return (
    payload.length >= TOKEN_BYTES &&
    payload.readUInt32BE(0) === high &&
    payload.readUInt32BE(4) === low
  )
}

/** Whether a payload that has its token is what was sent, to the last byte. */
export function isIntact(payload: Buffer, payloadBytes: number): boolean {
  if (payload.length !== payloadBytes) return false
  const from = ICMP_HEADER_BYTES + TOKEN_BYTES
  return (
    outbox.compare(payload, TOKEN_BYTES, payloadBytes, from, ICMP_HEADER_BYTES + payloadBytes) === 0
  )
}

/** The message in a packet of IPv4, with its TTL; undefined when the packet is no such thing. */
export function unwrapIpv4(packet: Buffer): { message: Buffer; ttl: number } | undefined {
  const headerBytes = packet.length < 20 ? 0 : (packet.readUInt8(0) & 15) * 4
  if (headerBytes < 20 || packet.length < headerBytes || packet.readUInt8(0) >> 4 !== 4) {
    return undefined
  }
  return { message: packet.subarray(headerBytes), ttl: packet.readUInt8(8) }
}

/** Two random halves of a token. */
export function freshToken(): { high: number; low: number } {
  return { high: randomInt(2 ** 32), low: randomInt(2 ** 32) }
}
