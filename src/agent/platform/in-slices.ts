// Work on many things in slices, so that ten thousand of them do not block the event loop.
import { setImmediate as nextTurn } from 'node:timers/promises'

/** How long one slice may block the event loop. */
const SLICE_MS = 10

/** Processes each, and yields to the event loop in between. */
export async function inSlices<T>(all: Iterable<T>, each: (one: T) => void): Promise<void> {
  let endsAtMs = performance.now() + SLICE_MS
  for (const one of all) {
    each(one)
    if (performance.now() < endsAtMs) continue
    await nextTurn()
    endsAtMs = performance.now() + SLICE_MS
  }
}
