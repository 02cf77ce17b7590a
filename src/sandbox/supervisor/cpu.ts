// Processor time of a run: of its processes, of children that were waited for, which the kernel adds up, and an
// estimate for children that were not. A process that ignores SIGCHLD has its children forgotten, with their use
// (wait(2), notes). The estimate is used for the limit alone and reported nowhere: it is too high under load.
//
// When a process is waited for, its use is added to the sum of its parent. So the use of processes that vanish between
// two looks must show as growth of such sums; the rest is lost. Use after the last look, and of processes that no look
// found, is unknown. But a look finds a short-lived process with a chance that is the share of its life in the time
// between two looks. So each process that is found stands for that time; with honest parents both sides are equal in
// the long run. Looks come at irregular times, so that no process can avoid them.
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { factsOf, TICK_MS, type ProcessFacts } from './processes.ts'

/** A shorter life is too short for the system's resolution of 10 ms. */
const AGE_TICKS_MIN = 5

interface Observation {
  facts: ProcessFacts
  /** Its use when it was first observed. */
  headMs: number
  /** Expected use in addition to what was observed, should it be gone at the next look. */
  unseenMs: number
}

/** Milliseconds that a run has used. */
export interface UsedTime {
  /** Of all that the kernel has not forgotten. */
  knownMs: number
  /** Together with an estimate of what it has forgotten. */
  estimatedMs: number
}

/** Adds up the processor time of a run, look by look. */
export class SpentTime {
  #observed = new Map<string, Observation>()
  #waitedForHereMs = 0
  #lookedAt = performance.now()
  #lostMs = 0
  readonly #beforeMs: number

  /** What `all` have used until now is the sandbox's own. */
  constructor(all: readonly ProcessFacts[]) {
    this.#beforeMs = this.#record(all)
    this.#lostMs = 0
  }

  /** Until now, by all that there are, zombies included. */
  look(all: readonly ProcessFacts[]): UsedTime {
    const knownMs = this.#record(all) - this.#beforeMs
    return { knownMs, estimatedMs: knownMs + Math.max(0, Math.round(this.#lostMs)) }
  }

  /** What the system knows of, after having looked for what it has forgotten. */
  #record(all: readonly ProcessFacts[]): number {
    const now = performance.now()
    const sinceMs = now - this.#lookedAt
    this.#lookedAt = now
    const gone = this.#observed
    this.#observed = new Map()
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
      this.#observed.set(key, observationNow(facts, before, sinceMs))
    }
    boundUnseen([...this.#observed.values()], sinceMs)
    let goneMs = 0
    for (const { facts, unseenMs } of gone.values()) goneMs += usedMs(facts) + unseenMs
    this.#lostMs += goneMs - grownMs
    return knownMs
  }
}

function usedMs({ ownTicks, childTicks }: ProcessFacts): number {
  return (ownTicks + childTicks) * TICK_MS
}

function observationNow(
  facts: ProcessFacts,
  before: Observation | undefined,
  sinceMs: number,
): Observation {
  const ownMs = facts.ownTicks * TICK_MS
  const headMs = before?.headMs ?? ownMs
  if (facts.isZombie) return { facts, headMs, unseenMs: 0 }
  // From the last look to its end as much as from its beginning to the first, in the long run.
  if (before !== undefined) return { facts, headMs, unseenMs: headMs }
  return { facts, headMs, unseenMs: Math.max(headMs, sinceMs * shareOf(facts) - ownMs) }
}

/** All of them together have not used more than there is. */
function boundUnseen(observed: readonly Observation[], sinceMs: number): void {
  const mostMs = availableParallelism() * sinceMs
  const sumMs = observed.reduce((sum, { unseenMs }) => sum + unseenMs, 0)
  if (sumMs > mostMs) for (const one of observed) one.unseenMs *= mostMs / sumMs
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
 * Of the time in which it wanted a processor, the share in which it had one. All where the kernel does not report it
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
