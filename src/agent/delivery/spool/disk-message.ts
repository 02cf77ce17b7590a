// Why a disk did not take a file, in words that follow upon its size.

const FULL = new Set(['ENOSPC', 'EDQUOT'])

/** Words like `the disk is full`. */
export function diskMessage(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  if (isDiskFull(error)) return 'the disk is full'
  return `it could not be kept on disk (${code ?? message})`
}

/** Whether there was no room for it, or none that its user may take. */
export function isDiskFull(error: unknown): boolean {
  return FULL.has((error as NodeJS.ErrnoException).code ?? '')
}
