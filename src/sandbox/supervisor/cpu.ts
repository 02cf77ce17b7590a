// The processor time of a run: of its processes, of those that somebody has waited for, which the kernel adds up
// itself, and, estimated, of those that vanish without a trace: who ignores SIGCHLD has its children forgotten
// (wait(2), notes), and what they used with them. The estimate holds the run to its limit and is told nowhere else:
// where more wants to run than there are processors, it is too high.
//
// What a process used is added, when it is waited for, to the sum of who waited. So what all those used that vanish
// between two looks must turn up as growth of such sums; what does not is lost. What a process used after
// it was last seen nobody knows, nor what those used that nobody saw. But a look finds a short-lived process with
// the chance that its life has of the time between two looks; so each that is found stands for that time, and
// with honest parents both sides come to the same in the long run. Looks come at irregular times: nobody can hide.
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { factsOf, TICK_MS, type ProcessFacts } from './processes.ts'

/** Of a shorter life the system's hundredths of a second say nothing. */
const AGE_TICKS_MIN = 5

interface Seen {
  facts: ProcessFacts
  /** What it had used when it was first seen. */
  headMs: number
  /** What it is expected to have used beside what was seen, should it be gone at the next look. */
  unseenMs: number
}

/** Milliseconds that a run has used. */
export interface UsedTime {
  /** Of all that the kernel has not forgotten. */
  knownMs: number
  /** Together with what it has, as far as that can be told. */
  estimatedMs: number
}

/** Adds up the processor time of a run, look by look. */
export class SpentTime {
  #seen = new Map<string, Seen>()
  #waitedForHereMs = 0
  #lookedAt = performance.now()
  #lostMs = 0
  readonly #beforeMs: number

  /** What `all` have used until now is the sandbox's own. */
  constructor(all: readonly ProcessFacts[]) {
    this.#beforeMs = this.#take(all)
    this.#lostMs = 0
  }

  /** Until now, by all that there are, zombies included. */
  look(all: readonly ProcessFacts[]): UsedTime {
    const knownMs = this.#take(all) - this.#beforeMs
    return { knownMs, estimatedMs: knownMs + Math.max(0, Math.round(this.#lostMs)) }
  }

  /** What the system knows of, after having looked for what it has forgotten. */
  #take(all: readonly ProcessFacts[]): number {
    const now = performance.now()
    const sinceMs = now - this.#lookedAt
    this.#lookedAt = now
    const gone = this.#seen
    this.#seen = new Map()
    const hereMs = (factsOf(process.pid)?.childTicks ?? 0) * TICK_MS
    let knownMs = hereMs
    let grownMs = hereMs - this.#waitedForHereMs
    this.#waitedForHereMs = hereMs
    for (const facts of all) {
      const key = `${facts.pid} ${facts.startTick}`
      const before = gone.get(key)
      gone.delete(key)
      knownMs += usedMs(facts)
      grownMs += (facts.childTicks - (before?.facts.childTicks ?? 0)) * TICK_MS
      this.#seen.set(key, seenNow(facts, before, sinceMs))
    }
    boundUnseen([...this.#seen.values()], sinceMs)
    let goneMs = 0
    for (const { facts, unseenMs } of gone.values()) goneMs += usedMs(facts) + unseenMs
    this.#lostMs += goneMs - grownMs
    return knownMs
  }
}

function usedMs({ ownTicks, childTicks }: ProcessFacts): number {
  return (ownTicks + childTicks) * TICK_MS
}

function seenNow(facts: ProcessFacts, before: Seen | undefined, sinceMs: number): Seen {
  const ownMs = facts.ownTicks * TICK_MS
  const headMs = before?.headMs ?? ownMs
  if (facts.isZombie) return { facts, headMs, unseenMs: 0 }
  // From the last look to its end as much as from its beginning to the first, in the long run.
  if (before !== undefined) return { facts, headMs, unseenMs: headMs }
  return { facts, headMs, unseenMs: Math.max(headMs, sinceMs * shareOf(facts) - ownMs) }
}

/** All of them together have not used more than there is. */
function boundUnseen(seen: readonly Seen[], sinceMs: number): void {
  const mostMs = availableParallelism() * sinceMs
  const sumMs = seen.reduce((sum, { unseenMs }) => sum + unseenMs, 0)
  if (sumMs > mostMs) for (const one of seen) one.unseenMs *= mostMs / sumMs
}

/** How many processors a process has used in its short life. */
function shareOf({ pid, isRunning, ownTicks, startTick }: ProcessFacts): number {
  const ageTicks = isRunning || ownTicks > 0 ? ticksSinceBoot() - startTick : 0
  const share = ageTicks < AGE_TICKS_MIN ? 0 : ownTicks / ageTicks
  return isRunning ? Math.max(share, shareOfTurns(pid)) : share
}

function ticksSinceBoot(): number {
  return Math.floor((Number.parseFloat(textOf('/proc/uptime')) * 1000) / TICK_MS)
}

/**
 * Of the time in which it wanted a processor, the share in which it had one. All where the kernel does not tell
 * (CONFIG_SCHED_INFO); its times (Documentation/scheduler/sched-stats) are of before its present turn.
 */
function shareOfTurns(pid: number): number {
  const [on = 1, waited = 0, turns = 1] = textOf(`/proc/${pid}/schedstat`).split(' ').map(Number)
  if (on > 0) return on / (on + waited)
  return turns > 0 ? 1 : 0
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
