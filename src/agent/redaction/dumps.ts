// Dumps of bytes in rows, each with where it stands in front and perhaps with its text behind: `xxd`, `hexdump`, `od`,
// `curl --trace`, Go.
import { BREAK, FOUR_BITS } from './digit-runs.ts'
import { Draft, type View } from './text-views.ts'

const [LF = 0, SPACE, TAB] = Buffer.from('\n \t')

/** What comes before the bytes of a row, and the rest of it. */
const ROW = /^([ \t]*(?:0x)?[\da-f]{4,8}(?::| -)?[ \t]+)([\da-f]{2}.*)$/gim

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
    cells: /^(?:[\da-f]{2}[ -]{0,2}){1,16}/i,
    digitsPerByte: 2,
    add(draft, digits, from, to) {
      for (let at = from; at < to; at += 2) draft.add(valueOf(digits, 16, at, at + 2), at, at + 2)
    },
  },
  // Words whose last byte comes first; each goes as a whole.
  {
    cells: /^(?:[\da-f]{2}){2,8}(?: {1,8}(?:[\da-f]{2}){1,8}){0,15}/i,
    digitsPerByte: 2,
    add(draft, digits, from, to) {
      for (let at = to; at > from; at -= 2) draft.add(valueOf(digits, 16, at - 2, at), from, to)
    },
  },
  // Octal bytes, and such words.
  {
    cells: /^(?:[0-7]{3}){1,2}(?: {1,2}(?:[0-7]{3}){1,2}){0,15}/,
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

/** The dumps that a view may hold, one for each form that fits. */
export function dumpsIn(view: View): Dump[] {
  const { bytes } = view
  if (!mayHaveRows(bytes)) return []
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')
  const drafts = new Map<Form, Draft>()
  const ends: number[] = []
  for (const { 0: row, 1: front = '', 2: rest = '', index } of text.matchAll(ROW)) {
    for (const form of FORMS) {
      const cells = form.cells.exec(rest)?.[0]
      if (cells === undefined) continue
      const draft = drafts.get(form) ?? new Draft(view)
      drafts.set(form, draft)
      const from = index + front.length
      addCells(draft, form, bytes, from, from + cells.length)
    }
    ends.push(view.end(index + row.length - 1))
  }
  const rowEnd = (place: number) => firstFrom(ends, place)
  return Array.from(drafts.values(), (draft) => ({ bytes: draft.view(), rowEnd }))
}

function addCells(draft: Draft, form: Form, bytes: Uint8Array, from: number, to: number): void {
  let rest = ROW_BYTES_MAX
  for (let at = from; at < to && rest > 0; at++) {
    const begin = at
    while (at < to && isDigit(bytes, at)) at++
    if (at > begin) form.add(draft, bytes, begin, at)
    rest -= (at - begin) / form.digitsPerByte
  }
}

function valueOf(digits: Uint8Array, radix: number, from: number, to: number): number {
  let value = 0
  for (let at = from; at < to; at++) value = value * radix + (FOUR_BITS[digits[at] ?? 0] as number)
  return value
}

/** Whether two lines begin with digits; most texts need no expression for that. */
function mayHaveRows(bytes: Uint8Array): boolean {
  let rows = 0
  for (let line = 0; ;) {
    let at = line
    while (bytes[at] === SPACE || bytes[at] === TAB) at++
    // `0x` or a digit, and one behind it.
    if (isDigit(bytes, at) && isDigit(bytes, at + 2) && isDigit(bytes, at + 3)) rows++
    line = bytes.indexOf(LF, at) + 1
    if (rows === 2 || line === 0) return rows === 2
  }
}

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
