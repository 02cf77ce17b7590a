// Why a disk did not accept a file, as the end of a sentence.

const FULL = new Set(['ENOSPC', 'EDQUOT'])

/** Text like `the disk is full`. */
export function diskMessage(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  if (isDiskFull(error)) return 'the disk is full'
  return `it could not be kept on disk (${code ?? message})`
}

/** Whether the disk, or the user's quota, is full. */
export function isDiskFull(error: unknown): boolean {
  return FULL.has((error as NodeJS.ErrnoException).code ?? '')
}
