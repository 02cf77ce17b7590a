// The checksum that IP, ICMP and their kin carry in their headers.

/** The checksum of the bytes, in which its own place holds zero (RFC 1071). */
export function internetChecksum(bytes: Buffer): number {
  let sum = 0
  const even = bytes.length & ~1
  for (let at = 0; at < even; at += 2) sum += bytes.readUInt16BE(at)
  if (even < bytes.length) sum += bytes.readUInt8(even) << 8
  while (sum > 0xffff) sum = (sum & 0xffff) + Math.floor(sum / 0x10000)
  return ~sum & 0xffff
}
