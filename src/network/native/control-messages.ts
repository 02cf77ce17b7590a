// Control messages of a packet: its time stamp, TTL and error. See cmsg(3), and for errors ip(7), IP_RECVERR.
import { readAddress } from './socket-address.ts'
import { CONTROL } from './socket-options.ts'

/** An error from the network, or from our own kernel, about a packet that we sent (sock_extended_err). */
export interface PacketError {
  errno: number
  /** One of ERROR_ORIGIN. */
  origin: number
  /** Type and code of the ICMP message. */
  type: number
  code: number
  /** The MTU, where a packet was too large. */
  info: number
  /** The sender of the message; undefined for our own system. */
  offender: string | undefined
}

/** Data from the control messages of a packet. */
export interface ControlFacts {
  /** TTL or hop limit of the packet. */
  ttl?: number
  /** When the kernel received it (or, for the stamp of a sent packet, sent it); see `clockMs` of native-socket.ts. */
  kernelMs?: number
  error?: PacketError
}

const HEADER_BYTES = 16
const TIMESPEC_BYTES = 16
const ERROR_BYTES = 16

/**
 * Reads the control messages in the first `length` bytes. Truncated and unknown ones are skipped.
 * `epochSeconds` is the epoch of the resulting kernel times.
 */
export function readControl(bytes: Buffer, length: number, epochSeconds: number): ControlFacts {
  const facts: ControlFacts = {}
  const end = Math.min(length, bytes.length)
  let at = 0
  while (at + HEADER_BYTES <= end) {
    // The length has 64 bits for the kernel and 32 for musl: the lower half is the same for both.
    const own = bytes.readUInt32LE(at)
    if (own < HEADER_BYTES || at + own > end) break
    readOne(bytes, at, at + own, facts, epochSeconds)
    at += (own + 7) & ~7
  }
  return facts
}

function readOne(
  bytes: Buffer,
  at: number,
  end: number,
  facts: ControlFacts,
  epochSeconds: number,
): void {
  const data = at + HEADER_BYTES
  const room = end - data
  switch ((bytes.readInt32LE(at + 8) << 8) | bytes.readInt32LE(at + 12)) {
    case CONTROL.timestamp:
    case CONTROL.timestamping:
      // All zeros: the kernel has no such stamp.
      if (room < TIMESPEC_BYTES || bytes.readUInt32LE(data) === 0) return
      facts.kernelMs = readTimespec(bytes, data, epochSeconds)
      return
    case CONTROL.ttl4:
    case CONTROL.ttl6:
      if (room >= 4) facts.ttl = bytes.readInt32LE(data)
      return
    case CONTROL.error4:
    case CONTROL.error6:
      if (room >= ERROR_BYTES) facts.error = readError(bytes.subarray(data, end))
  }
}

function readError(bytes: Buffer): PacketError {
  return {
    errno: bytes.readUInt32LE(0),
    origin: bytes.readUInt8(4),
    type: bytes.readUInt8(5),
    code: bytes.readUInt8(6),
    info: bytes.readUInt32LE(8),
    offender: readAddress(bytes, ERROR_BYTES),
  }
}

/** A struct timespec of 64-bit Linux as milliseconds since `epochSeconds`. */
export function readTimespec(bytes: Buffer, at: number, epochSeconds: number): number {
  // Doubles resolve a quarter of a microsecond since 1970, and a picosecond since the start of us.
  const seconds = bytes.readUInt32LE(at) + bytes.readInt32LE(at + 4) * 4_294_967_296
  return (seconds - epochSeconds) * 1000 + bytes.readUInt32LE(at + 8) / 1e6
}
