// Views of bytes: what they hold once escapes are decoded, with the way back to where each decoded byte stands.
import { BREAK, FOUR_BITS } from './digit-runs.ts'
import { htmlReference } from './html-references.ts'

/** Decoded bytes, and where each of them begins and ends in what was decoded first. */
export interface View {
  bytes: Uint8Array
  /** Where the byte at `at` begins. */
  start(at: number): number
  /** Where the byte at `at` ends. */
  end(at: number): number
}

/** Bytes as they are. */
export function plainView(bytes: Uint8Array): View {
  return { bytes, start: (at) => at, end: (at) => at + 1 }
}

export function partOf(view: View, from: number, to: number): View {
  return {
    bytes: view.bytes.subarray(from, to),
    start: (at) => view.start(from + at),
    end: (at) => view.end(from + at),
  }
}

const code = (character: string) => character.charCodeAt(0)
const BACKSLASH = code('\\')
const PERCENT = code('%')
const AMPERSAND = code('&')
const HASH = code('#')
const BRACKET = code('[')
const PARENTHESIS = code('(')
const ESC = 0x1b
const [CR, LF] = [13, 10]

/** What follows a backslash → the byte that both stand for; 0 for others. The letters stand for bytes from 8 on. */
const ESCAPED = new Uint8Array(256)
for (const [at, letter] of Buffer.from('btnvfr').entries()) ESCAPED[letter] = 8 + at
for (const quoted of Buffer.from(`"'\`/`)) ESCAPED[quoted] = quoted

/** The longest escape: a terminal's colours, `ESC [ 38;2;255;255;255 m`. A cut text ends with less of it. */
const CONTROL_SEQUENCE_BYTES_MAX = 32

/** What an escape begins with, and the first half of an end of a line. */
const SPECIAL = [PERCENT, BACKSLASH, AMPERSAND, ESC, CR]
const IS_SPECIAL = new Uint8Array(256)
for (const one of SPECIAL) IS_SPECIAL[one] = 1

/** Bytes where the search of a buffer is faster than a loop, which costs less to begin with. */
const SEARCHED_BYTES_MIN = 1024

/** Whether a byte occurs. */
export function hasByte(bytes: Uint8Array, byte: number): boolean {
  const { length, buffer, byteOffset } = bytes
  if (length < SEARCHED_BYTES_MIN) return bytes.includes(byte)
  return Buffer.from(buffer, byteOffset, length).includes(byte)
}

/** Whether there is anything to decode. */
export function mayBeEscaped({ bytes }: View): boolean {
  const { length } = bytes
  if (length >= SEARCHED_BYTES_MIN) return SPECIAL.some((one) => hasByte(bytes, one))
  let at = 0
  while (at < length && IS_SPECIAL[bytes[at] as number] === 0) at++
  return at < length
}

/** Pieces from this length on are copied as a whole. Bytes. */
const LONG_COPY_BYTES_MIN = 32

export class Draft {
  readonly bytes: Uint8Array
  readonly #source: View
  /**
   * Piece → where it begins here, and the range of the source that it was made from; the end of a copy is 0. V8 makes
   * arrays of up to 64 bytes faster.
   */
  #pieces = new Uint32Array(3 * 5)
  #used = 0
  length = 0

  constructor(source: View) {
    this.#source = source
    this.bytes = new Uint8Array(source.bytes.length)
  }

  /** Adds bytes of the source as they are. */
  copy(from: number, to: number): void {
    if (to <= from) return
    this.#addPiece(from, 0)
    const { bytes } = this.#source
    if (to - from >= LONG_COPY_BYTES_MIN) this.bytes.set(bytes.subarray(from, to), this.length)
    else
      for (let at = from; at < to; at++) this.bytes[this.length + at - from] = bytes[at] as number
    this.length += to - from
  }

  /** Adds a byte that was made from a range of the source. */
  add(byte: number, from: number, to: number): void {
    // One end of a line, however it is written.
    if (byte === LF && this.length > 0 && this.bytes[this.length - 1] === CR) {
      this.bytes[this.length - 1] = LF
      this.#pieces[this.#used - 1] = to
      return
    }
    this.#addPiece(from, to)
    this.bytes[this.length++] = byte
  }

  #addPiece(from: number, end: number): void {
    if (this.#used === this.#pieces.length) {
      const more = new Uint32Array(2 * this.#used)
      more.set(this.#pieces)
      this.#pieces = more
    }
    this.#pieces[this.#used++] = this.length
    this.#pieces[this.#used++] = from
    this.#pieces[this.#used++] = end
  }

  view(): View {
    return {
      bytes: this.bytes.subarray(0, this.length),
      start: (at) => this.#source.start(this.#rangeAt(at)[0]),
      end: (at) => this.#source.end(this.#rangeAt(at)[1] - 1),
    }
  }

  /** The range of the source that a byte was made from. */
  #rangeAt(at: number): [from: number, end: number] {
    let [low, high] = [0, this.#used / 3 - 1]
    while (low < high) {
      const middle = (low + high + 1) >>> 1
      if ((this.#pieces[3 * middle] as number) <= at) low = middle
      else high = middle - 1
    }
    const [begin = 0, from = 0, end = 0] = this.#pieces.subarray(3 * low, 3 * low + 3)
    const own = from + at - begin
    return end === 0 ? [own, own + 1] : [from, end]
  }
}

/** What escapes may be written with, one character, as UTF-8. */
function addCodePoint(draft: Draft, point: number, from: number, to: number): void {
  if (point < 0x80) return draft.add(point, from, to)
  const isNone = point > 0x10_ff_ff || (point >= 0xd8_00 && point <= 0xdf_ff)
  for (const byte of Buffer.from(isNone ? '\uFFFD' : String.fromCodePoint(point))) {
    draft.add(byte, from, to)
  }
}

/**
 * The view without escapes of URLs, JSON, JavaScript, HTML and terminals, one round of each; undefined where there are none.
 * Those of terminals may stand within others. Other backslashes go, since every round of JSON doubles them. Where the
 * text was cut, what remains of its last escape goes.
 */
export function withoutEscapes(given: View, isCut = false): View | undefined {
  const view = withoutControls(given)
  const { bytes } = view
  let draft: Draft | undefined
  const end = isCut ? withoutCutEscape(bytes) : bytes.length
  let copied = 0
  let at = 0
  while (at < end) {
    while (at < end && IS_SPECIAL[bytes[at] as number] === 0) at++
    if (at >= end) break
    if (!mayDecode(bytes, at)) {
      at++
      continue
    }
    draft ??= new Draft(view)
    draft.copy(copied, at)
    copied = escapeAt(bytes, at, draft)
    at = Math.max(copied, at + 1)
  }
  draft?.copy(copied, end)
  const last = draft?.view() ?? partOf(view, 0, end)
  return last.bytes.length === given.bytes.length ? undefined : last
}

function withoutControls(view: View): View {
  const { bytes } = view
  if (!hasByte(bytes, ESC)) return view
  const draft = new Draft(view)
  let copied = 0
  for (const { from, to } of controlSequences(bytes)) {
    draft.copy(copied, from)
    copied = to
  }
  draft.copy(copied, bytes.length)
  return draft.view()
}

/** Whether what follows a special byte may make it an escape; for most of them in binary data, nothing does. */
function mayDecode(bytes: Uint8Array, at: number): boolean {
  const next = bytes[at + 1] ?? 0
  const byte = bytes[at]
  if (byte === PERCENT) return FOUR_BITS[next] !== BREAK || next === code('u')
  if (byte === AMPERSAND) return next === HASH || isLetter(next)
  if (byte === ESC) return false
  return byte !== CR || next === LF || IS_SPECIAL[next] === 1
}

const isLetter = (byte: number) => (byte | 0x20) >= 97 && (byte | 0x20) <= 122

/** Adds what the escape at `at` stands for, and gives its end; `at` where it is none. */
function escapeAt(bytes: Uint8Array, at: number, draft: Draft): number {
  const byte = bytes[at]
  if (byte === PERCENT) return percent(bytes, at, draft)
  if (byte === BACKSLASH) return backslashes(bytes, at, draft)
  if (byte === AMPERSAND) return reference(bytes, at, draft)
  if (bytes[at + 1] !== LF) {
    // It may be the first half of an end of a line, of which the other half is escaped.
    draft.add(CR, at, at + 1)
    return at + 1
  }
  draft.add(LF, at, at + 2)
  return at + 2
}

function reference(bytes: Uint8Array, at: number, draft: Draft): number {
  const found = htmlReference(bytes, at)
  if (found === undefined) return at
  addCodePoint(draft, found.point, at, found.end)
  return found.end
}

/** Control sequences (ECMA-48, 5.4), which stand for nothing: diffs of tests have them within values. */
export function* controlSequences(bytes: Uint8Array): Generator<{ from: number; to: number }> {
  for (let from = bytes.indexOf(ESC); from >= 0;) {
    const to = controlSequence(bytes, from)
    if (to > from) yield { from, to }
    from = bytes.indexOf(ESC, Math.max(to, from + 1))
  }
}

/** Where the one at `at`, or the choice of a character set, ends; `at` where there is none. */
function controlSequence(bytes: Uint8Array, at: number): number {
  if (bytes[at + 1] === PARENTHESIS) return Math.min(bytes.length, at + 3)
  if (bytes[at + 1] !== BRACKET) return at
  const limit = Math.min(bytes.length, at + CONTROL_SEQUENCE_BYTES_MAX)
  let end = at + 2
  while (end < limit && (bytes[end] as number) >= 0x20 && (bytes[end] as number) <= 0x3f) end++
  const last = bytes[end] ?? 0
  return end < limit && last >= 0x40 && last <= 0x7e ? end + 1 : at
}

/** The beginning of an escape at the end of a text. */
const CUT_ESCAPE = new RegExp(
  String.raw`(?:%(?:[\da-f]?|u[\da-f]{0,3})|\\+(?:x[\da-f]?|u[\da-f]{0,3})?|&#?[\da-z]{0,10}|\x1B(?:\[[\d;]*)?)$`,
  'i',
)

function withoutCutEscape(bytes: Uint8Array): number {
  const from = Math.max(0, bytes.length - CONTROL_SEQUENCE_BYTES_MAX)
  const rest = CUT_ESCAPE.exec(Buffer.from(bytes.subarray(from)).toString('latin1'))
  return rest === null ? bytes.length : from + rest.index
}

/** Of `%2F`, `\\u002f` and `&#x2f;` without their first characters. */
const REST_OF_ESCAPE = /^(?:#?[\da-z]{0,8};|[ux]?[\da-f]{1,4})/i

/** How many bytes at the beginning of a text may be what is left of an escape: none, and each number that may be. */
export function restsOfEscapes(bytes: Uint8Array): number[] {
  const start = Buffer.from(bytes.subarray(0, CONTROL_SEQUENCE_BYTES_MAX)).toString('latin1')
  const rest = REST_OF_ESCAPE.exec(start)?.[0] ?? ''
  return rest.endsWith(';')
    ? [0, rest.length]
    : Array.from({ length: rest.length + 1 }, (_, at) => at)
}

/** The value of hexadecimal digits; -1 where others are among them. */
export function hexAt(bytes: Uint8Array, at: number, digits: number): number {
  let value = 0
  for (let i = at; i < at + digits; i++) {
    const digit = FOUR_BITS[bytes[i] ?? 0] as number
    if (digit === BREAK) return -1
    value = value * 16 + digit
  }
  return value
}

function percent(bytes: Uint8Array, at: number, draft: Draft): number {
  if (bytes[at + 1] === code('u')) return unicode(bytes, at, at + 1, draft)
  const value = hexAt(bytes, at + 1, 2)
  if (value < 0) return at
  draft.add(value, at, at + 3)
  return at + 3
}

function backslashes(bytes: Uint8Array, at: number, draft: Draft): number {
  let from = at
  while (bytes[from] === BACKSLASH) from++
  const letter = bytes[from] ?? 0
  const byte = ESCAPED[letter] as number
  if (byte > 0) {
    draft.add(byte, at, from + 1)
    return from + 1
  }
  if (letter === code('x')) {
    const value = hexAt(bytes, from + 1, 2)
    if (value >= 0) draft.add(value, at, from + 3)
    if (value >= 0) return from + 3
  }
  if (letter === code('u') || letter === code('U')) {
    const end = unicode(bytes, at, from, draft)
    if (end > at) return end
  }
  // How many there were depends on the rounds of escaping alone.
  return from
}

/**
 * `\u00e9`, two of them for a character outside of the basic plane; `\U0001f600` of Python, Go and YAML, `%u00e9` of the
 * function `escape`. `at` where there is none.
 */
function unicode(bytes: Uint8Array, at: number, letter: number, draft: Draft): number {
  const digits = bytes[letter] === code('U') ? 8 : 4
  const unit = hexAt(bytes, letter + 1, digits)
  if (unit < 0) return at
  const end = letter + 1 + digits
  if (unit >= 0xd8_00 && unit <= 0xdb_ff) {
    let second = end
    while (bytes[second] === BACKSLASH || bytes[second] === PERCENT) second++
    const low = second > end && bytes[second] === code('u') ? hexAt(bytes, second + 1, 4) : -1
    if (low >= 0xdc_00 && low <= 0xdf_ff) {
      addCodePoint(draft, 0x1_00_00 + ((unit - 0xd8_00) << 10) + (low - 0xdc_00), at, second + 5)
      return second + 5
    }
  }
  addCodePoint(draft, unit, at, end)
  return end
}
