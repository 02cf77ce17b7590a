// Users for runs: each run has a user of its own for as long as it runs, so that the kernel keeps the processes and
// files of runs and of the agent apart.
import { closeSync, constants, lstatSync, mkdirSync, openSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { allProcesses } from './supervisor/processes.ts'
import { EAGAIN, effectiveCapabilities, lockDescriptor } from '../network/native/syscalls.ts'

/** Runs at one time that can have a user of their own. */
export const USERS_MAX = 256
// Bits of linux/capability.h.
const NEEDED = { CAP_CHOWN: 0, CAP_DAC_OVERRIDE: 1, CAP_KILL: 5, CAP_SETGID: 6, CAP_SETUID: 7 }

export class SandboxUsers {
  readonly #first: number
  readonly #roots: readonly string[] | undefined
  /** By user, what lets other agents have it again. */
  readonly #acquired = new Map<number, () => void>()

  /** `roots` are where agents of this machine meet, if not at the usual places. */
  constructor(first: number, roots?: readonly string[]) {
    this.#first = first
    this.#roots = roots
  }

  /** The users that it may hand out; the agent's own where there are none. */
  all(): number[] {
    const own = process.getuid?.() ?? 0
    return own === 0 ? Array.from({ length: USERS_MAX }, (_, at) => this.#first + at) : [own]
  }

  /** A user that nobody else has; undefined where the agent may not change users. Code never runs as root. */
  acquire(): number | undefined {
    if (process.getuid?.() !== 0) return undefined
    const missing = missingCapabilities()
    if (missing.length > 0) {
      throw new Error(
        `the agent runs as root without ${missing.join(', ')}: give it those, or run it as another user`,
      )
    }
    const folder = userLocksFolder(this.#roots)
    let running: Set<number> | undefined
    for (let userId = this.#first; userId < this.#first + USERS_MAX; userId++) {
      if (this.#acquired.has(userId)) continue
      // A second agent's on this machine.
      const release = folder === undefined ? () => {} : holdUser(folder, userId)
      if (release === undefined) continue
      // Looked at when it is locked: processes of an agent that died a moment ago may still be ending.
      running ??= usersOfProcesses()
      if (running.has(userId)) {
        release()
        continue
      }
      this.#acquired.set(userId, release)
      return userId
    }
    throw new Error(`all ${USERS_MAX} users for runs of code, from ${this.#first} on, are in use`)
  }

  giveBack(userId: number | undefined): void {
    if (userId === undefined) return
    this.#acquired.get(userId)?.()
    this.#acquired.delete(userId)
  }
}

function missingCapabilities(): string[] {
  const effective = effectiveCapabilities()
  return Object.entries(NEEDED)
    .filter(([, bit]) => ((effective >> BigInt(bit)) & 1n) === 0n)
    .map(([name]) => name)
}

/** The users of all processes of this machine. */
function usersOfProcesses(): Set<number> {
  const found = allProcesses().map(
    (pid) => statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid,
  )
  return new Set(found.filter((uid) => uid !== undefined))
}

// Agents of one machine share no user: each user id has a lock on its own file, which the kernel releases when the
// process dies, whatever the cause.

const NAME = 'vedette-users'

/** Where agents of one machine meet: the first of them that can be had. */
const LOCK_ROOTS: readonly string[] = ['/run', '/dev/shm', tmpdir()]

/** A folder that root alone may enter, as who can open a lock can hold it; undefined where there can be none. */
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
  const problem = lockDescriptor(file)
  if (problem === 0) return () => closeSync(file)
  closeSync(file)
  if (problem === EAGAIN) return undefined
  throw new Error(`the user ${userId} cannot be locked in ${folder}: error ${problem}`)
}
