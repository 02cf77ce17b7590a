// Packets of UDP and ICMP probes, and the mark that identifies their answers: four bytes of the trace, two of
// the probe, and the complements of both. All packets have the same checksum, so that no router assigns them
// to different flows.
import { randomBytes } from 'node:crypto'
import { internetChecksum } from '../../network/native/internet-checksum.ts'

/** Bytes of a header of UDP or of an ICMP echo. */
export const HEADER_BYTES = 8
/** Bytes of the mark. */
export const MARK_BYTES = 12

/** Kind of the packets. */
export interface MarkSettings {
  protocol: 'UDP' | 'ICMP'
  family: 'IPv4' | 'IPv6'
  /** Whether the kernel leaves identifier and checksum of echoes to us; their replies carry IP headers. */
  isRaw: boolean
  /** Of echoes. */
  identifier: number
}

/** Makes packets and identifies them. Probes have numbers from 1 to 65,535. */
export interface Marks {
  /** Bytes passed to the kernel: without the UDP header, with the echo header. */
  packet(number: number, payloadBytes: number): Buffer
  /**
   * Number of the probe whose packet, or its first bytes, an error contains. 0 if the bytes are too few;
   * undefined if it belongs to another trace.
   */
  numberInError(bytes: Buffer): number | undefined
  /** Number of the probe that the packet answers; undefined for none. */
  numberInReply(packet: Buffer): number | undefined
  /** Port state shown by the reply; undefined for none. */
  portState(packet: Buffer): 'open' | 'closed' | undefined
}

const ECHO = { IPv4: 8, IPv6: 128 } as const
const ECHO_REPLY = { IPv4: 0, IPv6: 129 } as const

/** Makes the marks of one trace. */
export function createMarks(settings: MarkSettings): Marks {
  return settings.protocol === 'UDP' ? udpMarks() : echoMarks(settings)
}

function udpMarks(): Marks {
  const secret = randomBytes(4)
  const numberIn = (bytes: Buffer) => (bytes.length < MARK_BYTES ? 0 : readMark(bytes, 0, secret))
  return {
    packet(number, payloadBytes) {
      const packet = Buffer.alloc(payloadBytes)
      writeMark(packet, 0, secret, number)
      packet.writeUInt16BE(number, 8)
      return packet
    },
    numberInError: numberIn,
    numberInReply: (bytes) => numberIn(bytes) || undefined,
    portState: () => 'open',
  }
}

function echoMarks({ family, isRaw, identifier }: MarkSettings): Marks {
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
    numberInReply(packet) {
      const bytes = hasIpHeader ? packet.subarray(((packet[0] ?? 0) & 15) * 4) : packet
      if (bytes.length < HEADER_BYTES + MARK_BYTES) return undefined
      if (bytes[0] !== ECHO_REPLY[family] || bytes[1] !== 0) return undefined
      return readMark(bytes, HEADER_BYTES, secret)
    },
    portState: () => undefined,
  }
}

function writeMark(packet: Buffer, at: number, secret: Buffer, number: number): void {
  for (let index = 0; index < 4; index++) {
    const byte = secret[index] as number
    packet[at + index] = byte
    packet[at + 4 + index] = ~byte & 0xff
  }
  packet.writeUInt16BE(~number & 0xffff, at + 10)
}

function readMark(bytes: Buffer, at: number, secret: Buffer): number | undefined {
  if (!bytes.subarray(at, at + 4).equals(secret)) return undefined
  return ~bytes.readUInt16BE(at + 10) & 0xffff || undefined
}
