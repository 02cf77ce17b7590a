// Errors of system calls. Loads no native code.
import { getSystemErrorName } from 'node:util'

/** A system call that failed, in the form of Node's own errors. */
export class SystemCallError extends Error {
  readonly code: string
  readonly errno: number
  readonly syscall: string

  constructor(syscall: string, errno: number) {
    const code = errno > 0 ? getSystemErrorName(-errno) : 'UNKNOWN'
    super(`${syscall} ${code}`)
    this.name = 'SystemCallError'
    this.code = code
    this.errno = errno
    this.syscall = syscall
  }
}

const REFUSALS: ReadonlySet<string> = new Set([
  'EACCES',
  'EPERM',
  'EPROTONOSUPPORT',
  'ESOCKTNOSUPPORT',
])

/** Whether the system lacks the permission, or the support, for a kind of socket. */
export function isRefusal(error: unknown): error is SystemCallError {
  return error instanceof SystemCallError && REFUSALS.has(error.code)
}
