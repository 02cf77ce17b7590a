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

/** RFC 4648, 7, without padding. */
export function base32Hex(bytes: Buffer): string {
  const length = Math.ceil((bytes.length * 8) / 5)
  const number = BigInt(`0x0${bytes.toString('hex')}`) << BigInt(length * 5 - bytes.length * 8)
  return length === 0 ? '' : number.toString(32).toUpperCase().padStart(length, '0')
}
