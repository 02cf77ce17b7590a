// Packets of UDP, ICMP and SCTP probes, and how their answers are known: by a mark of twelve bytes, which holds
// four bytes of the trace, two of the probe, and the complements of both, so that all packets have the same
// checksum and no router assigns them to different flows. Every answer of SCTP contains the tag of its INIT.
import { randomBytes, randomInt } from 'node:crypto'
import type { Family } from '../../network/dial.ts'
import { ICMP_HEADER_BYTES, unwrapIpv4, type EchoFormat } from '../../network/native/icmp-echo.ts'

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
  const numberInError = (bytes: Buffer) => (bytes.length < MARK_BYTES ? 0 : readMark(bytes, secret))
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

export function echoMarks(format: EchoFormat): Marks {
  const secret = randomBytes(4)
  return {
    packet(number, payloadBytes) {
      const packet = Buffer.alloc(ICMP_HEADER_BYTES + payloadBytes)
      // Its number is in the header; here stands the complement alone.
      writeMark(packet, ICMP_HEADER_BYTES, secret, number)
      format.writeHeader(packet, number)
      return packet
    },
    numberInError(bytes) {
      if (bytes.length < ICMP_HEADER_BYTES) return 0
      const sent = format.readRequest(bytes)
      if (sent === undefined) return undefined
      // Some routers return only the header, without the mark.
      if (sent.payload.length < MARK_BYTES) return sent.sequence || undefined
      return readMark(sent.payload, secret)
    },
    reply(packet) {
      const payload = format.readReply(packet)?.payload ?? Buffer.alloc(0)
      const number = payload.length < MARK_BYTES ? undefined : readMark(payload, secret)
      return number === undefined ? undefined : { number }
    },
  }
}

function writeMark(packet: Buffer, at: number, secret: Buffer, number: number): void {
  for (const [index, byte] of secret.entries()) {
    packet[at + index] = byte
    packet[at + 4 + index] = ~byte & 0xff
  }
  packet.writeUInt16BE(~number & 0xffff, at + 10)
}

function readMark(bytes: Buffer, secret: Buffer): number | undefined {
  if (!bytes.subarray(0, 4).equals(secret)) return undefined
  return ~bytes.readUInt16BE(10) & 0xffff || undefined
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
      const bytes = family === 'IPv4' ? unwrapIpv4(packet).message : packet
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
