// Waits for what only another process can bring about, by asking again and again.

/** Resolves with the first answer that is not undefined or false; rejects, with the last one, after `ms`. */
export async function eventually<T>(
  ask: () => Promise<T | undefined | false> | T | undefined | false,
  { ms = 30_000, what = 'what was waited for' }: { ms?: number; what?: string } = {},
): Promise<T> {
  const deadline = performance.now() + ms
  for (;;) {
    const answer = await ask()
    if (answer !== undefined && answer !== false) return answer
    if (performance.now() > deadline) throw new Error(`${what} did not come within ${ms} ms`)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}
