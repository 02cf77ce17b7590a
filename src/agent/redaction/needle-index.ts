// Index of byte strings: finds the longest one that begins at each position of a text. Building and searching need
// no regular expression, and the work of a search is bounded.

/** Every needle has at least this many bytes: the index begins with their hash. */
export const NEEDLE_BYTES_MIN = 3

/** A longer window gains little, and fills more of the table. */
const WINDOW_BYTES_MAX = 12

/** Shorter parts of a needle stand at the ends of a text by chance. */
export const CUT_BYTES_MIN = 4

/** Bytes that a search may compare, for each byte of the text and at least. */
const WORK_PER_BYTE = 32
const WORK_MIN = 2_000_000

/** Bytes of all needles up to which parts of them are looked for: each search reads all. */
const CONTAINING_BYTES_MAX = 131_072

/** Called with each match; `isPart`: the text ends within the needle. */
export type OnNeedle = (from: number, to: number, isPart: boolean) => void

/** What to look for besides whole needles. */
export interface FindOptions {
  /** Also the beginning of a needle at the end of the text. */
  isCut?: boolean
  /** Bytes of the text, where it does not fill its array. */
  length?: number
}

/** A needle, as bytes in characters of Latin-1. */
export interface Needle {
  bytes: string
  /** The value is longer than the needle: a match ends with the text. */
  isOpen: boolean
}

interface Search {
  text: Uint8Array
  end: number
  isCut: boolean
  onMatch: OnNeedle
}

/** Index over needles; equal ones count once. */
export class NeedleIndex {
  /** Bytes of the shortest and the longest needle; 0 where there is none. */
  readonly shortest: number
  readonly longest: number
  readonly #bytes: Buffer
  /** Needle → where its bytes begin, in the order of their bytes; one more for the end of the last. */
  readonly #starts: Uint32Array
  /** Needle → the longest other needle that it begins with, or -1. */
  readonly #inner: Int32Array
  readonly #open: Uint8Array
  /** Three bytes as a number → their first needle, and the one after their last. */
  readonly #groups = new Map<number, [first: number, end: number]>()
  /** Bytes from the place of a needle on that are looked at together: no needle is shorter. */
  readonly #window: number
  /** Hash of the last three bytes of a window → how far the next one is in which a needle may begin (Wu and Manber). */
  readonly #steps: Uint8Array
  readonly #shift: number

  constructor(needles: Iterable<Needle>) {
    const [sorted, open] = inOrder(needles)
    this.#bytes = Buffer.from(sorted.join(''), 'latin1')
    this.#starts = new Uint32Array(sorted.length + 1)
    let longest = 0
    let shortest = sorted[0]?.length ?? 0
    for (const [at, { length }] of sorted.entries()) {
      this.#starts[at + 1] = (this.#starts[at] as number) + length
      longest = Math.max(longest, length)
      shortest = Math.min(shortest, length)
    }
    this.longest = longest
    this.shortest = shortest
    this.#open = Uint8Array.from(open)
    this.#inner = this.#innerNeedles(sorted)
    const bits = Math.min(17, Math.max(8, Math.ceil(Math.log2(sorted.length * 16 + 1))))
    this.#shift = 32 - bits
    this.#window = Math.min(shortest, WINDOW_BYTES_MAX)
    this.#steps = new Uint8Array(2 ** bits).fill(this.#window - NEEDLE_BYTES_MIN + 1)
    for (let at = 0; at < sorted.length; at++) this.#add(at)
  }

  #add(needle: number): void {
    const start = this.#starts[needle] as number
    const key = keyAt(this.#bytes, start)
    const group = this.#groups.get(key)
    if (group === undefined) this.#groups.set(key, [needle, needle + 1])
    else group[1] = needle + 1
    for (let rest = this.#window - NEEDLE_BYTES_MIN, at = start; rest >= 0; rest--, at++) {
      const hash = hashOf(keyAt(this.#bytes, at), this.#shift)
      this.#steps[hash] = Math.min(this.#steps[hash] as number, rest)
    }
  }

  #innerNeedles(sorted: readonly string[]): Int32Array {
    const inner = new Int32Array(sorted.length)
    const stack: number[] = []
    for (const [at, one] of sorted.entries()) {
      while (stack.length > 0 && !one.startsWith(sorted[stack.at(-1) as number] as string)) {
        stack.pop()
      }
      const outer = stack.at(-1) ?? -1
      inner[at] = outer
      if (outer >= 0 && this.#open[outer] === 1) this.#open[at] = 1
      stack.push(at)
    }
    return inner
  }

  /**
   * Calls `onMatch` with the range of the longest needle at each position that one begins at, from left to right.
   * Throws where the text needs more comparisons than a search may make; the message says nothing about the text.
   */
  find(
    text: Uint8Array,
    onMatch: OnNeedle,
    { isCut = false, length = text.length }: FindOptions = {},
  ): void {
    if (this.longest === 0) return
    const shift = this.#shift
    const steps = this.#steps
    const ahead = this.#window - NEEDLE_BYTES_MIN
    const last = length - this.#window
    // Shorter than a window, only the beginning of a needle is left.
    const end = isCut ? length - NEEDLE_BYTES_MIN : last
    let work = WORK_MIN + WORK_PER_BYTE * length
    for (let at = 0, step = 1; at <= end; at += step) {
      step = at > last ? 0 : (steps[hashOf(keyAt(text, at + ahead), shift)] as number)
      if (step > 0) continue
      step = 1
      const group = this.#groups.get(keyAt(text, at))
      if (group === undefined) continue
      work -= this.#lookUp({ text, end: length, isCut, onMatch }, at, group)
      if (work < 0) throw new Error('the search for secrets exceeds its bound')
    }
  }

  /** Whether bytes are a part of a needle; false where that would take long. */
  contains(bytes: Uint8Array): boolean {
    if (bytes.length > this.longest || this.#bytes.length > CONTAINING_BYTES_MAX) return false
    return this.#bytes.includes(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length))
  }

  /** Binary search among the needles of a group that never compares a byte of the text twice from one side. */
  #lookUp(
    { text, end, isCut, onMatch }: Search,
    at: number,
    [first, none]: readonly [number, number],
  ): number {
    const bytes = this.#bytes
    const starts = this.#starts
    let [low, high] = [first, none]
    if (high - low === 1 && !this.#endsAlike(text, at, end, isCut, low)) return 1
    let lowSame = NEEDLE_BYTES_MIN
    let highSame = NEEDLE_BYTES_MIN
    let work = 1
    while (low < high) {
      const middle = (low + high) >>> 1
      const from = starts[middle] as number
      const length = (starts[middle + 1] as number) - from
      let same = Math.min(lowSame, highSame)
      const begin = same
      while (same < length && at + same < end && bytes[from + same] === text[at + same]) same++
      work += same - begin + 8
      const isBefore =
        same === length ||
        (at + same < end && (bytes[from + same] as number) < (text[at + same] as number))
      if (isBefore) {
        low = middle + 1
        lowSame = same
      } else {
        high = middle
        highSame = same
      }
    }
    let found = low > first ? low - 1 : -1
    while (found >= 0 && (starts[found + 1] as number) - (starts[found] as number) > lowSame) {
      found = this.#inner[found] as number
      work++
    }
    if (found >= 0) {
      const length = (starts[found + 1] as number) - (starts[found] as number)
      onMatch(at, this.#open[found] === 1 ? Infinity : at + length, false)
    }
    if (isCut && high < none && highSame >= CUT_BYTES_MIN && at + highSame === end)
      onMatch(at, end, true)
    return work
  }

  /** Whether a needle that stands there, or begins there, ends as the text does: few of a repeated text do. */
  #endsAlike(text: Uint8Array, at: number, end: number, isCut: boolean, needle: number): boolean {
    const from = this.#starts[needle] as number
    const length = (this.#starts[needle + 1] as number) - from
    if (at + length > end && !isCut) return false
    const last = Math.min(length, end - at) - 1
    return this.#bytes[from + last] === text[at + last]
  }
}

/** The bytes of needles in order, each once, and which of them are open: 1 or 0. */
function inOrder(needles: Iterable<Needle>): [string[], number[]] {
  const all = [...needles].filter(({ bytes }) => bytes.length >= NEEDLE_BYTES_MIN)
  all.sort((a, b) => (a.bytes < b.bytes ? -1 : a.bytes === b.bytes ? 0 : 1))
  const sorted: string[] = []
  const open: number[] = []
  for (const { bytes, isOpen } of all) {
    if (bytes === sorted.at(-1)) open[open.length - 1] ||= Number(isOpen)
    else {
      sorted.push(bytes)
      open.push(Number(isOpen))
    }
  }
  return [sorted, open]
}

/** Three bytes as a number. */
function keyAt(bytes: Uint8Array, at: number): number {
  return (
    ((bytes[at] as number) << 16) | ((bytes[at + 1] as number) << 8) | (bytes[at + 2] as number)
  )
}

/** Multiplicative hashing (Knuth, TAOCP 6.4). */
function hashOf(key: number, shift: number): number {
  return Math.imul(key, 0x9e_37_79_b1) >>> shift
}
