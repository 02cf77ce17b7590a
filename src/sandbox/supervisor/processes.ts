// The processes of a run, wherever they hide: all descendants of the supervisor, which is the foster parent of
// those whose own parents have gone (PR_SET_CHILD_SUBREAPER), so that none can leave.
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { call, ECHILD, errno, EPERM, libcFunction } from '../../network/native/syscalls.ts'

/** Linux counts processor time for programs in hundredths of a second, on every architecture (USER_HZ). */
export const TICK_MS = 10

/** What the system says of a process (proc(5), stat). */
export interface ProcessFacts {
  pid: number
  parent: number
  group: number
  session: number
  /** It has ended, all of its threads, and nobody has waited for it. */
  isZombie: boolean
  /** Processor time of its own, in ticks. */
  ownTicks: number
  /** That of its children which have ended and were waited for. */
  childTicks: number
}

const wait4 = libcFunction('int wait4(int, void *, int, void *)')
const kill = libcFunction('int kill(int, int)')
const waitid = libcFunction('int waitid(int, int, void *, int)')
const P_ALL = 0
const WNOHANG = 1
const WEXITED = 4
const WNOWAIT = 0x01000000
const __WALL = 0x40000000
const SIGKILL = 9
const SIGSTOP = 19

/** A file of a process or thread in /proc; empty when that is gone, or the file may not be read. */
export function textOf(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'latin1')
  } catch {
    return ''
  }
}

/** The ids of all processes of this machine. */
export function allProcesses(): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0)
}

/** The facts of one process, or undefined when it is gone. */
export function factsOf(pid: number): ProcessFacts | undefined {
  const text = textOf(pid, 'stat')
  if (text === '') return undefined
  // The name in parentheses may hold anything, so fields count from its end.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const field = (index: number) => Number(fields[index])
  return {
    pid,
    // The first thread may have ended alone.
    isZombie: (fields[0] === 'Z' || fields[0] === 'X') && field(17) <= 1,
    parent: field(1),
    group: field(2),
    session: field(3),
    ownTicks: field(11) + field(12),
    childTicks: field(13) + field(14),
  }
}

/** Works on the memory of a thread; undefined where that has ended, or may not be touched. */
export function withMemory<T>(
  thread: number,
  mode: 'r' | 'r+',
  act: (memory: number) => T,
): T | undefined {
  try {
    const memory = openSync(`/proc/${thread}/mem`, mode)
    try {
      return act(memory)
    } finally {
      closeSync(memory)
    }
  } catch {
    return undefined
  }
}

/** The process that a thread belongs to; 0 when it has gone. */
export function processOf(thread: number): number {
  return Number(/^Tgid:\s+(\d+)/m.exec(textOf(thread, 'status'))?.[1] ?? 0)
}

/** Whether the thread has a number in a namespace of processes below the supervisor's. */
export function isNested(thread: number): boolean {
  return /^NSpid:\t\d+\t\d/m.test(textOf(thread, 'status'))
}

// Rights of the run's user serve where the supervisor's do not reach: the root of a container may not look into the
// processes of other users.

const UNCHANGED = -1

/** Does it with the agent's own rights, and where those do not reach, as the user of the run. */
export function asUser<T>(userId: number | undefined, act: () => T | undefined): T | undefined {
  const done = act()
  return done !== undefined || userId === undefined ? done : onlyAsUser(userId, act)
}

/** Does it as the user of the run, where it has one of its own. */
export function onlyAsUser<T>(userId: number | undefined, act: () => T): T {
  if (userId === undefined) return act()
  // Of this thread alone; the saved user is the way back. The real one would open the agent's own processes.
  const own = process.getuid?.() ?? 0
  call('setresgid', userId, userId, UNCHANGED)
  call('setresuid', userId, userId, UNCHANGED)
  try {
    return act()
  } finally {
    call('setresuid', own, own, UNCHANGED)
    call('setresgid', own, own, UNCHANGED)
  }
}

/** Looks until unrelated processes are looked at again. */
const UNRELATED_LOOKS = 10

/** How often to look upwards again where somebody on the way ended, and how far. */
const CLIMBS_MAX = 10
const DEPTH_MAX = 10_000

/** Looks at the descendants of this process, again and again. */
export class Descendants {
  readonly #own: number
  /** The child that Node waits for itself. */
  readonly #known: () => number | undefined
  readonly #unrelated = new Set<number>()
  #looks = 0

  constructor(known: () => number | undefined, own = process.pid) {
    this.#known = known
    this.#own = own
  }

  /**
   * All descendants now, including zombies that their own parents do not wait for. The number of an unrelated
   * process may have become a descendant's since; `certain` looks at those again, too.
   */
  look(certain = false): ProcessFacts[] {
    if (certain || this.#looks++ % UNRELATED_LOOKS === 0) this.#unrelated.clear()
    const all = new Map<number, ProcessFacts>()
    for (const pid of allProcesses()) {
      if (this.#unrelated.has(pid)) continue
      const facts = factsOf(pid)
      if (facts !== undefined) all.set(pid, facts)
    }
    const found: ProcessFacts[] = []
    for (const facts of all.values()) {
      if (!this.#descends(facts, all)) {
        this.#unrelated.add(facts.pid)
      } else if (facts.isZombie && facts.parent === this.#own && facts.pid !== this.#known()) {
        wait4(facts.pid, null, WNOHANG, null)
      } else {
        found.push(facts)
      }
    }
    return found
  }

  /** Those that live. */
  lookForLiving(): ProcessFacts[] {
    return this.look(true).filter(({ isZombie }) => !isZombie)
  }

  /** Whether this one is a descendant now. Looks at it and those above it alone. */
  has(pid: number): boolean {
    for (let climb = 0; climb < CLIMBS_MAX; climb++) {
      const found = this.#climb(pid)
      if (found !== undefined) return found
    }
    return false
  }

  /** Undefined when one on the way up ended meanwhile: who was below it hangs elsewhere now. */
  #climb(pid: number): boolean | undefined {
    let at = factsOf(pid)
    if (at === undefined) return false
    for (let depth = 0; at !== undefined && depth < DEPTH_MAX; depth++) {
      if (at.parent === this.#own) return true
      if (at.parent <= 1) return false
      at = factsOf(at.parent)
    }
    return at === undefined ? undefined : false
  }

  #descends(facts: ProcessFacts, all: ReadonlyMap<number, ProcessFacts>): boolean {
    let at: ProcessFacts | undefined = facts
    for (let depth = 0; at !== undefined && depth <= all.size; depth++) {
      if (at.parent === this.#own) return true
      at = all.get(at.parent)
    }
    return false
  }
}

/** Whether this process has any child, dead or alive: a look at /proc may miss one that was forked meanwhile. */
function hasChildren(): boolean {
  const found = Number(waitid(P_ALL, 0, null, WEXITED | WNOHANG | WNOWAIT | __WALL))
  return found === 0 || errno() !== ECHILD
}

/** How long processes that have been killed may take to vanish. */
const VANISH_MS_MAX = 4_000
/** After this long, processes are forked faster than they are killed one by one. */
const OUTRUN_MS = 500
const ROUNDS_MAX = 50

/**
 * Ends all descendants of this process for certain: stops all until no new one appears, then kills all until no child
 * is left, as orphans become children of this process. Where that does not end, kills all processes of the run's own
 * user in one step. Returns how many were found at first, and how many could not be ended.
 */
export async function endAll(
  descendants: Descendants,
  userId: number | undefined,
): Promise<{ found: number; left: number }> {
  const began = performance.now()
  const found = descendants.lookForLiving().length
  for (let pauseMs = 1; ; pauseMs = Math.min(50, 2 * pauseMs)) {
    const left = killFrozen(descendants)
    if (left === 0 && !hasChildren()) return { found, left }
    const goesOnMs = performance.now() - began
    if (goesOnMs > VANISH_MS_MAX) return { found, left: Math.max(1, left) }
    // Not at first: another agent of this machine may have claimed the same user in the same moment.
    if (userId !== undefined && goesOnMs > OUTRUN_MS) killUser(userId)
    await delay(pauseMs)
  }
}

function killFrozen(descendants: Descendants): number {
  const stopped = new Set<number>()
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const fresh = descendants.lookForLiving().filter(({ pid }) => !stopped.has(pid))
    if (fresh.length === 0) break
    for (const { pid } of fresh) {
      kill(pid, SIGSTOP)
      stopped.add(pid)
    }
  }
  for (const pid of stopped) kill(pid, SIGKILL)
  return stopped.size
}

/** Kills every process of the user in one step that no fork can outrun (kill(2)). Needs root's rights. */
export function killUser(userId: number): void {
  onlyAsUser(userId, () => {
    // With any privilege left it would kill the whole machine: the first process must be out of reach.
    const isHarmless = Number(kill(1, 0)) !== 0 && errno() === EPERM
    if (isHarmless) kill(-1, SIGKILL)
  })
}
