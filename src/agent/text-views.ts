// Views of a text in which secrets are searched: escapes decoded, spellings of one byte folded into one, dumped
// bytes and broken base64 joined. Each view knows the place of its bytes in the text, and is made in linear time.

/** A text as bytes, and where each of them stands. */
export interface View {
  bytes: Uint8Array
  /** Start of each byte in the text, and the length of the text at the end; undefined: they are equal. */
  starts: Uint32Array | undefined
  /** End of each byte in the text, where it is not the start of the next one. */
  ends?: Uint32Array
}

/** Base64 of RFC 4648 and base64url share the folded letters; so do a space of a form and `+`. */
const FOLDED = Uint8Array.from({ length: 256 }, (_, byte) => byte)
FOLDED[0x2b] = 0x2d // + as -
FOLDED[0x5f] = 0x2f // _ as /

const [NUL, LF, CR, PERCENT, AMPERSAND, BACKSLASH] = [0x00, 0x0a, 0x0d, 0x25, 0x26, 0x5c]

const IS_ESCAPE = new Uint8Array(256)
for (const byte of [NUL, CR, PERCENT, AMPERSAND, BACKSLASH]) IS_ESCAPE[byte] = 1

const HEX = new Int8Array(256).fill(-1)
for (let value = 0; value < 16; value++) {
  const digit = value.toString(16)
  HEX[digit.charCodeAt(0)] = value
  HEX[digit.toUpperCase().charCodeAt(0)] = value
}

/** Whether `decoded` gives more than `folded`. */
export function hasEscapes(bytes: Uint8Array): boolean {
  for (let at = 0; at < bytes.length; at++) if (IS_ESCAPE[bytes[at] ?? 0] === 1) return true
  return false
}

/** The text as it is, with the spellings of base64 folded. */
export function folded(bytes: Uint8Array): Uint8Array {
  const out = new Uint8Array(bytes.length)
  for (let at = 0; at < bytes.length; at++) out[at] = FOLDED[bytes[at] ?? 0] ?? 0
  return out
}

/** Rounds of escaping that are undone, beyond those that are undone at once. */
const ROUNDS_MAX = 3

/**
 * Views of the text with its escapes decoded: of URLs, JSON, JavaScript and HTML, and again where that gives
 * others. Carriage returns and NUL (of UTF-16) are left out. Folded.
 */
export function decoded(bytes: Uint8Array): View[] {
  const views: View[] = []
  let last: View = { bytes, starts: undefined }
  for (let round = 0; round < ROUNDS_MAX && hasEscapes(last.bytes); round++) {
    const next = new Decoder(last).view()
    if (round > 0 && next.bytes.length === last.bytes.length) break
    views.push(next)
    last = next
  }
  return views
}

class Decoder {
  readonly #bytes: Uint8Array
  readonly #from: Uint32Array | undefined
  // No escape is shorter than what it stands for in UTF-8.
  readonly #out: Uint8Array
  readonly #starts: Uint32Array
  #length = 0

  constructor({ bytes, starts }: View) {
    this.#bytes = bytes
    this.#from = starts
    this.#out = new Uint8Array(bytes.length)
    this.#starts = new Uint32Array(bytes.length + 1)
  }

  view(): View {
    const bytes = this.#bytes
    for (let at = 0; at < bytes.length;) {
      const byte = bytes[at] ?? 0
      if (IS_ESCAPE[byte] === 0) this.#put(byte, at++)
      else if (byte === BACKSLASH) at = this.#backslashes(at)
      else if (byte === PERCENT) at = this.#percent(at)
      else if (byte === AMPERSAND) at = this.#entity(at)
      else at++
    }
    this.#starts[this.#length] = this.#from?.[bytes.length] ?? bytes.length
    return {
      bytes: this.#out.subarray(0, this.#length),
      starts: this.#starts.subarray(0, this.#length + 1),
    }
  }

  #put(byte: number, start: number): void {
    if (byte === CR || byte === NUL) return
    this.#out[this.#length] = FOLDED[byte] ?? 0
    this.#starts[this.#length++] = this.#from?.[start] ?? start
  }

  #putCharacter(codePoint: number, start: number): void {
    if (codePoint < 0x80) this.#put(codePoint, start)
    else for (const byte of Buffer.from(String.fromCodePoint(codePoint))) this.#put(byte, start)
  }

  /** `%41`, and `%2541` where it was encoded again. */
  #percent(at: number): number {
    const bytes = this.#bytes
    let next = at + 1
    while (bytes[next] === 0x32 && bytes[next + 1] === 0x35) next += 2
    // The last `25` may be the byte itself.
    if (next > at + 1 && hexAt(bytes, next, 2) < 0) next -= 2
    const byte = hexAt(bytes, next, 2)
    this.#put(byte < 0 ? PERCENT : byte, at)
    return byte < 0 ? at + 1 : next + 2
  }

  /** Each round of escaping doubles the backslashes: a run of them is one escape. */
  #backslashes(at: number): number {
    const bytes = this.#bytes
    let next = at + 1
    while (bytes[next] === BACKSLASH) next++
    const letter = bytes[next] ?? 0
    if (letter === 0x75) return this.#unicode(at, next)
    const byte = letter === 0x78 ? hexAt(bytes, next + 1, 2) : -1
    if (byte >= 0) {
      this.#put(byte, at)
      return next + 3
    }
    const control = CONTROLS.get(letter)
    if (control !== undefined) {
      this.#put(control, at)
      return next + 1
    }
    // The backslash itself, or what it quotes: both are found without it.
    if (next === bytes.length || IS_ESCAPE[letter] === 1) return next
    this.#put(letter, at)
    return next + 1
  }

  /** `\u0041`, or two of them for one character beyond the basic plane. */
  #unicode(at: number, next: number): number {
    const bytes = this.#bytes
    const unit = hexAt(bytes, next + 1, 4)
    if (unit < 0) {
      this.#put(0x75, at)
      return next + 1
    }
    let after = next + 5
    if (unit >= 0xd800 && unit < 0xdc00 && bytes[after] === BACKSLASH) {
      let low = after
      while (bytes[low] === BACKSLASH) low++
      const second = bytes[low] === 0x75 ? hexAt(bytes, low + 1, 4) : -1
      if (second >= 0xdc00 && second < 0xe000) {
        after = low + 5
        this.#putCharacter(0x10000 + ((unit - 0xd800) << 10) + (second - 0xdc00), at)
        return after
      }
    }
    this.#putCharacter(unit, at)
    return after
  }

  /** `&lt;`, `&#60;`, `&#x3c;`, and `&amp;lt;` where it was encoded again. */
  #entity(at: number): number {
    const bytes = this.#bytes
    let next = at + 1
    while (isAt(bytes, next, AMP)) next += AMP.length
    const end = entityEnd(bytes, next)
    const codePoint = end < 0 ? undefined : entityOf(bytes, next, end)
    if (codePoint === undefined) {
      this.#put(AMPERSAND, at)
      return next
    }
    this.#putCharacter(codePoint, at)
    return end + 1
  }
}

const CONTROLS: ReadonlyMap<number, number> = new Map([
  [0x6e, LF],
  [0x72, CR],
  [0x74, 0x09],
])
const AMP = Buffer.from('amp;')
const ENTITY_CHARS_MAX = 24
const ENTITIES: ReadonlyMap<string, number> = new Map([
  ['lt', 0x3c],
  ['gt', 0x3e],
  ['quot', 0x22],
  ['apos', 0x27],
  ['nbsp', 0x20],
])

function isAt(bytes: Uint8Array, at: number, expected: Uint8Array): boolean {
  for (let i = 0; i < expected.length; i++) if (bytes[at + i] !== expected[i]) return false
  return true
}

function entityEnd(bytes: Uint8Array, from: number): number {
  const until = Math.min(bytes.length, from + ENTITY_CHARS_MAX)
  for (let at = from; at < until; at++) if (bytes[at] === 0x3b) return at
  return -1
}

function entityOf(bytes: Uint8Array, from: number, end: number): number | undefined {
  const name = latin1Of(bytes, from, end)
  if (!name.startsWith('#')) return ENTITIES.get(name)
  const isHex = /^#[xX][\da-fA-F]+$/.test(name)
  if (!isHex && !/^#\d+$/.test(name)) return undefined
  const codePoint = isHex ? Number.parseInt(name.slice(2), 16) : Number.parseInt(name.slice(1), 10)
  return codePoint <= 0x10ffff ? codePoint : undefined
}

function latin1Of(bytes: Uint8Array, from: number, end: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + from, end - from).toString('latin1')
}

/** The number that so many digits write, or -1. */
function hexAt(bytes: Uint8Array, at: number, digits: number): number {
  let value = 0
  for (let i = at; i < at + digits; i++) {
    const digit = HEX[bytes[i] ?? 0] ?? -1
    if (digit < 0) return -1
    value = value * 16 + digit
  }
  return value
}

/** Four bytes in hexadecimal with something between them, or base64 that goes on in the next line. */
const IS_DUMP =
  /[\da-fA-F]{2}(?:[ :][\da-fA-F]{2}){3}|(?<=[A-Za-z\d/-]{8}[ \t]{0,8})\n[ \t]{0,8}[A-Za-z\d/-]/

/**
 * A view in which dumped bytes and lines of base64 stand side by side; undefined where it would be the same.
 */
export function joined(view: View): View | undefined {
  const { bytes, starts } = view
  if (!IS_DUMP.test(latin1Of(bytes, 0, bytes.length))) return undefined
  const out = new Uint8Array(bytes.length)
  const [outStarts, outEnds] = [new Uint32Array(bytes.length + 1), new Uint32Array(bytes.length)]
  let length = 0
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0
    if (byte === 0x20 || byte === 0x3a || byte === LF || byte === 0x09) continue
    out[length] = byte
    outStarts[length] = starts?.[at] ?? at
    outEnds[length++] = starts?.[at + 1] ?? at + 1
  }
  return { bytes: out.subarray(0, length), starts: outStarts, ends: outEnds }
}
