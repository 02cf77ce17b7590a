// Polls for effects of other processes. The timeout is no statement about the code: it only ends hanging tests,
// also on a busy machine.
import { vi } from 'vitest'

/** Generous timeout for a busy machine. */
const WAIT_MS_MAX = 120_000

/** Resolves with the first answer that is not undefined or false; rejects, with the last one, after `ms`. */
export async function eventually<T>(
  ask: () => Promise<T | undefined | false> | T | undefined | false,
  {
    ms = WAIT_MS_MAX,
    everyMs = 100,
    what = 'what was waited for',
  }: { ms?: number; everyMs?: number; what?: string } = {},
): Promise<T> {
  const deadline = performance.now() + ms
  for (;;) {
    const answer = await ask()
    if (answer !== undefined && answer !== false) return answer
    if (performance.now() > deadline) throw new Error(`${what} did not come within ${ms} ms`)
    await new Promise((resolve) => setTimeout(resolve, everyMs))
  }
}

/** Resolves when the check throws no more; rejects with what it threw last. Fake timers go on meanwhile. */
export function untilHolds<T>(check: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(check, { timeout: WAIT_MS_MAX, interval: 20 })
}
