// Dumps of bytes in rows, each behind its offset, and perhaps with its text behind it: `xxd`, `hexdump`, `od`,
// `curl --trace`, Go.
import { BREAK, FOUR_BITS } from './digit-runs.ts'
import { Draft, type View } from './text-views.ts'

const [LF = 0, SPACE, TAB, PLUS, COLON, ZERO, LETTER_X] = Buffer.from('\n \t+:0x')

const [OFFSET_DIGITS_MIN, OFFSET_DIGITS_MAX] = [4, 8]
/** In a form, a space is a plus. */
const BLANK = String.raw`[ \t+]`
const OFFSET = String.raw`(?:0x)?[\da-f]{${OFFSET_DIGITS_MIN},${OFFSET_DIGITS_MAX}}(?::| -)?${BLANK}+`
/** What comes before the bytes of a row, and the rest of it. */
const ROW = new RegExp(String.raw`^(${BLANK}*${OFFSET})([\da-f]{2}.*)$`, 'i')
/** The same of the first row, which may stand behind the quote or the name of a field. */
const FIRST_ROW = new RegExp(String.raw`^((?:.*?\W)??${OFFSET})([\da-f]{2}.*)$`, 'i')
/** The longest row, of octal bytes, has fewer. */
const ROW_CHARS_MAX = 256
/** What comes before the text of a row. */
const BEFORE_TEXT = /^[ \t+]+([|>]?)/

/** Bytes of a row at most: its text may look like more of them. */
const ROW_BYTES_MAX = 16

/** A form of rows: their cells, each of one or more bytes, and how one of them is added. */
interface Form {
  cells: RegExp
  digitsPerByte: number
  add(draft: Draft, digits: Uint8Array, from: number, to: number): void
}

const FORMS: readonly Form[] = [
  {
    cells: /^(?:[\da-f]{2}[ +-]{0,2}){1,16}/i,
    digitsPerByte: 2,
    add(draft, digits, from, to) {
      for (let at = from; at < to; at += 2) draft.add(valueOf(digits, 16, at, at + 2), at, at + 2)
    },
  },
  // Words whose last byte comes first; each goes as a whole.
  {
    cells: /^(?:[\da-f]{2}){2,8}(?:[ +]{1,8}(?:[\da-f]{2}){1,8}){0,15}/i,
    digitsPerByte: 2,
    add(draft, digits, from, to) {
      for (let at = to; at > from; at -= 2) draft.add(valueOf(digits, 16, at - 2, at), from, to)
    },
  },
  // Octal bytes, and such words.
  {
    cells: /^(?:[0-7]{3}){1,2}(?:[ +]{1,2}(?:[0-7]{3}){1,2}){0,15}/,
    digitsPerByte: 3,
    add(draft, digits, from, to) {
      const value = valueOf(digits, 8, from, to)
      draft.add(value & 0xff, from, to)
      if (to - from === 6) draft.add(value >> 8, from, to)
    },
  },
]

/** The bytes of all rows of a form, and where the row of a place in the original ends. */
export interface Dump {
  bytes: View
  rowEnd: (place: number) => number
}

/** Form → the bytes of its rows so far, and the ends of these. */
type Drafts = Map<Form, { draft: Draft; ends: number[] }>

/** The dumps that a view may hold, one for each form that fits. */
export function dumpsIn(view: View): Dump[] {
  const { bytes } = view
  const drafts: Drafts = new Map()
  let [before, wasRow] = [-1, true]
  for (let line = 0, next = 1; next > 0; before = line, line = next) {
    next = bytes.indexOf(LF, line) + 1
    const isRow = mayBeRow(bytes, line)
    if (isRow && !wasRow) {
      addRow(FIRST_ROW, view, drafts, Math.max(before, line - 1 - ROW_CHARS_MAX), line - 1)
    }
    const end = next === 0 ? bytes.length : next - 1
    if (isRow) addRow(ROW, view, drafts, line, Math.min(end, line + ROW_CHARS_MAX))
    wasRow = isRow
  }
  return Array.from(drafts.values(), ({ draft, ends }) => ({
    bytes: draft.view(),
    rowEnd: (place) => firstFrom(ends, place),
  }))
}

/** Adds the bytes of a row to the drafts of the forms that fit. */
function addRow(pattern: RegExp, view: View, drafts: Drafts, from: number, to: number): void {
  const { bytes } = view
  const text = Buffer.from(bytes.subarray(from, to)).toString('latin1')
  const [, front = '', rest = ''] = pattern.exec(text) ?? []
  for (const form of FORMS) {
    const cells = form.cells.exec(rest)?.[0]
    if (cells === undefined) continue
    const { draft, ends } = drafts.get(form) ?? { draft: new Draft(view), ends: [] }
    drafts.set(form, { draft, ends })
    const start = from + front.length
    const [last, count] = addCells(draft, form, bytes, start, start + cells.length)
    const [blanks, mark = ''] = BEFORE_TEXT.exec(text.slice(last - from)) ?? []
    const end = blanks === undefined ? last : last + blanks.length + count + mark.length
    ends.push(view.end(Math.min(end, to) - 1))
  }
}

/** Adds the bytes of cells, and gives where the last of them ends and how many they are. */
function addCells(
  draft: Draft,
  form: Form,
  bytes: Uint8Array,
  from: number,
  to: number,
): [last: number, count: number] {
  let [last, count] = [from, 0]
  for (let at = from; at < to && count < ROW_BYTES_MAX; at++) {
    const begin = at
    while (at < to && isDigit(bytes, at)) at++
    if (at === begin) continue
    form.add(draft, bytes, begin, at)
    count += (at - begin) / form.digitsPerByte
    last = at
  }
  return [last, count]
}

function valueOf(digits: Uint8Array, radix: number, from: number, to: number): number {
  let value = 0
  for (let at = from; at < to; at++) value = value * radix + (FOUR_BITS[digits[at] ?? 0] as number)
  return value
}

/** Whether a line begins like a row; most need no expression for that. */
function mayBeRow(bytes: Uint8Array, line: number): boolean {
  let at = line
  while (isBlank(bytes[at])) at++
  if (bytes[at] === ZERO && bytes[at + 1] === LETTER_X) at += 2
  const from = at
  while (isDigit(bytes, at) && at - from <= OFFSET_DIGITS_MAX) at++
  const isOffset = at - from >= OFFSET_DIGITS_MIN && at - from <= OFFSET_DIGITS_MAX
  return isOffset && (bytes[at] === COLON || isBlank(bytes[at]))
}

const isBlank = (byte: number | undefined) => byte === SPACE || byte === TAB || byte === PLUS
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
