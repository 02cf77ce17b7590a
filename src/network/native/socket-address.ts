// Addresses in the kernel's form (struct sockaddr_in and sockaddr_in6) and back.
import { ipv4Word, ipv6Text, ipv6Words } from '../ip-address.ts'
import { AF_INET, AF_INET6 } from './socket-options.ts'

/** An address and a port, also in the kernel's form. */
export interface SocketAddress {
  /** Canonical (RFC 5952), with the index of its zone: equal addresses have equal texts. */
  readonly address: string
  readonly port: number
  readonly bytes: Buffer
}

/** The size of the largest address that we read. Bytes. */
export const ADDRESS_BYTES_MAX = 28

const INET_BYTES = 16

/**
 * The kernel's form of a literal. A zone is a number or the name of an interface, for which
 * `interfaceIndex` knows the number (0 for none). Throws a TypeError if it is not a literal.
 */
export function socketAddress(
  literal: string,
  port: number,
  interfaceIndex: (name: string) => number = () => 0,
): SocketAddress {
  const word = ipv4Word(literal)
  if (word >= 0) {
    const bytes = Buffer.alloc(INET_BYTES)
    bytes.writeUInt16LE(AF_INET, 0)
    bytes.writeUInt16BE(port, 2)
    bytes.writeUInt32BE(word, 4)
    return { address: literal, port, bytes }
  }
  const words = ipv6Words(literal)
  if (words === undefined) throw new TypeError(`${literal} is not an address`)
  const bytes = Buffer.alloc(ADDRESS_BYTES_MAX)
  bytes.writeUInt16LE(AF_INET6, 0)
  bytes.writeUInt16BE(port, 2)
  for (const [at, one] of words.entries()) bytes.writeUInt32BE(one, 8 + 4 * at)
  const zone = literal.split('%')[1]
  if (zone !== undefined) {
    bytes.writeUInt32LE(/^\d{1,9}$/.test(zone) ? Number(zone) : interfaceIndex(zone), 24)
  }
  return { address: readAddress(bytes, 0) ?? literal, port, bytes }
}

/** The IPv4 address that is written as one of IPv6 (::ffff:192.0.2.1), else the literal itself. */
export function unmapped(literal: string): string {
  const words = literal.includes(':') ? ipv6Words(literal) : undefined
  if (words === undefined || words[0] !== 0 || words[1] !== 0 || words[2] !== 0xffff) return literal
  return [24, 16, 8, 0].map((shift) => (words[3] >>> shift) & 255).join('.')
}

/** The canonical text of the address at `at`; undefined when it is neither IPv4 nor IPv6. */
export function readAddress(bytes: Buffer, at: number): string | undefined {
  const family = bytes.length >= at + 2 ? bytes.readUInt16LE(at) : 0
  if (family === AF_INET && bytes.length >= at + 8) {
    return `${bytes[at + 4]}.${bytes[at + 5]}.${bytes[at + 6]}.${bytes[at + 7]}`
  }
  if (family !== AF_INET6 || bytes.length < at + ADDRESS_BYTES_MAX) return undefined
  const scope = bytes.readUInt32LE(at + 24)
  const text = ipv6Text(bytes, at + 8)
  return scope === 0 ? text : `${text}%${scope}`
}
