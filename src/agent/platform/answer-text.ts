// Parses the JSON of an answer with up to ten thousand monitors without blocking the event loop: monitors in a
// row are parsed one by one.
import { inSlices } from './in-slices.ts'

/** Shorter ones are parsed at once. */
const SLICED_BYTES_MIN = 64 * 1024
// Inside a JSON string a quote has a backslash before it, so that none of these can stand there.
const FIRST = '"set":[{"monitor":'
const NEXT = ',{"monitor":'
const END = ']}'

/** The parsed value; rejects with a SyntaxError when the text is not JSON. */
export async function parseAnswer(text: Buffer): Promise<unknown> {
  const sliced = text.length < SLICED_BYTES_MIN ? undefined : await parseSliced(text)
  return sliced ?? (JSON.parse(text.toString()) as unknown)
}

/** Undefined when the text is not divided as expected; it may still be valid. */
async function parseSliced(text: Buffer): Promise<unknown> {
  const first = text.indexOf(FIRST)
  const end = text.lastIndexOf(END)
  if (first < 0 || end < first) return undefined
  const begin = first + FIRST.indexOf('{')
  const set: unknown[] = []
  try {
    // The text around the entries, with a mark in their place, shows whether this is their position.
    const around = JSON.parse(
      `${text.toString('utf8', 0, begin)}null${text.toString('utf8', end)}`,
    ) as { changes?: { set?: unknown } | null }
    const { changes } = around
    const marked = changes?.set
    if (!Array.isArray(marked) || marked.length !== 1 || marked[0] !== null) return undefined
    await inSlices(spans(text, begin, end), ([from, to]) => {
      set.push(JSON.parse(text.toString('utf8', from, to)))
    })
    return { ...around, changes: { ...changes, set } }
  } catch {
    return undefined
  }
}

function* spans(text: Buffer, begin: number, end: number): Generator<[from: number, to: number]> {
  let from = begin
  while (from < end) {
    const next = text.indexOf(NEXT, from)
    const to = next < 0 || next > end ? end : next
    yield [from, to]
    from = to + 1
  }
}
