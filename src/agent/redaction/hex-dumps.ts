// Dumps of bytes in rows, each with where it stands in front and with its text behind: `xxd`, `hexdump -C`,
// `curl --trace`, Go.
import { BREAK, FOUR_BITS } from './digit-runs.ts'
import { Draft, type View } from './text-views.ts'

const [LF = 0, SPACE, TAB] = Buffer.from('\n \t')

/** Bytes of a row, as the first group. */
const ROW = /^[ \t]*(?:0x)?[\da-f]{4,8}(?::| -)?[ \t]+((?:[\da-f]{2}[ -]{0,2}){1,16}).*$/dgim

/** The bytes of all rows as digits, and where the row of a place in the original ends. */
export interface HexDump {
  digits: View
  rowEnd(place: number): number
}

/** The dump that a view holds; undefined where there are no two rows. */
export function hexDumpIn(view: View): HexDump | undefined {
  if (!mayHaveRows(view.bytes)) return undefined
  const text = Buffer.from(view.bytes.buffer, view.bytes.byteOffset, view.bytes.length)
  const rows = [...text.toString('latin1').matchAll(ROW)]
  if (rows.length < 2) return undefined
  const draft = new Draft(view)
  const ends: number[] = []
  for (const { indices } of rows) {
    const [[, end = 0] = [], [from = 0, to = 0] = []] = indices ?? []
    draft.copy(from, to)
    ends.push(view.end(end - 1))
  }
  return { digits: draft.view(), rowEnd: (place) => firstFrom(ends, place) }
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
