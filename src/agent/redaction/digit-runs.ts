// Finds base64 and hexadecimal in bytes, and decodes it. What is too short is passed over in steps.

/** The value of a byte that is no digit. */
export const BREAK = 255
/** A letter of base64 (RFC 4648, either alphabet) → its six bits. */
const SIX_BITS = new Uint8Array(256).fill(BREAK)
/** A hexadecimal digit → its four bits. */
export const FOUR_BITS = new Uint8Array(256).fill(BREAK)
const setDigits = (table: Uint8Array, digits: string, first: number) => {
  for (const [at, byte] of Buffer.from(digits).entries()) table[byte] = first + at
}
setDigits(SIX_BITS, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/', 0)
setDigits(SIX_BITS, '-', 62)
setDigits(SIX_BITS, '_', 63)
setDigits(FOUR_BITS, '0123456789abcdef', 0)
setDigits(FOUR_BITS, 'ABCDEF', 10)

const code = (character: string) => character.charCodeAt(0)
const [LF, CR, SPACE, TAB] = [code('\n'), code('\r'), code(' '), code('\t')]
/** Begins the colours of a terminal. */
const ESC = 0x1b
/** `0x`, in front of each byte. */
const [ZERO, X] = [code('0'), code('x')]

/** What stands between dumped bytes; in a form, a space is a plus. */
const SEPARATORS = new Uint8Array(256)
for (const one of Buffer.from(' +:,\n\r\t')) SEPARATORS[one] = 1

/** A way to write bytes as digits. */
export interface Digits {
  bitsPerDigit: 4 | 6
  /** Byte → value of the digit. */
  values: Uint8Array
  /** 1 for what may stand within a run, but for the indentation of its lines. */
  within: Uint8Array
  /** Shorter runs are those of others. Bytes. */
  bytesMin: number
}

export const BASE64: Digits = {
  bitsPerDigit: 6,
  values: SIX_BITS,
  within: SIX_BITS.map((value, byte) => Number(value !== BREAK || byte === LF || byte === CR)),
  bytesMin: 1,
}

/** Shorter hexadecimal is hashes and colours. */
export const HEXADECIMAL: Digits = {
  bitsPerDigit: 4,
  values: FOUR_BITS,
  within: FOUR_BITS.map((value, byte) =>
    Number(value !== BREAK || SEPARATORS[byte] === 1 || (byte | 0x20) === X),
  ),
  bytesMin: 5,
}

const IS_ASCII_TEXT = new Uint8Array(256).fill(1, 32, 127)
for (const one of [TAB, LF, CR, ESC]) IS_ASCII_TEXT[one] = 1

/** Lines of base64 are at least as long. */
const LINE_CHARS_MIN = 8

/** Digits that stand together: their values and where they stand. */
export interface Run {
  values: Uint8Array
  at: Uint32Array
  length: number
  /** Where it begins and ends, with the separators around it. */
  from: number
  to: number
}

/** Calls `onText` for each part with at least `min` characters of ASCII in a row; with UTF-8 next to them. */
export function textsIn(
  bytes: Uint8Array,
  length: number,
  min: number,
  onText: (from: number, to: number) => void,
): void {
  let end = 0
  let from = stretchIn(bytes, IS_ASCII_TEXT, min, 0, length)
  while (from >= 0) {
    const before = end
    end = from + min
    while (from > before && isText(bytes[from - 1] as number)) from--
    while (end < length && isText(bytes[end] as number)) end++
    onText(from, end)
    from = stretchIn(bytes, IS_ASCII_TEXT, min, end, length)
  }
}

/** Share of control characters from which on bytes are no text, and every how many of them are looked at. */
const CONTROL_SHARE_MAX = 1 / 32
const SAMPLE_STEP = 7

/** In fewer, a single control character would count for many. */
const BINARY_BYTES_MIN = 1024

/** Whether most of the bytes are no text: pictures, databases, what is packed. */
export function isBinary(bytes: Uint8Array): boolean {
  if (bytes.length < BINARY_BYTES_MIN) return false
  let controls = 0
  for (let at = 0; at < bytes.length; at += SAMPLE_STEP) {
    const byte = bytes[at] as number
    if (byte < 0x80 && IS_ASCII_TEXT[byte] === 0) controls++
  }
  return controls * SAMPLE_STEP > bytes.length * CONTROL_SHARE_MAX
}

const isText = (byte: number) => IS_ASCII_TEXT[byte] === 1 || byte >= 0x80

/**
 * Where the first `count` bytes of a class that stand together begin; -1 where there are none. Looks at each byte
 * twice at most, and at few of those of other classes.
 */
function stretchIn(
  bytes: Uint8Array,
  table: Uint8Array,
  count: number,
  from: number,
  end: number,
): number {
  let start = from
  while (start + count <= end) {
    let at = start + count - 1
    while (at >= start && table[bytes[at] as number] === 1) at--
    if (at < start) return start
    start = at + 1
  }
  return -1
}

/** Calls `onRun` for each run of at least `min` digits, over separators and the ends of lines with their indentation. */
export function digitRuns(
  bytes: Uint8Array,
  digits: Digits,
  min: number,
  onRun: (run: Run) => void,
): void {
  const { values, within } = digits
  // Only within base64, indentation may part digits.
  const step = digits === BASE64 ? Math.min(min, LINE_CHARS_MIN) : min
  const { length } = bytes
  let at = stretchIn(bytes, within, step, 0, length)
  while (at >= 0) {
    const from = at
    let count = 0
    let isIndented = false
    for (; at < length; at++) {
      const byte = bytes[at] as number
      if (values[byte] !== BREAK) {
        count++
        isIndented = false
      } else if (within[byte] === 1) isIndented = true
      else if (!isIndented || (byte !== SPACE && byte !== TAB)) break
    }
    if (count >= min) onRun(runOf(bytes, values, from, at, count))
    at = stretchIn(bytes, within, step, at, length)
  }
}

/** How far digits reach from the beginning or the end of the bytes. */
export function digitsAtEnd(bytes: Uint8Array, { within }: Digits, isStart: boolean): number {
  const { length } = bytes
  let count = 0
  while (count < length && within[bytes[isStart ? count : length - 1 - count] as number] === 1)
    count++
  return count
}

function runOf(bytes: Uint8Array, table: Uint8Array, from: number, to: number, count: number): Run {
  const run = { values: new Uint8Array(count), at: new Uint32Array(count), length: 0, from, to }
  for (let at = from; at < to; at++) {
    const byte = bytes[at] as number
    const value = table[byte] as number
    if (value !== BREAK) {
      run.values[run.length] = value
      run.at[run.length++] = at
    } else if (table === FOUR_BITS && (byte | 0x20) === X && isPrefix(bytes, at)) run.length--
  }
  return run
}

/** Whether an `x` belongs to a `0x` in front of a byte: the zero is not the last digit of another one. */
function isPrefix(bytes: Uint8Array, at: number): boolean {
  return bytes[at - 1] === ZERO && FOUR_BITS[bytes[at - 2] ?? 0] === BREAK
}

/** The bytes of a run from its digit at `phase` on, into `target`; gives their number. */
export function decodeRun(
  { values, length }: Run,
  { bitsPerDigit }: Digits,
  phase: number,
  target: Uint8Array,
): number {
  let count = 0
  let pending = 0
  let bits = 0
  for (let at = phase; at < length; at++) {
    pending = (pending << bitsPerDigit) | (values[at] as number)
    bits += bitsPerDigit
    if (bits < 8) continue
    bits -= 8
    target[count++] = pending >> bits
  }
  return count
}
