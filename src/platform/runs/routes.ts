// Runs on demand: their operations, the recording of their results, background jobs that end runs without a
// report, and notifications for waiting clients.
import { finishRuns, RUNS_CHANNEL, type RunResult } from './queries/runs.ts'
import type { Database, DatabaseAddress } from '../../database/database.ts'
import { listen } from '../../database/listen.ts'
import { News } from '../../database/news.ts'
import { capable, neededText } from '../agents/assignment.ts'
import {
  dropOldRuns,
  endCancelledRuns,
  handBackLostRuns,
  missRun,
  overdueRuns,
} from './queries/stale-runs.ts'
import { runOperations } from './check-runs.ts'
import type { BackgroundJob } from '../jobs/background-jobs.ts'
import { type DefinedOperation, defineOperation } from '../http/operation.ts'
import type { OnRecorded } from '../results/recorded.ts'
import { z } from '@hono/zod-openapi'
import { ShownUnderWay } from '../../contract/protocol/run-progress.ts'
import { knowsMonitor } from './queries/run-requests.ts'
import { slotsUnderWay, type UnderWayRow } from '../results/queries/slots-under-way.ts'
import { notFound } from '../http/errors.ts'
import { idParameter } from '../http/parameters.ts'

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

/** Retention of finished runs. */
const RETENTION_MS = 30 * 86_400_000

/** Makes them; starts nothing. */
export function createRuns(database: Database): Runs {
  const news = new News()
  const draining = new AbortController()
  return {
    operations: [...runOperations(database, news, draining.signal), underWayOperation(database)],
    async onRecorded(tx, { locationId, agentId, results }) {
      if (agentId === null) return
      const asked = results.map(({ result }) => result).filter(isOnDemand)
      if (asked.length > 0) await finishRuns(tx, { locationId, agentId }, asked)
    },
    backgroundJobs: [
      {
        name: 'runs-stale',
        everyMs: 5_000,
        timeoutMs: 60_000,
        run: (signal) => endStale(database, signal),
      },
      {
        name: 'runs-old',
        everyMs: 3_600_000,
        timeoutMs: 60_000,
        run: () => dropOldRuns(database, RETENTION_MS),
      },
    ],
    drain: () => draining.abort(),
    listen: (address, signal) =>
      listen({ address, channel: RUNS_CHANNEL, onNews: (runId) => news.notify(runId), signal }),
  }
}

function isOnDemand(result: { onDemand?: string | undefined }): result is RunResult {
  return result.onDemand !== undefined
}

/** Cancelled runs first: they must not be given to another agent. */
async function endStale(database: Database, signal: AbortSignal): Promise<void> {
  await endCancelledRuns(database)
  await handBackLostRuns(database)
  for (const { id, needs, abilities, attended } of await overdueRuns(database)) {
    if (signal.aborted) return
    const isMissing = abilities.length > 0 && !abilities.some((one) => capable(needs, one))
    const why = isMissing
      ? { reason: 'no-capable-agent' as const, needed: neededText(needs) }
      : { reason: attended ? ('agent-lost' as const) : ('no-agent' as const), needed: null }
    await missRun(database, id, why)
  }
}

/** The operation on what runs at present. */
function underWayOperation(database: Database): DefinedOperation {
  return defineOperation({
    tag: 'Check Runs',
    summary: 'List the scheduled runs of a check that are under way',
    description:
      'Browser and multistep checks and check suites that run at present, as their agents said with their last sync, which is at most half a minute ago.',
    method: 'get',
    path: '/v1/checks/{checkId}/under-way',
    params: { checkId: idParameter('check') },
    answers: {
      status: 200,
      schema: z.object({ underWay: z.array(ShownUnderWay) }).meta({ id: 'CheckUnderWayList' }),
      description: 'What runs, by location; up to 100',
    },
    async answer({ key: { accountId }, params: { checkId } }) {
      if (!(await knowsMonitor(database, accountId, checkId))) throw notFound('check')
      const rows = await slotsUnderWay(database, accountId, checkId)
      return JSON.stringify({ underWay: rows.map(shown) })
    },
  })
}

function shown({ location, agentId, saidAt, said }: UnderWayRow): z.input<typeof ShownUnderWay> {
  const { slot, startedAt, phase, done = null, total = null, line = null } = said
  return {
    location,
    agentId,
    slot: new Date(slot).toISOString(),
    startedAt: new Date(startedAt).toISOString(),
    progress: phase === undefined ? null : { phase, done, total, line, at: saidAt.toISOString() },
  }
}
