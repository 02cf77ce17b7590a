// Packets of UDP, ICMP and SCTP probes, and how their answers are known: by a mark of twelve bytes, which holds
// four bytes of the trace, two of the probe, and the complements of both, so that all packets have the same
// checksum and no router assigns them to different flows. Every answer of SCTP contains the tag of its INIT.
import { randomBytes, randomInt } from 'node:crypto'
import type { Family } from '../../network/dial.ts'
import { internetChecksum } from '../../network/native/internet-checksum.ts'

/** Bytes of a header of UDP or of an ICMP echo. */
export const HEADER_BYTES = 8
/** Bytes of the mark. */
export const MARK_BYTES = 12

/** Answer of the target to a probe. */
export interface Reply {
  number: number
  portState?: 'open' | 'closed'
}

/** Makes the packets of one trace and identifies them. Probes have numbers from 1 to 65,535. */
export interface Marks {
  /** Bytes passed to the kernel: without the UDP header, with the echo header. */
  packet(number: number, payloadBytes: number): Buffer
  /**
   * Number of the probe whose packet, or its first bytes, an error contains. 0 if the bytes are too few;
   * undefined if it belongs to another trace.
   */
  numberInError(bytes: Buffer): number | undefined
  /** Undefined for a packet that answers no probe. */
  reply(packet: Buffer): Reply | undefined
}

export function udpMarks(): Marks {
  const secret = randomBytes(4)
  const numberInError = (bytes: Buffer) =>
    bytes.length < MARK_BYTES ? 0 : readMark(bytes, 0, secret)
  return {
    packet(number, payloadBytes) {
      const packet = Buffer.alloc(payloadBytes)
      writeMark(packet, 0, secret, number)
      packet.writeUInt16BE(number, 8)
      return packet
    },
    numberInError,
    reply(packet) {
      const number = numberInError(packet) ?? 0
      return number > 0 ? { number, portState: 'open' } : undefined
    },
  }
}

const ECHO = { IPv4: 8, IPv6: 128 } as const
const ECHO_REPLY = { IPv4: 0, IPv6: 129 } as const

/** Kind of the echoes. */
export interface EchoKind {
  family: Family
  /** Whether the kernel leaves identifier and checksum to us; replies over IPv4 then carry IP headers. */
  isRaw: boolean
  identifier: number
}

export function echoMarks({ family, isRaw, identifier }: EchoKind): Marks {
  const secret = randomBytes(4)
  const hasIpHeader = isRaw && family === 'IPv4'
  return {
    packet(number, payloadBytes) {
      const packet = Buffer.alloc(HEADER_BYTES + payloadBytes)
      packet[0] = ECHO[family]
      packet.writeUInt16BE(identifier, 4)
      packet.writeUInt16BE(number, 6)
      // Its number is in the header; here stands the complement alone.
      writeMark(packet, HEADER_BYTES, secret, number)
      if (hasIpHeader) packet.writeUInt16BE(internetChecksum(packet), 2)
      return packet
    },
    numberInError(bytes) {
      if (bytes.length < HEADER_BYTES) return 0
      if (bytes[0] !== ECHO[family] || bytes.readUInt16BE(4) !== identifier) return undefined
      // Some routers return only the header, without the mark.
      if (bytes.length < HEADER_BYTES + MARK_BYTES) return bytes.readUInt16BE(6) || undefined
      return readMark(bytes, HEADER_BYTES, secret)
    },
    reply(packet) {
      const bytes = hasIpHeader ? withoutIpHeader(packet) : packet
      if (bytes.length < HEADER_BYTES + MARK_BYTES) return undefined
      if (bytes[0] !== ECHO_REPLY[family] || bytes[1] !== 0) return undefined
      const number = readMark(bytes, HEADER_BYTES, secret)
      return number === undefined ? undefined : { number }
    },
  }
}

function withoutIpHeader(packet: Buffer): Buffer {
  return packet.subarray(((packet[0] ?? 0) & 15) * 4)
}

function writeMark(packet: Buffer, at: number, secret: Buffer, number: number): void {
  for (const [index, byte] of secret.entries()) {
    packet[at + index] = byte
    packet[at + 4 + index] = ~byte & 0xff
  }
  packet.writeUInt16BE(~number & 0xffff, at + 10)
}

function readMark(bytes: Buffer, at: number, secret: Buffer): number | undefined {
  if (!bytes.subarray(at, at + 4).equals(secret)) return undefined
  return ~bytes.readUInt16BE(at + 10) & 0xffff || undefined
}

/** Types of chunks (RFC 9260). */
const CHUNKS = { init: 1, initAck: 2, abort: 6 } as const
/** The header that all chunks share, and an INIT without parameters. Bytes. */
const SCTP_HEADER_BYTES = 12
const INIT_BYTES = 20
/** Where the tag stands in our packet. */
const TAG_AT = SCTP_HEADER_BYTES + 4

/** The ports of a flow. */
export interface SctpFlow {
  family: Family
  sourcePort: number
  port: number
}

/** Packets for a raw socket, which has no checksum made by the kernel. */
export function sctpMarks({ family, sourcePort, port }: SctpFlow): Marks {
  // A tag is never zero, and not guessable.
  const secret = randomInt(1, 0x10000)
  const numberOf = (tag: number) => (tag >>> 16 === secret ? tag & 0xffff : 0) || undefined
  return {
    packet(number) {
      const packet = Buffer.alloc(SCTP_HEADER_BYTES + INIT_BYTES)
      packet.writeUInt16BE(sourcePort, 0)
      packet.writeUInt16BE(port, 2)
      packet[SCTP_HEADER_BYTES] = CHUNKS.init
      packet.writeUInt16BE(INIT_BYTES, SCTP_HEADER_BYTES + 2)
      packet.writeUInt32BE(secret * 0x10000 + number, TAG_AT)
      // The least receive window, one stream either way, and where to count from.
      packet.writeUInt32BE(1500, TAG_AT + 4)
      packet.writeUInt16BE(1, TAG_AT + 8)
      packet.writeUInt16BE(1, TAG_AT + 10)
      packet.writeUInt32BE(1, TAG_AT + 12)
      packet.writeUInt32LE(crc32c(packet), 8)
      return packet
    },
    numberInError(bytes) {
      if (bytes.length < 4) return 0
      if (bytes.readUInt16BE(0) !== sourcePort || bytes.readUInt16BE(2) !== port) return undefined
      return bytes.length < TAG_AT + 4 ? 0 : numberOf(bytes.readUInt32BE(TAG_AT))
    },
    reply(packet) {
      const bytes = family === 'IPv4' ? withoutIpHeader(packet) : packet
      if (bytes.length < SCTP_HEADER_BYTES + 4) return undefined
      if (bytes.readUInt16BE(0) !== port || bytes.readUInt16BE(2) !== sourcePort) return undefined
      const chunk = bytes[SCTP_HEADER_BYTES]
      if (chunk !== CHUNKS.initAck && chunk !== CHUNKS.abort) return undefined
      const number = numberOf(bytes.readUInt32BE(4))
      const portState = chunk === CHUNKS.initAck ? 'open' : 'closed'
      return number === undefined ? undefined : { number, portState }
    },
  }
}

/** By byte, for CRC-32C (RFC 9260, appendix A). */
const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte
  for (let bit = 0; bit < 8; bit++) crc = (crc & 1) === 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1
  return crc >>> 0
})

/** The checksum of a packet in which its own place holds zeros; written with the low byte first. */
export function crc32c(bytes: Uint8Array): number {
  let crc = 0xffffffff
  for (const byte of bytes) crc = (CRC_TABLE[(crc ^ byte) & 0xff] as number) ^ (crc >>> 8)
  return ~crc >>> 0
}
