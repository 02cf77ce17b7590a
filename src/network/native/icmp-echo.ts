// ICMP echoes (RFC 792, RFC 4443): their header, and what comes back for them.
import type { Family } from '../dial.ts'

export const ICMP_HEADER_BYTES = 8

const REQUEST: Record<Family, number> = { IPv4: 8, IPv6: 128 }
const REPLY: Record<Family, number> = { IPv4: 0, IPv6: 129 }

/** What the echoes of one socket have in common. */
export interface EchoKind {
  family: Family
  /** Whether over IPv4 the checksum is ours, and packets begin with their IP header. */
  isRaw: boolean
  identifier: number
}

/** An echo or its reply. */
export interface EchoMessage {
  sequence: number
  payload: Buffer
  /** Where the packet has an IP header. */
  ttl?: number
}

/** Writes and reads the echoes of one socket. */
export class EchoFormat {
  readonly #kind: EchoKind
  readonly #isWrapped: boolean

  constructor(kind: EchoKind) {
    this.#kind = kind
    this.#isWrapped = kind.isRaw && kind.family === 'IPv4'
  }

  /** Writes the header of a request before its payload, which must be there for the checksum. */
  writeHeader(packet: Buffer, sequence: number): void {
    packet.writeUInt16BE(REQUEST[this.#kind.family] << 8, 0)
    packet.writeUInt16BE(0, 2)
    packet.writeUInt16BE(this.#kind.identifier, 4)
    packet.writeUInt16BE(sequence, 6)
    if (this.#isWrapped) packet.writeUInt16BE(internetChecksum(packet), 2)
  }

  /** Reads a received packet; undefined for anything but a reply to this socket. */
  readReply(packet: Buffer): EchoMessage | undefined {
    if (!this.#isWrapped) return this.#read(packet, REPLY)
    const { message, ttl } = unwrapIpv4(packet)
    const reply = this.#read(message, REPLY)
    return reply && { ...reply, ttl }
  }

  /** Reads the packet that an ICMP error contains; undefined for anything but a request of this socket. */
  readRequest(packet: Buffer): EchoMessage | undefined {
    return this.#read(packet, REQUEST)
  }

  #read(message: Buffer, types: Record<Family, number>): EchoMessage | undefined {
    const { family, identifier } = this.#kind
    if (message.length < ICMP_HEADER_BYTES || message[0] !== types[family]) return undefined
    if (message.readUInt16BE(4) !== identifier) return undefined
    return { sequence: message.readUInt16BE(6), payload: message.subarray(ICMP_HEADER_BYTES) }
  }
}

/** The message in a packet of IPv4 and the packet's TTL; an empty one where the packet is none. */
export function unwrapIpv4(packet: Buffer): { message: Buffer; ttl: number } {
  const headerBytes = ((packet[0] ?? 0) & 15) * 4
  if (headerBytes < 20) return { message: Buffer.alloc(0), ttl: 0 }
  return { message: packet.subarray(headerBytes), ttl: packet[8] ?? 0 }
}

/** The checksum of bytes in which its own place holds zeros (RFC 1071). */
export function internetChecksum(bytes: Buffer): number {
  let sum = 0
  const even = bytes.length & ~1
  for (let at = 0; at < even; at += 2) sum += bytes.readUInt16BE(at)
  if (even < bytes.length) sum += bytes.readUInt8(even) << 8
  while (sum > 0xffff) sum = (sum & 0xffff) + Math.floor(sum / 0x10000)
  return ~sum & 0xffff
}
