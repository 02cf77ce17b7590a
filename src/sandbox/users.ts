// Users for runs: each run has a user of its own for as long as it runs, so that the kernel keeps the processes and
// files of runs and of the agent apart.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { holdUser, userLocksFolder } from './user-locks.ts'

/** Runs at one time that can have a user of their own. */
export const USERS_MAX = 256
// Bits of linux/capability.h.
const NEEDED = { CAP_CHOWN: 0, CAP_DAC_OVERRIDE: 1, CAP_KILL: 5, CAP_SETGID: 6, CAP_SETUID: 7 }

/** Hands out users. */
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

  /**
   * A user that nobody else has; undefined where the agent may not change users. Throws when the agent is
   * root without the rights of root, since code must never run as root, or all users are in use.
   */
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
  const status = readFileSync('/proc/self/status', 'latin1')
  const effective = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)/m.exec(status)?.[1] ?? '0'}`)
  return Object.entries(NEEDED)
    .filter(([, bit]) => ((effective >> BigInt(bit)) & 1n) === 0n)
    .map(([name]) => name)
}

/** The users of all processes of this machine. */
export function usersOfProcesses(): Set<number> {
  const users = new Set<number>()
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    try {
      users.add(statSync(`/proc/${name}`).uid)
    } catch {
      continue
    }
  }
  return users
}
