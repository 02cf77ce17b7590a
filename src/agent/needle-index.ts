// Finds many byte strings (needles) in a text in one pass: a filter on the first bytes, then a binary search in
// the sorted needles. Set-up is linear but for sorting; a search takes a bounded number of steps for each byte.

/** A needle that is longer than its prefix is compared as a whole where the prefix is found. */
export interface Needle {
  prefix: Uint8Array
  /** Makes the whole; undefined where `prefix` is it. */
  whole: (() => Uint8Array) | undefined
  /** It goes on to the end of its word: its own end is not known. */
  isOpenEnded?: boolean
}

/** Bytes of the shortest needle, at most, that are looked at before anything else. */
const WINDOW_BYTES_MAX = 4
/** The golden ratio of 2^32: spreads keys over the upper bits. */
const MULTIPLIER = 0x9e3779b1
const FILTER_BITS_MIN = 1 << 12
const FILTER_BITS_MAX = 1 << 22
/** Bits of the filter for each needle: about one position of sixteen passes it by chance. */
const FILTER_BITS_PER_NEEDLE = 16

export class NeedleIndex {
  readonly #needles: readonly Needle[]
  /** All prefixes in one array, in sorted order. */
  readonly #bytes: Uint8Array
  /** Where each begins; one more than there are. */
  readonly #starts: Uint32Array
  /** The longest other prefix that the prefix begins with, or -1. */
  readonly #parents: Int32Array
  readonly #windowBytes: number
  /** Bytes of the longest prefix. */
  readonly longestBytes: number
  readonly #filter: Uint32Array
  readonly #filterShift: number

  constructor(given: readonly Needle[]) {
    const needles = given.filter(({ prefix }) => prefix.length > 0)
    const lengths = needles.map(({ prefix }) => prefix.length)
    this.#windowBytes = lengths.reduce((least, one) => Math.min(least, one), WINDOW_BYTES_MAX)
    this.longestBytes = lengths.reduce((most, one) => Math.max(most, one), 0)
    this.#needles = sorted(needles)
    this.#starts = new Uint32Array(needles.length + 1)
    let length = 0
    for (const [at, { prefix }] of this.#needles.entries()) {
      this.#starts[at] = length
      length += prefix.length
    }
    this.#starts[needles.length] = length
    this.#bytes = new Uint8Array(length)
    for (const [at, { prefix }] of this.#needles.entries()) {
      this.#bytes.set(prefix, this.#starts[at])
    }
    this.#parents = this.#findParents()
    let bits = FILTER_BITS_MIN
    while (bits < needles.length * FILTER_BITS_PER_NEEDLE && bits < FILTER_BITS_MAX) bits *= 2
    this.#filter = new Uint32Array(bits / 32)
    this.#filterShift = 32 - Math.log2(bits)
    for (const { prefix } of this.#needles) this.#addToFilter(prefix)
  }

  /**
   * Reports what is found as [from, to), from left to right; of needles that begin at one byte the longest.
   * Needles that overlap are all found, but for those that begin within the middle of one longer than its prefix.
   */
  search(
    text: Uint8Array,
    report: (from: number, to: number, needle: Needle) => void,
    bytesMin = 0,
  ): void {
    if (this.#needles.length === 0) return
    // Locals: this loop sees every byte of every text.
    const [windowBytes, filter, shift] = [this.#windowBytes, this.#filter, this.#filterShift]
    const mask = windowBytes === WINDOW_BYTES_MAX ? -1 : (1 << (8 * windowBytes)) - 1
    let key = 0
    for (let end = 0; end < text.length; end++) {
      key = ((key << 8) | (text[end] ?? 0)) & mask
      const hash = Math.imul(key, MULTIPLIER) >>> shift
      if ((((filter[hash >>> 5] ?? 0) >>> (hash & 31)) & 1) === 0) continue
      const at = end + 1 - windowBytes
      const found = at < 0 ? undefined : this.#longestAt(text, at)
      if (found === undefined || found.to - at < bytesMin) continue
      report(at, found.to, found.needle)
      // Of a long one, its end is looked at again: what begins there may go beyond it.
      const next = found.to - found.needle.prefix.length
      if (found.needle.whole === undefined || next <= at) continue
      end = next - 1
      key = 0
      for (let i = 1; i < windowBytes; i++) key = (key << 8) | (text[++end] ?? 0)
    }
  }

  /** Where the beginning of a needle begins that the text ends with, at least `bytesMin`; -1: nowhere. */
  beginningAtEnd(text: Uint8Array, bytesMin: number): number {
    const last = text.length - Math.max(bytesMin, this.#windowBytes)
    for (let at = Math.max(0, text.length - this.longestBytes); at <= last; at++) {
      if (!this.#passes(text, at)) continue
      const place = this.#firstAfter(text, at)
      const from = this.#starts[place] ?? 0
      const length = this.#lengthOf(place)
      if (length > text.length - at && this.#agreeing(text, at, from, length) === text.length - at)
        return at
    }
    return -1
  }

  #lengthOf(place: number): number {
    return (this.#starts[place + 1] ?? 0) - (this.#starts[place] ?? 0)
  }

  #passes(text: Uint8Array, at: number): boolean {
    const hash = hashOf(text, at, this.#windowBytes) >>> this.#filterShift
    return (((this.#filter[hash >>> 5] ?? 0) >>> (hash & 31)) & 1) === 1
  }

  #addToFilter(prefix: Uint8Array): void {
    const hash = hashOf(prefix, 0, this.#windowBytes) >>> this.#filterShift
    this.#filter[hash >>> 5] = (this.#filter[hash >>> 5] ?? 0) | (1 << (hash & 31))
  }

  /** The longest needle that the text has at `at`, and where it ends. */
  #longestAt(text: Uint8Array, at: number): { needle: Needle; to: number } | undefined {
    let place = this.#firstAfter(text, at) - 1
    if (place < 0) return undefined
    const length = this.#lengthOf(place)
    const agreeing = this.#agreeing(text, at, this.#starts[place] ?? 0, length)
    while (place >= 0 && this.#lengthOf(place) > agreeing) place = this.#parents[place] ?? -1
    const needle = this.#needles[place]
    if (needle === undefined) return undefined
    return this.#longestOfEqual(text, at, place, needle)
  }

  /** Needles that share a prefix stand side by side; `place` is the last of them. */
  #longestOfEqual(
    text: Uint8Array,
    at: number,
    place: number,
    needle: Needle,
  ): { needle: Needle; to: number } {
    const length = this.#lengthOf(place)
    let best = { needle, to: at + length }
    for (let same = place; this.#lengthOf(same) === length; same = this.#parents[same] ?? -1) {
      const one = this.#needles[same]
      const whole = one?.whole?.()
      if (one === undefined || whole === undefined) continue
      let to = at + length
      while (to < text.length && to - at < whole.length && text[to] === whole[to - at]) to++
      if (to > best.to || best.needle.whole === undefined) best = { needle: one, to }
    }
    return best
  }

  /** The first needle that is greater than the text from `at` on; what the text begins with is not. */
  #firstAfter(text: Uint8Array, at: number): number {
    let low = 0
    let high = this.#needles.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.#isAfter(middle, text, at)) high = middle
      else low = middle + 1
    }
    return low
  }

  #isAfter(place: number, text: Uint8Array, at: number): boolean {
    const from = this.#starts[place] ?? 0
    const length = this.#lengthOf(place)
    const agreeing = this.#agreeing(text, at, from, length)
    if (agreeing === length) return false
    if (at + agreeing === text.length) return true
    return (this.#bytes[from + agreeing] ?? 0) > (text[at + agreeing] ?? 0)
  }

  /** How many bytes are the same. */
  #agreeing(text: Uint8Array, at: number, from: number, length: number): number {
    const bytes = this.#bytes
    const max = Math.min(length, text.length - at)
    let agreeing = 0
    while (agreeing < max && bytes[from + agreeing] === text[at + agreeing]) agreeing++
    return agreeing
  }

  #findParents(): Int32Array {
    const parents = new Int32Array(this.#needles.length).fill(-1)
    for (let place = 1; place < parents.length; place++) {
      const from = this.#starts[place] ?? 0
      const end = this.#starts[place + 1] ?? 0
      const prefix = this.#bytes.subarray(from, end)
      let parent = place - 1
      for (; parent >= 0; parent = parents[parent] ?? -1) {
        const length = this.#lengthOf(parent)
        if (this.#agreeing(prefix, 0, this.#starts[parent] ?? 0, length) === length) break
      }
      parents[place] = parent
    }
    return parents
  }
}

/** A multiplicative hash of the bytes of the window; the upper bits are the good ones. */
function hashOf(bytes: Uint8Array, at: number, windowBytes: number): number {
  let key = 0
  for (let i = 0; i < windowBytes; i++) key = (key << 8) | (bytes[at + i] ?? 0)
  return Math.imul(key, MULTIPLIER)
}

/** By their bytes. The first ones as numbers, which are sorted without calls; then those that share them. */
function sorted(needles: readonly Needle[]): Needle[] {
  const keys = new Float64Array(needles.length)
  const places = 2 ** 21
  for (const [at, { prefix }] of needles.entries()) {
    let key = 0
    for (let i = 0; i < 4; i++) key = key * 256 + (prefix[i] ?? 0)
    keys[at] = key * places + at
  }
  keys.sort()
  const order = Array.from(keys, (key) => needles[key % places] as Needle)
  for (let from = 0; from < order.length;) {
    const key = Math.floor((keys[from] ?? 0) / places)
    let to = from + 1
    while (to < order.length && Math.floor((keys[to] ?? 0) / places) === key) to++
    if (to - from > 1) {
      const group = order.slice(from, to).sort((a, b) => Buffer.compare(a.prefix, b.prefix))
      for (const [at, needle] of group.entries()) order[from + at] = needle
    }
    from = to
  }
  return order
}
