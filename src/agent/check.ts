// Runs every monitor once, now, and gives the results in the order of the file: what `vedette check`
// does, with the same runner as the agent.
import PQueue from 'p-queue'
import type { Job } from '../contract/job.ts'
import type { Monitor } from '../contract/monitor.ts'
import type { Result } from '../contract/result.ts'
import { laneOf, type Lane } from './lane.ts'

/** What a single round needs. */
export interface Round {
  monitors: readonly Monitor[]
  /** Runs one job to its result; never rejects. */
  run(job: Job, signal: AbortSignal): Promise<Result>
  /** Monitors of each lane that run at the same time. */
  concurrency: Readonly<Record<Lane, number>>
  /** Cancels what runs and what waits. */
  signal: AbortSignal
  /** Told of every result as it comes. */
  onResult?(result: Result, done: number): void
}

/** Runs each monitor once; resolves with one result for each, in the order given. */
export async function runOnce(round: Round): Promise<Result[]> {
  const { uptime, scripted } = round.concurrency
  const queues = {
    uptime: new PQueue({ concurrency: uptime }),
    scripted: new PQueue({ concurrency: scripted }),
  }
  const slot = Date.now()
  let done = 0
  const runs = round.monitors.map((monitor) =>
    queues[laneOf(monitor)].add(async () => {
      const result = await round.run({ monitor, slot }, round.signal)
      round.onResult?.(result, ++done)
      return result
    }),
  )
  return Promise.all(runs)
}

/** Exit code of a round: 0 when every monitor passed or was degraded, else 1. */
export function exitCodeOf(results: readonly Result[]): number {
  return results.every(({ verdict }) => verdict === 'passed' || verdict === 'degraded') ? 0 : 1
}
