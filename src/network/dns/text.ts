// Readable text for bytes of DNS messages.

/** A backslash and three digits, as zone files write a byte (RFC 1035, 5.1). */
export function decimalEscape(byte: number): string {
  return `\\${String(byte).padStart(3, '0')}`
}

/** UTF-8 text as it is; in other bytes, non-printable ones are escaped. */
export function readableText(bytes: Buffer): string {
  if (isPrintable(bytes)) return bytes.toString('latin1')
  const text = bytes.toString()
  // oxlint-disable-next-line no-control-regex
  if (!text.includes('\uFFFD') && !/[\u0000-\u001f\u007f-\u009f]/.test(text)) return text
  let escaped = ''
  for (const byte of bytes) {
    escaped += byte < 0x20 || byte >= 0x7f ? decimalEscape(byte) : String.fromCharCode(byte)
  }
  return escaped
}

function isPrintable(bytes: Buffer): boolean {
  for (const byte of bytes) if (byte < 0x20 || byte >= 0x7f) return false
  return true
}

/** The text in double quotes, with quotes in it escaped. */
export function quoted(text: string): string {
  return `"${text.replaceAll('"', '\\"')}"`
}

/** The short form of 16 bytes (RFC 5952). */
export function ipv6Text(bytes: Buffer): string {
  const groups: number[] = []
  for (let at = 0; at < 16; at += 2) groups.push(bytes.readUInt16BE(at))
  const isMapped = groups[5] === 0xffff && groups.slice(0, 5).every((group) => group === 0)
  if (isMapped) return `::ffff:${bytes.subarray(12).join('.')}`
  let [start, longest] = [0, 1]
  for (let at = 0; at < 8; at++) {
    let run = 0
    while (at + run < 8 && groups[at + run] === 0) run++
    if (run > longest) [start, longest] = [at, run]
  }
  const hex = groups.map((group) => group.toString(16))
  if (longest < 2) return hex.join(':')
  return `${hex.slice(0, start).join(':')}::${hex.slice(start + longest).join(':')}`
}

const BASE32_HEX = '0123456789ABCDEFGHIJKLMNOPQRSTUV'

/** RFC 4648, 7, without padding. */
export function base32Hex(bytes: Buffer): string {
  let text = ''
  let pending = 0
  let bits = 0
  for (const byte of bytes) {
    pending = ((pending & 0x1f) << 8) | byte
    bits += 8
    for (; bits >= 5; bits -= 5) text += BASE32_HEX[(pending >> (bits - 5)) & 31]
  }
  return bits === 0 ? text : text + BASE32_HEX[(pending << (5 - bits)) & 31]
}
