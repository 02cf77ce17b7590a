// Work on many things in slices, so that ten thousand of them hold nothing else up.
import { setImmediate as nextTurn } from 'node:timers/promises'

/** How long one slice may hold up everything else. */
const SLICE_MS = 10

/** Does something with each, and lets others have their turn in between. */
export async function inSlices<T>(all: Iterable<T>, each: (one: T) => void): Promise<void> {
  let endsAtMs = performance.now() + SLICE_MS
  for (const one of all) {
    each(one)
    if (performance.now() < endsAtMs) continue
    await nextTurn()
    endsAtMs = performance.now() + SLICE_MS
  }
}
