// One round for `vedette check`: runs every monitor once with the agent's runner, and returns the results in the
// order of the file.
import { setTimeout as sleep } from 'node:timers/promises'
import PQueue from 'p-queue'
import type { Job } from '../../contract/job.ts'
import type { Monitor } from '../../contract/monitor.ts'
import type { Result } from '../../contract/result.ts'
import { queueClassOf, type QueueClass } from './run-plan.ts'
import type { AttemptTurn } from './runner.ts'
import { EXIT } from '../../process/exit-codes.ts'

export interface Round {
  monitors: readonly Monitor[]
  /** Runs one job to its result, each attempt in its turn; never rejects. */
  run(job: Job, signal: AbortSignal, turn: AttemptTurn): Promise<Result>
  /** Concurrent attempts of each queue class. */
  concurrency: Readonly<Record<QueueClass, number>>
  /** Cancels what runs and what waits. */
  signal: AbortSignal
  /** Receives every result as it arrives. */
  onResult?(result: Result, done: number): void
}

/** Runs each monitor once; resolves with one result for each, in the order given. */
export async function runOnce(round: Round): Promise<Result[]> {
  const uptime = new PQueue({ concurrency: round.concurrency.uptime })
  const scripted = new PQueue({ concurrency: round.concurrency.scripted })
  const start = createStartTurn()
  const turns: Record<QueueClass, AttemptTurn> = {
    uptime: (attempt) => uptime.add(() => start(attempt)),
    scripted: (attempt) => scripted.add(attempt),
  }
  const slot = Date.now()
  let done = 0
  const runs = round.monitors.map(async (monitor) => {
    const result = await round.run({ monitor, slot }, round.signal, turns[queueClassOf(monitor)])
    round.onResult?.(result, ++done)
    return result
  })
  return Promise.all(runs)
}

/** Attempts that begin at a time: they share one thread and would measure each other's work. */
const BEGINNING_MAX = 2
/** An attempt that takes longer waits for its target, and another one may begin. */
const BEGINNING_MS_MAX = 15

/** Lets few attempts begin at a time, however many wait for their targets. */
function createStartTurn(): AttemptTurn {
  const beginning = new PQueue({ concurrency: BEGINNING_MAX })
  return async (attempt) => {
    let running: ReturnType<typeof attempt> | undefined
    await beginning.add(async () => {
      running = attempt()
      await Promise.race([running, sleep(BEGINNING_MS_MAX)])
    })
    return running
  }
}

/** Exit code of a round: 0 when every monitor passed or was degraded, else 1. */
export function exitCodeOf(results: readonly Result[]): number {
  return results.every(({ verdict }) => verdict === 'passed' || verdict === 'degraded')
    ? EXIT.ok
    : EXIT.failed
}
