// Parts of secrets that are left next to an ellipsis, where a text was cut through the middle of one.
import { PLAIN_WORD } from '../../contract/definition-secrets.ts'
import { CUT_BYTES_MIN } from './needle-index.ts'
import type { Ends, Finder, Span } from './secret-finder.ts'

/**
 * What may stand between an ellipsis and what was cut: a quote, also of HTML and escaped for JSON, or a control sequence
 * of a terminal.
 */
const BETWEEN = String.raw`(?:\\{0,4}["'\x60]|\xE2\x80[\x98-\x9F]|&(?:quot|apos|#\d\d|#x\d\d);|(?:\x1B|\\{1,4}(?:u001[bB]|x1[bB]|033))\[[ -?]{0,28}[@-~])`
/** What is left of a character that was cut in two. */
const HALF = String.raw`\xEF\xBF\xBD`
// No repetition is unbounded, so that a search takes linear time.
const BEFORE = new RegExp(`(?:${HALF}){0,3}${BETWEEN}{0,8}$`)
const AFTER = new RegExp(`${BETWEEN}{0,8}`, 'y')
const BEFORE_BYTES_MAX = 64
/** The search of a part has a fixed cost, and a text may consist of ellipses. */
const MARKS_MAX = 500

/** An ellipsis of UTF-8, JSON or HTML, one after bytes as Node.js shows them (`5a 71 ... 9 more bytes`), or these dots. */
const marks = (dots: string) =>
  new RegExp(
    String.raw`\xE2\x80\xA6|\\{1,4}u2026|&hellip;|&#(?:8230|x2026);| \.{3}(?= \d+ more byte)|${dots}`,
    'g',
  )

/** Marks of cuts in a text; its end is one after half of a character. */
export const TEXT_MARKS = marks(String.raw`\.{3,9}|${HALF}$`)
/** The same in a file: only dots that are no syntax of JavaScript. */
export const FILE_MARKS = marks(String.raw`(?<=[^\s([{,:=.])\.{3}(?!\.)|\.{3}(?=${BETWEEN})`)
/**
 * What marks begin with. Most texts have none of these, and an expression for each of them would cost more than the search.
 */
const BEGINNINGS = ['...', '\xE2\x80\xA6', '\\u2026', '&hel', '&#82', '&#x2']

/** How to look for parts of secrets. */
export interface PartOptions {
  marks: RegExp
  /** How far from a mark a part may reach. */
  reach?: number
}

/** Where parts of secrets stand next to marks of cuts. `text`: the bytes as Latin-1. */
export function* partSpans(
  finder: Finder,
  bytes: Buffer,
  text: string,
  options: PartOptions,
): Generator<Span> {
  for (const { from, to, ...ends } of piecesOf(text, options)) {
    // No part is as short.
    if (to - from < CUT_BYTES_MIN) continue
    for (const part of finder.spans(bytes.subarray(from, to), ends)) {
      const span = { from: from + part.from, to: from + Math.min(part.to, to - from) }
      // `Starting Server...` says nothing of a secret that begins so.
      if (!PLAIN_WORD.test(text.slice(span.from, span.to))) yield span
    }
  }
}

/** What stands next to marks, and which of its ends were cut. */
function* piecesOf(
  text: string,
  { marks: pattern, reach = Infinity }: PartOptions,
): Generator<Span & Ends> {
  if (!text.endsWith('\xEF\xBF\xBD') && !BEGINNINGS.some((one) => text.includes(one))) return
  let [from, start, count] = [0, false, 0]
  for (const { 0: mark, index } of text.matchAll(pattern)) {
    if (++count > MARKS_MAX) break
    const before = text.slice(Math.max(from, index - BEFORE_BYTES_MAX), index)
    const to = index - (BEFORE.exec(before)?.[0].length ?? 0)
    yield* piece(from, to, { start, end: true }, reach)
    const next = index + mark.length
    AFTER.lastIndex = next
    from = next + (AFTER.exec(text)?.[0].length ?? 0)
    start = true
  }
  if (from > 0) yield* piece(from, text.length, { start, end: false }, reach)
}

function* piece(from: number, to: number, ends: Ends, reach: number): Generator<Span & Ends> {
  if (ends.start && ends.end && to - from <= reach) yield { from, to, ...ends }
  else {
    if (ends.start) yield { from, to: Math.min(to, from + reach), start: true, end: false }
    if (ends.end) yield { from: Math.max(from, to - reach), to, start: false, end: true }
  }
}
