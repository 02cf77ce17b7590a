// Repetition of statements that change a limited number of rows, so that none holds locks for long.

/** Repeats `work`, which answers with how much it did, while that is as much as it may do at once. */
export async function untilDone(
  atOnceMax: number,
  signal: AbortSignal,
  work: () => Promise<number>,
): Promise<void> {
  let done = atOnceMax
  while (done === atOnceMax && !signal.aborted) done = await work()
}
