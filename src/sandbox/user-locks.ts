// Keeps the users of runs apart between agents of one machine: each user id has a lock on its own file, which the
// kernel releases when the process dies, whatever the cause.
import { closeSync, constants, lstatSync, mkdirSync, openSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { errno, libcFunction } from '../network/native/syscalls.ts'

// sys/file.h, and asm-generic/errno.h.
const LOCK_EX = 2
const LOCK_NB = 4
const EWOULDBLOCK = 11
const NAME = 'vedette-users'

const flock = libcFunction('int flock(int, int)')

/** Where agents of one machine meet: the first of them that can be had. */
export const LOCK_ROOTS: readonly string[] = ['/run', '/dev/shm', tmpdir()]

/**
 * A folder for locks that root alone may enter, since any process that can open a lock can hold it; made where there is
 * none. Undefined where no place allows one: then agents share nothing either.
 */
export function userLocksFolder(roots: readonly string[] = LOCK_ROOTS): string | undefined {
  for (const root of roots) {
    const folder = join(root, NAME)
    try {
      mkdirSync(folder, { mode: 0o700 })
    } catch {
      // It is there already, or cannot be made.
    }
    const found = lstatSync(folder, { throwIfNoEntry: false })
    if (found?.isDirectory() !== true || found.uid !== 0 || (found.mode & 0o077) !== 0) continue
    return folder
  }
  return undefined
}

/** Locks a user; returns its release, or undefined where another process has the lock. Throws when the disk does. */
export function holdUser(folder: string, userId: number): (() => void) | undefined {
  const flags = constants.O_RDONLY | constants.O_CREAT | constants.O_NOFOLLOW
  const file = openSync(join(folder, String(userId)), flags, 0o600)
  if (flock(file, LOCK_EX | LOCK_NB) === 0) return () => closeSync(file)
  const problem = errno()
  closeSync(file)
  if (problem === EWOULDBLOCK) return undefined
  throw new Error(`the user ${userId} cannot be locked in ${folder}: error ${problem}`)
}
