// Runs on demand beside their operations: results finish them, background jobs end those of which nobody reports,
// and whoever waits hears of every change.
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

/** What runs on demand need. */
export interface RunsOptions {
  database: Database
  /** Finished runs are kept this long. */
  keptMs: number
  /** Whether an agent with these abilities can run what has these needs. */
  capable: (needs: readonly string[], abilities: readonly string[]) => boolean
  /** Needs in words, for people. */
  neededText: (needs: readonly string[]) => string
}

/** Runs on demand of one platform process. */
export interface Runs {
  /** Part of the public API. */
  operations: DefinedOperation[]
  /** Finishes runs by results that were recorded. */
  onRecorded: OnRecorded
  backgroundJobs: BackgroundJob[]
  /** Answers those who wait; from now on nobody waits. */
  drain(): void
  /** Hears of changes until the signal fires. Never rejects. */
  listen(address: DatabaseAddress, signal: AbortSignal): Promise<void>
}

const STALE_EVERY_MS = 5_000
const OLD_EVERY_MS = 3_600_000

/** Makes them; starts nothing. */
export function createRuns(options: RunsOptions): Runs {
  const { database, keptMs } = options
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
        run: () => dropOldRuns(database, keptMs),
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

/** Cancelled ones first: what is to be cancelled is not given to another agent. */
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
