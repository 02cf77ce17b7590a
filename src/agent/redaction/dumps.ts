// Dumps of bytes in rows, each behind its offset, and perhaps with its text behind it: `xxd`, `hexdump -C`,
// `od -t x1`, `curl --trace`, Go.
import { BREAK, FOUR_BITS } from './digit-runs.ts'
import { Draft, hexAt, type View } from './text-views.ts'

const [LF = 0, SPACE, PLUS, COLON] = Buffer.from('\n +:')

const [OFFSET_DIGITS_MIN, OFFSET_DIGITS_MAX] = [4, 8]
/** In a form, a space is a plus. */
const BLANK = '[ +]'
const OFFSET = String.raw`[\da-f]{${OFFSET_DIGITS_MIN},${OFFSET_DIGITS_MAX}}:?${BLANK}+`
/** What comes before the bytes of a row, and the rest of it. */
const ROW = new RegExp(String.raw`^(${BLANK}*${OFFSET})([\da-f]{2}.*)$`, 'is')
/** The same of the first row, which may stand behind the quote or the name of a field. */
const FIRST_ROW = new RegExp(String.raw`^((?:.*?\W)??${OFFSET})([\da-f]{2}.*)$`, 'is')
/** A longer line is no row. */
const ROW_CHARS_MAX = 128
/** What comes before the text of a row. */
const BEFORE_TEXT = /^[ +]+([|>]?)/

/** The bytes of a row, one by one or in groups of two and four. */
const CELLS = /^(?:[\da-f]{2}[ +]{0,2}){1,16}/i

/** The bytes of all rows, and where the row of a place in the original ends. */
export interface Dump {
  bytes: View
  rowEnd: (place: number) => number
}

/** The bytes of rows so far, from the first row on, and the ends of these. */
interface Rows {
  draft?: Draft
  ends: number[]
}

/** The dump that a view may hold; undefined where there is none. */
export function dumpIn(view: View): Dump | undefined {
  const { bytes } = view
  const rows: Rows = { ends: [] }
  let [before, wasRow] = [-1, true]
  for (let line = 0, next = 1; next > 0; before = line, line = next) {
    next = bytes.indexOf(LF, line) + 1
    const isRow = mayBeRow(bytes, line)
    if (isRow && !wasRow) {
      addRow(FIRST_ROW, view, rows, Math.max(before, line - 1 - ROW_CHARS_MAX), line - 1)
    }
    const end = next === 0 ? bytes.length : next - 1
    if (isRow) addRow(ROW, view, rows, line, Math.min(end, line + ROW_CHARS_MAX))
    wasRow = isRow
  }
  const { draft, ends } = rows
  if (draft === undefined) return undefined
  return { bytes: draft.view(), rowEnd: (place) => firstFrom(ends, place) }
}

/** Adds the bytes of a row, if it is one. */
function addRow(pattern: RegExp, view: View, rows: Rows, from: number, to: number): void {
  const { bytes } = view
  const text = Buffer.from(bytes.subarray(from, to)).toString('latin1')
  const [, front = '', rest = ''] = pattern.exec(text) ?? []
  const cells = CELLS.exec(rest)?.[0]
  if (cells === undefined) return
  const start = from + front.length
  const draft = (rows.draft ??= new Draft(view))
  let [last, count] = [start, 0]
  for (let at = start; at < start + cells.length; at++) {
    const byte = hexAt(bytes, at, 2)
    if (byte < 0) continue
    last = at + 2
    draft.add(byte, at, last)
    count++
    at++
  }
  const [blanks, mark = ''] = BEFORE_TEXT.exec(text.slice(last - from)) ?? []
  const end = blanks === undefined ? last : last + blanks.length + count + mark.length
  rows.ends.push(view.end(Math.min(end, to) - 1))
}

/** Whether a line begins like a row; most need no expression for that. */
function mayBeRow(bytes: Uint8Array, line: number): boolean {
  let at = line
  while (isBlank(bytes[at])) at++
  const from = at
  while (isDigit(bytes, at) && at - from <= OFFSET_DIGITS_MAX) at++
  const isOffset = at - from >= OFFSET_DIGITS_MIN && at - from <= OFFSET_DIGITS_MAX
  return isOffset && (bytes[at] === COLON || isBlank(bytes[at]))
}

const isBlank = (byte: number | undefined) => byte === SPACE || byte === PLUS
const isDigit = (bytes: Uint8Array, at: number) => FOUR_BITS[bytes[at] ?? 0] !== BREAK

/** The first of numbers in order that is not below a limit. */
function firstFrom(numbers: readonly number[], limit: number): number {
  let [low, high] = [0, numbers.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((numbers[middle] as number) < limit) low = middle + 1
    else high = middle
  }
  return numbers[low] ?? limit
}
