// Texts in colours of a terminal: what stands there without one colour.
import { controlSequences, Draft, hasByte, type View } from './text-views.ts'

const ESC = 0x1b
const [LETTER_M] = Buffer.from('m')

/** Red and green, in which diffs of tests show both texts in one, character by character. */
export const DIFF_COLOURS = [1, 2]

/** The view without control sequences, and without what stands in the colour of this number; undefined where nothing does. */
export function withoutColour(view: View, colour: number): View | undefined {
  const { bytes } = view
  if (!hasByte(bytes, ESC)) return undefined
  const draft = new Draft(view)
  let isColoured = false
  let [from, current] = [0, NO_COLOUR]
  const pass = (to: number) => {
    if (current !== colour) draft.copy(from, to)
    else if (to > from) isColoured = true
  }
  for (const { from: start, to } of controlSequences(bytes)) {
    pass(start)
    const last = to - 1
    if (bytes[last] === LETTER_M) current = colourAfter(bytes.subarray(start + 2, last), current)
    from = to
  }
  pass(bytes.length)
  return isColoured ? draft.view() : undefined
}

const NO_COLOUR = -1

/** The colour of a text after the parameters of a sequence (ECMA-48, 8.3.117), which may set others, such as bold. */
function colourAfter(parameters: Uint8Array, before: number): number {
  let colour = before
  for (const one of Buffer.from(parameters).toString('latin1').split(';')) {
    const number = Number(one)
    if (number === 0 || number === 39) colour = NO_COLOUR
    // One of many colours, whose own numbers follow.
    if (number === 38) return NO_COLOUR
    const isColour = (number >= 30 && number <= 37) || (number >= 90 && number <= 97)
    if (isColour) colour = number % 10
  }
  return colour
}
