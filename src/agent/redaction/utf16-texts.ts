// Texts in UTF-16 among other bytes: every second byte of what is ASCII in them is zero.
import { Draft, partOf, type View } from './text-views.ts'

/** Other characters may stand between those with a zero. Bytes. */
const WIDE_GAP_BYTES_MAX = 64

/** Calls `onText` for each text in UTF-16, of either order of bytes, with a view of it without its zeros. */
export function wideTexts(view: View, onText: (text: View) => void): void {
  const { bytes } = view
  let [first, last] = [-1, -1]
  const give = () => {
    if (first >= 0) onText(withoutZeros(partOf(view, Math.max(0, first - 2), last + 3)))
  }
  for (let at = zeroOfUtf16(bytes, 0); at >= 0; at = zeroOfUtf16(bytes, at + 1)) {
    if (first < 0 || at - last > WIDE_GAP_BYTES_MAX) {
      give()
      first = at
    }
    last = at
  }
  give()
}

function withoutZeros(view: View): View {
  const { bytes } = view
  const draft = new Draft(view)
  let copied = 0
  for (let at = zeroOfUtf16(bytes, 0); at >= 0; at = zeroOfUtf16(bytes, at + 1)) {
    draft.copy(copied, at)
    copied = at + 1
  }
  draft.copy(copied, bytes.length)
  return draft.view()
}

/** Where the next zero of a text in UTF-16 is; -1 where there is none. */
function zeroOfUtf16(bytes: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(0, from); at >= 0; at = bytes.indexOf(0, at + 1)) {
    if (isOfUtf16(bytes, at)) return at
    while (bytes[at + 1] === 0) at++
  }
  return -1
}

/** Whether bytes and zeros take turns there. */
function isOfUtf16(bytes: Uint8Array, at: number): boolean {
  const isAlone = bytes[at - 1] !== 0 && bytes[at + 1] !== 0
  return isAlone && ((bytes[at - 2] ?? 0) === 0 || (bytes[at + 2] ?? 0) === 0)
}
