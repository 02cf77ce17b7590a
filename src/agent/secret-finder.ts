// Finds secrets in texts, however they were written. Made from secrets of any kind and number in linear time; what
// servers send decides nothing but which bytes are looked for.
import { type Needle, NeedleIndex } from './needle-index.ts'
import { cuttableSpellingsOf, SECRET_CHARS_MIN, spellingsOf } from './secret-spellings.ts'
import { decoded, folded, hasEscapes, joined, type View } from './text-views.ts'

/** Of a longer secret so much is looked for; where that stands, all goes to the end of the word. UTF-16 units. */
export const SECRET_CHARS_MAX = 65_536

/** More secrets of one run than these are not searched one by one: all of its texts go. */
export const SECRET_VALUES_MAX = 5_000

/** Where something stands that must go. */
export interface Span {
  from: number
  to: number
}

export interface FinderOptions {
  /** Within base64 of UTF-16, too. */
  isUtf16?: boolean
}

/** Texts from this length on may have been cut to it, through the middle of a secret. Bytes. */
const CUT_TEXT_BYTES_MIN = 100
/** Shorter parts of a secret begin or end a text by chance. */
const CUT_SECRET_BYTES_MIN = 4
/** Where dumped bytes are joined, shorter spellings are found by chance. */
const JOINED_BYTES_MIN = 10
/** An escape of which the end was cut off. */
const CUT_ESCAPE = /(?:%(?:25)*[\da-fA-F]?|\\+(?:u[\da-fA-F]{0,3})?|&[#\w]{0,6})$/

export class SecretFinder {
  readonly #secrets: readonly string[]
  readonly #index: NeedleIndex
  // Most texts are short: made when the first one comes that may be cut.
  #beginnings: NeedleIndex | undefined
  #ends: NeedleIndex | undefined

  /** Secrets of less than SECRET_CHARS_MIN are left out: they stand everywhere. */
  constructor(secrets: Iterable<string>, { isUtf16 = false }: FinderOptions = {}) {
    this.#secrets = [...new Set(secrets)].filter(({ length }) => length >= SECRET_CHARS_MIN)
    this.#index = new NeedleIndex(this.#needles((secret) => spellingsOf(secret, isUtf16)))
  }

  /** What must go of the text, in order and apart from each other. */
  spans(bytes: Uint8Array): Span[] {
    if (this.#secrets.length === 0) return []
    const views = viewsOf(bytes)
    const spans: Span[] = []
    for (const view of views) this.#search(bytes, view, 0, spans)
    const last = views.at(-1)
    const dump = last === undefined ? undefined : joined(last)
    if (dump !== undefined) this.#search(bytes, dump, JOINED_BYTES_MIN, spans)
    return mergedSpans(spans)
  }

  /** The same, and parts of a secret with which a text begins or ends that may have been cut. */
  spansOfCut(bytes: Uint8Array): Span[] {
    const spans = this.spans(bytes)
    if (bytes.length < CUT_TEXT_BYTES_MIN || this.#secrets.length === 0) return spans
    const needles = () => this.#needles(cuttableSpellingsOf)
    this.#beginnings ??= new NeedleIndex(needles())
    this.#ends ??= new NeedleIndex(needles().map(reversed))
    const tail = Buffer.from(bytes.subarray(-16)).toString('latin1')
    const end = bytes.length - (CUT_ESCAPE.exec(tail)?.[0].length ?? 0)
    for (const view of viewsOf(bytes.subarray(0, end))) {
      const from = this.#beginnings.beginningAtEnd(view.bytes, CUT_SECRET_BYTES_MIN)
      if (from >= 0) spans.push({ from: startOf(view, from), to: bytes.length })
      const head = view.bytes.subarray(0, this.#ends.longestBytes).toReversed()
      const to = head.length - this.#ends.beginningAtEnd(head, CUT_SECRET_BYTES_MIN)
      if (to <= head.length) spans.push({ from: 0, to: endOf(view, to) })
    }
    return mergedSpans(spans)
  }

  #needles(spell: (secret: string) => Needle[]): Needle[] {
    return this.#secrets.flatMap((secret) => {
      if (secret.length <= SECRET_CHARS_MAX) return spell(secret)
      const needles = spell(secret.slice(0, SECRET_CHARS_MAX))
      return needles.map((one) => Object.assign(one, { isOpenEnded: true }))
    })
  }

  #search(bytes: Uint8Array, view: View, bytesMin: number, spans: Span[]): void {
    const report = (from: number, to: number, { isOpenEnded = false }: Needle) => {
      const end = endOf(view, to)
      spans.push({ from: startOf(view, from), to: isOpenEnded ? endOfWord(bytes, end) : end })
    }
    this.#index.search(view.bytes, report, bytesMin)
  }
}

/** Without escapes the text is one view; else as it is, since an escape may only seem to be one, and decoded. */
function viewsOf(bytes: Uint8Array): View[] {
  const plain = { bytes: folded(bytes), starts: undefined }
  return hasEscapes(bytes) ? [plain, ...decoded(bytes)] : [plain]
}

function startOf({ starts }: View, at: number): number {
  return starts?.[at] ?? at
}

function endOf({ starts, ends }: View, end: number): number {
  return ends?.[end - 1] ?? starts?.[end] ?? end
}

function reversed({ prefix, whole }: Needle): Needle {
  // The end of a long one, as far as a beginning is looked at.
  const bytes = whole?.().subarray(-prefix.length) ?? prefix
  return { prefix: bytes.toReversed(), whole: undefined }
}

/** A word ends where white space, a quote or a tag begins. */
const WORD_ENDS = new Set(Buffer.from(' \t\r\n"\'`<>\\'))

function endOfWord(bytes: Uint8Array, at: number): number {
  let end = at
  while (end < bytes.length && !WORD_ENDS.has(bytes[end] ?? 0)) end++
  return end
}

/** In order, and what overlaps as one. */
export function mergedSpans(spans: Iterable<Span>): Span[] {
  const all: Span[] = []
  for (const span of [...spans].sort((a, b) => a.from - b.from)) {
    const last = all.at(-1)
    if (last === undefined || span.from >= last.to) all.push({ ...span })
    else last.to = Math.max(last.to, span.to)
  }
  return all
}
