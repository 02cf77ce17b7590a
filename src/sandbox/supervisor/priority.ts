// Priority of user code: it ranks behind the agent, whose monitors are due at instants. A processor that nobody else
// wants is all its own. To lower one's own priority needs no privilege.
import { writeFileSync } from 'node:fs'
import { getPriority, setPriority } from 'node:os'
import { asUser, type ProcessFacts } from './processes.ts'

/** Levels of nice(2) behind the agent: a ninth of its weight for one process. */
const LEVELS_BEHIND = 10
const LEVEL_MAX = 19

/** Lowers the priority of this thread, of the program that it becomes, and of all that it starts. */
export function rankBehindAgent(): void {
  setPriority(Math.min(LEVEL_MAX, getPriority() + LEVELS_BEHIND))
}

/**
 * Sessions of a run. Where the kernel groups processes by session (autogroup, sched(7)), a level counts within a session
 * only, and each session has a level of its own. Every browser of Playwright begins one.
 */
export class RankedSessions {
  readonly #userId: number | undefined
  #ranked = new Set<number>()

  constructor(userId: number | undefined) {
    this.#userId = userId
  }

  /** Ranks the sessions of these processes that are new; what the kernel refuses now is tried again next time. */
  rank(all: readonly ProcessFacts[]): void {
    const ranked = new Set<number>()
    for (const { pid, session } of all) {
      if (ranked.has(session)) continue
      if (this.#ranked.has(session) || this.#rankSessionOf(pid)) ranked.add(session)
    }
    this.#ranked = ranked
  }

  #rankSessionOf(pid: number): boolean {
    const write = () => {
      try {
        writeFileSync(`/proc/${pid}/autogroup`, String(LEVELS_BEHIND))
        return true
      } catch {
        // The process has ended, there are no such groups, or another one was changed within 0.1 s.
        return undefined
      }
    }
    return asUser(this.#userId, write) ?? false
  }
}
