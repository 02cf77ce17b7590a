// Runs on demand: their operations, the recording of their results, background jobs that end runs without a
// report, and notifications for waiting clients.
import { finishRuns, RUNS_CHANNEL, type RunResult } from './queries/runs.ts'
import type { Database, DatabaseAddress } from '../../database/database.ts'
import { listen } from '../../database/listen.ts'
import {
  dropOldRuns,
  endCancelledRuns,
  handBackLostRuns,
  missRun,
  overdueRuns,
} from './queries/stale-runs.ts'
import { runOperations } from './check-runs.ts'
import { underWayOperation } from '../checks/under-way.ts'
import type { BackgroundJob } from '../jobs/background-jobs.ts'
import type { DefinedOperation } from '../http/operation.ts'
import type { OnRecorded } from '../results/recorded.ts'
import { createRunWatch } from './watch.ts'

/** Options of runs on demand. */
export interface RunsOptions {
  database: Database
  /** Retention of finished runs. */
  retentionMs: number
  /** Whether an agent with these abilities can run a monitor with these needs. */
  capable: (needs: readonly string[], abilities: readonly string[]) => boolean
  /** Needs as text for messages. */
  neededText: (needs: readonly string[]) => string
}

/** Runs on demand of one platform process. */
export interface Runs {
  /** Part of the public API. */
  operations: DefinedOperation[]
  /** Finishes runs by their recorded results. */
  onRecorded: OnRecorded
  backgroundJobs: BackgroundJob[]
  /** Answers waiting requests; from now on none waits. */
  drain(): void
  /** Listens for changes until the signal fires. Never rejects. */
  listen(address: DatabaseAddress, signal: AbortSignal): Promise<void>
}

const STALE_EVERY_MS = 5_000
const OLD_EVERY_MS = 3_600_000

/** Makes them; starts nothing. */
export function createRuns(options: RunsOptions): Runs {
  const { database, retentionMs } = options
  const watch = createRunWatch()
  return {
    operations: [...runOperations(database, watch), underWayOperation(database)],
    async onRecorded(tx, { locationId, agentId, results }) {
      const asked = results.map(({ result }) => result).filter(isOnDemand)
      await finishRuns(tx, { locationId, agentId }, asked)
    },
    backgroundJobs: [
      {
        name: 'runs-stale',
        everyMs: STALE_EVERY_MS,
        timeoutMs: 60_000,
        run: (signal) => endStale(options, signal),
      },
      {
        name: 'runs-old',
        everyMs: OLD_EVERY_MS,
        timeoutMs: 60_000,
        run: () => dropOldRuns(database, retentionMs),
      },
    ],
    drain: () => watch.close(),
    listen: (address, signal) =>
      listen({ address, channel: RUNS_CHANNEL, onNews: (runId) => watch.notify(runId), signal }),
  }
}

function isOnDemand(result: { onDemand?: string | undefined }): result is RunResult {
  return result.onDemand !== undefined
}

/** Cancelled runs first: they must not be given to another agent. */
async function endStale(options: RunsOptions, signal: AbortSignal): Promise<void> {
  const { database, capable, neededText } = options
  await endCancelledRuns(database)
  await handBackLostRuns(database)
  for (const { id, needs, abilities, attended } of await overdueRuns(database)) {
    if (signal.aborted) return
    const lacking = abilities.length > 0 && !abilities.some((one) => capable(needs, one))
    const why = lacking
      ? { reason: 'no-capable-agent' as const, needed: neededText(needs) }
      : { reason: attended ? ('agent-lost' as const) : ('no-agent' as const), needed: null }
    await missRun(database, id, why)
  }
}
