// Waits with a deadline for work that cannot be aborted, such as a write to a disk that hangs.

/** The promise's outcome, or a rejection when it takes longer than `ms`. A later outcome is ignored. */
export async function within<T>(promise: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`the disk took longer than ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
