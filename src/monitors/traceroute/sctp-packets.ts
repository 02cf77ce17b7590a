// SCTP packets of a trace (RFC 9260): INIT and its answers. Every answer contains the tag of the INIT, which
// identifies the probe.
import { randomInt } from 'node:crypto'
import type { Marks } from './marks.ts'

const CHUNKS = { init: 1, initAck: 2, abort: 6 } as const
/** The header that all chunks share, and an INIT without parameters. Bytes. */
const HEADER_BYTES = 12
const INIT_BYTES = 20
/** Where the tag stands in our packet. */
const TAG_AT = HEADER_BYTES + 4

/** The ports of a flow. */
export interface SctpFlow {
  family: 'IPv4' | 'IPv6'
  sourcePort: number
  port: number
}

/** Packets for a raw socket, and their answers. */
export function createSctpMarks({ family, sourcePort, port }: SctpFlow): Marks {
  // A tag is never zero, and not guessable.
  const secret = randomInt(1, 0x10000)
  const numberOf = (tag: number) => (tag >>> 16 === secret ? tag & 0xffff : 0) || undefined
  const answerIn = (packet: Buffer) => {
    // Raw packets of IPv4 begin with their IP header.
    const bytes = family === 'IPv4' ? packet.subarray(((packet[0] ?? 0) & 15) * 4) : packet
    if (bytes.length < HEADER_BYTES + 4) return undefined
    if (bytes.readUInt16BE(0) !== port || bytes.readUInt16BE(2) !== sourcePort) return undefined
    const chunk = bytes[HEADER_BYTES]
    if (chunk !== CHUNKS.initAck && chunk !== CHUNKS.abort) return undefined
    return { number: numberOf(bytes.readUInt32BE(4)), isOpen: chunk === CHUNKS.initAck }
  }
  return {
    packet(number) {
      const packet = Buffer.alloc(HEADER_BYTES + INIT_BYTES)
      packet.writeUInt16BE(sourcePort, 0)
      packet.writeUInt16BE(port, 2)
      packet[HEADER_BYTES] = CHUNKS.init
      packet.writeUInt16BE(INIT_BYTES, HEADER_BYTES + 2)
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
    numberInReply: (packet) => answerIn(packet)?.number,
    portState(packet) {
      return answerIn(packet)?.isOpen === true ? 'open' : 'closed'
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
