// Keeps the users of runs apart between agents of one machine: a user's id is held by a lock on a file of its
// own, which the kernel gives back when its holder dies, whatever it dies of.
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
 * A folder for locks that root alone may enter, since whoever can open a lock can take it; made where there is
 * none. Undefined where no place takes one: then there is nothing that agents have in common either.
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

/** Holds a user; returns what gives it back, or undefined where another process holds it. Throws when the disk does. */
export function holdUser(folder: string, userId: number): (() => void) | undefined {
  const flags = constants.O_RDONLY | constants.O_CREAT | constants.O_NOFOLLOW
  const file = openSync(join(folder, String(userId)), flags, 0o600)
  if (flock(file, LOCK_EX | LOCK_NB) === 0) return () => closeSync(file)
  const problem = errno()
  closeSync(file)
  if (problem === EWOULDBLOCK) return undefined
  throw new Error(`the user ${userId} cannot be held in ${folder}: error ${problem}`)
}
