// Readable text for bytes of DNS messages.

/** A backslash and three digits, as zone files write a byte (RFC 1035, 5.1). */
export function decimalEscape(byte: number): string {
  return `\\${String(byte).padStart(3, '0')}`
}

/** UTF-8 text as it is; in other bytes, non-printable ones are escaped. */
export function readableText(bytes: Buffer): string {
  const text = bytes.toString()
  // oxlint-disable-next-line no-control-regex
  if (!text.includes('\uFFFD') && !/[\u0000-\u001f\u007f-\u009f]/.test(text)) return text
  let escaped = ''
  for (const byte of bytes) {
    escaped += byte < 0x20 || byte >= 0x7f ? decimalEscape(byte) : String.fromCharCode(byte)
  }
  return escaped
}

/** The text in double quotes, with quotes in it escaped. */
export function quoted(text: string): string {
  return `"${text.replaceAll('"', '\\"')}"`
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
