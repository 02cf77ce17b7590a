// Finds secrets in their usual encodings: decodes the text, and searches what comes out for few spellings of each
// secret. No regular expression is made from a secret.
//
// A *view* is a text with the place of each of its bytes in the original, so that what is found in a decoded text can
// be removed from the original. For `pw=%63%7A` it is searched first, then its view `pw=cz` without escapes, then runs
// of base64 and hexadecimal digits in both, decoded; what these contain is searched in the same way, up to DEPTH_MAX.
import type { SecretBounds } from '../../contract/secret-set.ts'
import { ESCAPE_ROUNDS_MAX, needlesOf } from './known-secrets.ts'
import { dumpIn } from './dumps.ts'
import { CUT_BYTES_MIN, type Needle, NeedleIndex } from './needle-index.ts'
import {
  BASE64,
  decodeRun,
  type Digits,
  digitRuns,
  digitsAtEnd,
  HEXADECIMAL,
  isBinary,
  type Run,
  textsIn,
} from './digit-runs.ts'
import {
  mayBeEscaped,
  partOf,
  plainView,
  restsOfEscapes,
  type View,
  withoutEscapes,
} from './text-views.ts'

/** Where something stands that must go. */
export interface Span {
  from: number
  to: number
}

/** In order, and what overlaps as one. */
export function joined(spans: Iterable<Span>): Span[] {
  const all: Span[] = []
  for (const span of [...spans].sort((a, b) => a.from - b.from)) {
    const last = all.at(-1)
    if (last === undefined || span.from >= last.to) all.push({ ...span })
    else last.to = Math.max(last.to, span.to)
  }
  return all
}

/** Shorter parts of secrets stand at the ends of whole texts, or between two cuts, by chance. Bytes. */
export const TEXT_PART_BYTES_MIN = 8

const BACKSLASH = 0x5c
const QUOTE = 0x22
const PERCENT = 0x25
const EQUALS = 0x3d

/** Less ASCII in a row stands in any bytes by chance, and holds nothing that is encoded. */
const TEXT_CHARS_MIN = 6
/** Base64 in base64 in base64. */
const DEPTH_MAX = 2

/** Whether digits may have gone with an escape: `%`, a backslash, or `\\x`, as PostgreSQL begins its hexadecimal. */
const isEscaped = (bytes: Uint8Array, { from, to }: Run) =>
  bytes.subarray(Math.max(0, from - 2), to).some((one) => one === BACKSLASH || one === PERCENT)

/** Which ends of bytes are ends of a text that may have been cut. */
export interface Ends {
  start: boolean
  end: boolean
}

export const NO_ENDS: Ends = { start: false, end: false }

type OnMatch = (from: number, to: number) => void

/** Finds where secrets stand in bytes; a test may put in one that fails. */
export type Finder = Pick<SecretFinder, 'spans'>

/** Finds secrets in bytes of UTF-8, and of whatever else. */
export class SecretFinder {
  readonly #index: NeedleIndex
  readonly #needles: readonly Needle[]
  readonly #lineKeys: ReadonlySet<number>
  /** Rare enough not to be made before it is needed: for texts that begin within a secret. */
  #backwards: NeedleIndex | undefined
  /** Of the search that is under way. */
  #partBytesMin = CUT_BYTES_MIN

  /** Throws TooManySecrets. */
  constructor(secrets: Iterable<string>, bounds?: SecretBounds) {
    this.#needles = needlesOf(secrets, bounds)
    this.#index = new NeedleIndex(this.#needles)
    this.#lineKeys = lineKeysOf(this.#needles)
  }

  /** Bytes of the longest thing that is looked for, once it is decoded. */
  get longest(): number {
    return this.#index.longest
  }

  /**
   * Where secrets stand, in order, without overlaps; at `ends` that are set, the bytes may begin or end with a part of
   * one, of `partBytesMin`. An end beyond the bytes means all that follows. Throws where the search is too costly.
   */
  spans(bytes: Uint8Array, ends = NO_ENDS, partBytesMin = CUT_BYTES_MIN): Span[] {
    if (this.#index.longest === 0) return []
    this.#partBytesMin = partBytesMin
    const found: Span[] = []
    const plain = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length)
    const view = plainView(plain)
    const onMatch: OnMatch = (from, to) => void found.push({ from, to })
    this.#find(view, ends, onMatch)
    if (isBinary(plain)) this.#inTexts(view, 0, onMatch)
    else this.#decoded(view, ends, 0, onMatch)
    return withoutHalfEscapes(plain, joined(found))
  }

  /** Looks into what is text between other bytes. */
  #inTexts(view: View, depth: number, onMatch: OnMatch): void {
    textsIn(view.bytes, view.bytes.length, TEXT_CHARS_MIN, (from, to) =>
      this.#decoded(partOf(view, from, to), NO_ENDS, depth, onMatch),
    )
  }

  #decoded(view: View, ends: Ends, depth: number, onMatch: OnMatch): void {
    let last = view
    for (let round = 0; round < ESCAPE_ROUNDS_MAX && mayBeEscaped(last); round++) {
      const next = withoutEscapes(last, ends.end)
      if (next === undefined) break
      last = next
      this.#find(last, ends, onMatch)
    }
    this.#inDump(last, ends, depth, onMatch)
    for (const digits of [BASE64, HEXADECIMAL]) {
      this.#digits(last, ends, digits, depth, onMatch)
      // What an escape took along stands as it was written only before it was decoded.
      if (last !== view) this.#digits(view, ends, digits, depth, onMatch, isEscaped)
    }
  }

  #inDump(view: View, ends: Ends, depth: number, onMatch: OnMatch): void {
    const dump = dumpIn(view)
    if (dump === undefined) return
    // What stands behind the bytes of a row are these bytes again.
    const onRow: OnMatch = (from, to) => onMatch(from, dump.rowEnd(to))
    this.#find(dump.bytes, ends, onRow, HEXADECIMAL.bytesMin)
    if (depth < DEPTH_MAX) this.#inTexts(dump.bytes, depth + 1, onRow)
  }

  #find(view: View, ends: Ends, onMatch: OnMatch, bytesMin = 1): void {
    const { bytes } = view
    const { length } = bytes
    this.#index.find(
      bytes,
      (from, to, isPart) => {
        if (to - from < (isPart ? Math.max(bytesMin, this.#partBytesMin) : bytesMin)) return
        // A part of an escape at a cut end goes along.
        onMatch(view.start(from), isPart || to > length ? Infinity : view.end(to - 1))
      },
      { isCut: ends.end },
    )
    if (ends.start) this.#findEnd(view, onMatch)
    const mayBeInner = ends.start && ends.end && length >= TEXT_PART_BYTES_MIN
    if (mayBeInner && this.#index.contains(bytes)) onMatch(view.start(0), view.end(length - 1))
  }

  /** The end of a secret with which the view begins, also behind what is left of an escape. */
  #findEnd(view: View, onMatch: OnMatch): void {
    this.#backwards ??= new NeedleIndex(
      this.#needles
        .filter(({ isOpen }) => !isOpen)
        .map(({ bytes }) => ({ bytes: reversed(bytes), isOpen: false })),
    )
    const start = view.bytes.subarray(0, this.#backwards.longest).toReversed()
    for (const rest of restsOfEscapes(view.bytes)) {
      const length = start.length - rest
      this.#backwards.find(
        start,
        (from, to) => {
          if (to === length && to - from >= this.#partBytesMin) {
            onMatch(view.start(0), view.end(start.length - from - 1))
          }
        },
        { isCut: true, length },
      )
    }
  }

  /** `isWanted`: whether to look into a run. */
  #digits(
    view: View,
    ends: Ends,
    digits: Digits,
    depth: number,
    onMatch: OnMatch,
    isWanted: (bytes: Uint8Array, run: Run) => boolean = () => true,
  ): void {
    const { bitsPerDigit, bytesMin } = digits
    const digitsFor = (bytes: number) => Math.ceil((8 * bytes) / bitsPerDigit)
    // Of base64, a line may hold a secret without all of its first and last byte.
    const shortest = this.#index.shortest - (bitsPerDigit === 6 ? 2 : 0)
    const min = digitsFor(Math.max(shortest, bytesMin))
    const { length } = view.bytes
    digitRuns(view.bytes, digits, min, (run) => {
      if (!isWanted(view.bytes, run)) return
      this.#inRun(run, view, endsOfRun(run, view, ends), digits, depth, onMatch)
    })
    // At the ends of a cut text, less than a secret is enough.
    const cutMin = Math.min(min, digitsFor(CUT_BYTES_MIN))
    for (const name of ['start', 'end'] as const) {
      if (!ends[name] || cutMin === min) continue
      const count = digitsAtEnd(view.bytes, digits, name === 'start')
      const part = name === 'start' ? partOf(view, 0, count) : partOf(view, length - count, length)
      digitRuns(part.bytes, digits, cutMin, (run) => {
        const own = endsOfRun(run, part, count === length ? ends : { ...NO_ENDS, [name]: true })
        if (own[name] && run.length < min) this.#inRun(run, part, own, digits, depth, onMatch)
      })
    }
  }

  #inRun(run: Run, view: View, ends: Ends, digits: Digits, depth: number, onMatch: OnMatch): void {
    const { bitsPerDigit, bytesMin } = digits
    if (bitsPerDigit === 6) this.#lines(run, view, onMatch)
    // After so many digits the bytes begin with a digit again.
    const phases = bitsPerDigit === 6 ? 4 : 2
    const target = new Uint8Array(run.length)
    for (let phase = 0; phase < phases; phase++) {
      const length = decodeRun(run, digits, phase, target)
      let decoded: View | undefined
      const look = () =>
        (decoded ??= decodedView(view, run, ends, bitsPerDigit, phase, target.subarray(0, length)))
      if (ends.start || ends.end || this.#isIn(target, length))
        this.#find(look(), ends, onMatch, bytesMin)
      if (depth === DEPTH_MAX) continue
      textsIn(target, length, TEXT_CHARS_MIN, (from, to) => {
        const inner = { start: ends.start && from === 0, end: ends.end && to === length }
        this.#decoded(partOf(look(), from, to), inner, depth + 1, onMatch)
      })
    }
  }

  /** Lines of base64 that begin with a secret or within its first byte: whatever they end with, they go as a whole. */
  #lines({ values, at, length }: Run, view: View, onMatch: OnMatch): void {
    for (let from = 0, to = 0; from < length; from = to) {
      for (to = from + 1; to < length && at[to] === (at[to - 1] as number) + 1;) to++
      if (to - from < LINE_KEY_DIGITS + 2) continue
      // One or two digits hold what is left of the first bytes.
      const isFound = [0, 1, 2].some((rest) => this.#lineKeys.has(lineKey(values, from + rest)))
      if (isFound) onMatch(view.start(at[from] as number), view.end(at[to - 1] as number))
    }
  }

  #isIn(bytes: Uint8Array, length: number): boolean {
    let isFound = false
    this.#index.find(bytes, () => (isFound = true), { length })
    return isFound
  }
}

/**
 * The spans so that they leave no backslash which would escape what stands behind or instead of them, and the quotes
 * at their ends: JSON stays readable. Looks at each backslash twice at most.
 */
function withoutHalfEscapes(bytes: Uint8Array, spans: readonly Span[]): Span[] {
  const isOdd = (end: number, start: number) => {
    let at = end
    while (at > start && bytes[at - 1] === BACKSLASH) at--
    return (end - at) % 2 === 1
  }
  let end = 0
  return spans
    .map((span) => withoutQuotes(bytes, span))
    .map(({ from, to }) => {
      // A backslash that is escaped itself begins none.
      const escape = escapeFrom(bytes, from, end)
      const start = isOdd(from, end) ? from - 1 : isOdd(escape + 1, end) ? escape : from
      const mayEscape = bytes[to] === BACKSLASH || bytes[to] === QUOTE
      end = mayEscape && isOdd(to, start) ? to + 1 : to
      return { from: start, to: end }
    })
}

/** The span without quotes and escaped quotes at its ends: they may end a text in JSON, and reveal nothing. */
function withoutQuotes(bytes: Uint8Array, span: Span): Span {
  let { from, to } = span
  for (let at = from; at < to; at++) {
    if (bytes[at] === QUOTE) from = at + 1
    else if (bytes[at] !== BACKSLASH) break
  }
  while (from < to && bytes[to - 1] === QUOTE) {
    to--
    while (from < to && bytes[to - 1] === BACKSLASH) to--
  }
  return from < to ? { from, to } : span
}

/** Where the escape of four or two digits begins that a span begins in, else `from`. */
function escapeFrom(bytes: Uint8Array, from: number, end: number): number {
  const at = Math.max(end, from - ESCAPE_BYTES_MAX)
  const before = Buffer.from(bytes.subarray(at, from)).toString('latin1')
  const escape = /\\(?:u[\da-f]{0,3}|x[\da-f]?)$/i.exec(before)
  return escape === null ? from : at + escape.index
}

/** Without its last digit: `\u201`. */
const ESCAPE_BYTES_MAX = 5

/** Bytes of a secret by which a line is known, as a number below 2^48. */
const LINE_KEY_BYTES = 6
const LINE_KEY_DIGITS = 8

/** The bytes from the first, second and third one on of each needle that is long enough. */
function lineKeysOf(needles: readonly Needle[]): Set<number> {
  const keys = new Set<number>()
  for (const { bytes } of needles) {
    if (bytes.length < LINE_KEY_BYTES + 2) continue
    const start = Buffer.from(bytes.slice(0, LINE_KEY_BYTES + 2), 'latin1')
    for (const skipped of [0, 1, 2]) keys.add(start.readUIntBE(skipped, LINE_KEY_BYTES))
  }
  return keys
}

function lineKey(digits: Uint8Array, from: number): number {
  let key = 0
  for (let at = from; at < from + LINE_KEY_DIGITS; at++) key = key * 64 + (digits[at] as number)
  return key
}

function reversed(bytes: string): string {
  return Buffer.from(Buffer.from(bytes, 'latin1').toReversed()).toString('latin1')
}

/** Whether nothing follows but what base64 is filled up with. */
function isPadding(bytes: Uint8Array, from: number): boolean {
  if (bytes.length - from > 2) return false
  return bytes.subarray(from).every((byte) => byte === EQUALS)
}

function endsOfRun({ from, to }: Run, { bytes }: View, ends: Ends): Ends {
  return { start: ends.start && from === 0, end: ends.end && isPadding(bytes, to) }
}

/** The bytes that were made from digits, with the way back to these; at cut ends, digits of half a byte go along. */
function decodedView(
  view: View,
  { at, length }: Run,
  ends: Ends,
  bitsPerDigit: number,
  phase: number,
  bytes: Uint8Array,
): View {
  const last = bytes.length - 1
  const digit = (bit: number) => Math.min(length - 1, phase + Math.floor(bit / bitsPerDigit))
  const first = (byte: number) => (ends.start && byte === 0 ? 0 : digit(8 * byte))
  const final = (byte: number) => (ends.end && byte === last ? length - 1 : digit(8 * byte + 7))
  return {
    bytes,
    start: (byte) => view.start(at[first(byte)] as number),
    end: (byte) => view.end(at[final(byte)] as number),
  }
}
