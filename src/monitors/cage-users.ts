// The users that runs of code get, each run one of its own for as long as it runs: the kernel then keeps
// runs, the agent and each other's files apart.
import { readdirSync, readFileSync, statSync } from 'node:fs'

/** Runs at one time that can have a user of their own. */
const USERS_MAX = 256
// Bits of linux/capability.h.
const NEEDED = { CAP_CHOWN: 0, CAP_DAC_OVERRIDE: 1, CAP_KILL: 5, CAP_SETGID: 6, CAP_SETUID: 7 }

/** Hands out users. */
export class CageUsers {
  readonly #first: number
  readonly #taken = new Set<number>()

  constructor(first: number) {
    this.#first = first
  }

  /**
   * A user that nobody else has; undefined where the agent may not change users. Throws when the agent is
   * root without the rights of root, since code must never run as root, or all users are taken.
   */
  take(): number | undefined {
    if (process.getuid?.() !== 0) return undefined
    const lacking = lackingCapabilities()
    if (lacking.length > 0) {
      throw new Error(
        `the agent runs as root without ${lacking.join(', ')}: give it those, or run it as another user`,
      )
    }
    const running = usersOfProcesses()
    for (let userId = this.#first; userId < this.#first + USERS_MAX; userId++) {
      // Somebody else's on this machine, such as a second agent's.
      if (this.#taken.has(userId) || running.has(userId)) continue
      this.#taken.add(userId)
      return userId
    }
    throw new Error(`all ${USERS_MAX} users for runs of code, from ${this.#first} on, are taken`)
  }

  giveBack(userId: number | undefined): void {
    if (userId !== undefined) this.#taken.delete(userId)
  }
}

function lackingCapabilities(): string[] {
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
