// Problem of an agent's data folder, from the system's error, with its fix.

/** Of the table of failure codes: nothing can be written below DATA_DIR. */
export const DATA_DIR_CODE = 'DATA_DIR_UNWRITABLE'

const OWNER = 'give the folder to this user (chown -R), or run as a user of group 0 in a container'
const ROOM = 'free some space, or use a larger volume'
const NO_FOLDER: [why: string, fix: string] = ['it is not a folder', 'set DATA_DIR to a folder']
const PROBLEMS: Readonly<Record<string, [why: string, fix: string]>> = {
  EACCES: ['it belongs to another user', OWNER],
  EPERM: ['it belongs to another user', OWNER],
  EROFS: [
    'it is read-only',
    'mount a volume there, or set DATA_DIR to a folder that can be written',
  ],
  ENOSPC: ['the disk is full', ROOM],
  EDQUOT: ['the quota of this user is exhausted', ROOM],
  ENOTDIR: NO_FOLDER,
  EEXIST: NO_FOLDER,
  EIO: ['the disk has errors', 'check the system log'],
}

/** Calls whose ENOENT means that no folder can be created there, as below /proc; for others a file is missing. */
const MAKING: ReadonlySet<string | undefined> = new Set(['mkdir', 'mkdtemp'])
const NOT_MADE: [why: string, fix: string] = [
  'a folder cannot be created there',
  'set DATA_DIR to a folder that can be written',
]

/** What keeps a folder from being written to, and the fix; undefined for errors of another kind. */
export function writeProblem(error: unknown): { why: string; fix: string } | undefined {
  const { code = '', syscall } = (error ?? {}) as NodeJS.ErrnoException
  const known = code === 'ENOENT' && MAKING.has(syscall) ? NOT_MADE : PROBLEMS[code]
  return known && { why: `${known[0]} (${code})`, fix: known[1] }
}

/** A sentence with the fix; undefined for errors of another kind. */
export function diskProblem(error: unknown, folder: string): string | undefined {
  const problem = writeProblem(error)
  if (problem === undefined) return undefined
  const { why, fix } = problem
  return `${folder} cannot be written to: ${why}; ${fix}. \`vedette doctor\` shows more`
}

const FULL: ReadonlySet<string | undefined> = new Set(['ENOSPC', 'EDQUOT'])

/** Whether the disk, or the user's quota, is full. */
export function isDiskFull(error: unknown): boolean {
  return FULL.has((error as NodeJS.ErrnoException).code)
}

/** Text like `the disk is full`. */
export function diskMessage(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  if (isDiskFull(error)) return 'the disk is full'
  return `it could not be stored on disk (${code ?? message})`
}
