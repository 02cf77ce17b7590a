// Runs on demand: asked for, listed, followed and cancelled.
import { randomUUID } from 'node:crypto'
import { z } from '@hono/zod-openapi'
import { PROTOCOL_BOUNDS } from '../../contract/protocol/agent-protocol.ts'
import { CUSTOM_POLICIES } from '../../contract/api/rate-policy.ts'
import {
  Run,
  RUN_BOUNDS,
  RUN_STATES,
  type RunDetail,
  RunDetail as RunDetailSchema,
  RunRequest,
  RunsAsked,
  type RunState,
} from '../../contract/api/run.ts'
import { artifactsOf } from '../artifacts/queries.ts'
import type { Database } from '../../database/database.ts'
import type { News } from '../../database/news.ts'
import {
  cancelRun,
  insertRun,
  knowsMonitor,
  listRuns,
  locationsOf,
  readRun,
  type RunAddress,
  type RunnableIn,
  type RunRow,
} from './queries/run-requests.ts'
import { withArtifacts } from '../artifacts/views.ts'
import { notFound, ApiError, orNotFound } from '../http/errors.ts'
import { pageJson, pageOf, pageParameters } from '../http/listing.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { idParameter } from '../http/parameters.ts'

const TAG = 'Check Runs'
const PATH = '/v1/checks/{checkId}/runs'
const ONE = `${PATH}/{runId}`
const checkId = idParameter('check')
const params = { checkId, runId: idParameter('run') }
const answers = { status: 200 as const, schema: RunDetailSchema, description: 'The run' }

/** The operations on runs on demand. No request waits once `draining` has fired. */
export function runOperations(
  database: Database,
  news: News,
  draining: AbortSignal,
): DefinedOperation[] {
  return [ask(database), list(database), read(database, news, draining), ...cancels(database)]
}

function ask(database: Database): DefinedOperation {
  return defineOperation({
    tag: TAG,
    summary: 'Run a check now',
    description:
      'Asks for a run in each of its locations, or in those that are named. A deactivated check can be run as well.',
    method: 'post',
    path: PATH,
    action: 'run',
    policy: CUSTOM_POLICIES['on-demand-runs'],
    params: { checkId },
    body: RunRequest,
    answers: { status: 201, schema: RunsAsked, description: 'The runs, one for each location' },
    conflict: `A location has ${PROTOCOL_BOUNDS.onDemandRunsMax} open runs already`,
    async answer({ key: { accountId, name: askedBy }, params: { checkId: monitorId }, body }) {
      const known = orNotFound(await locationsOf(database, accountId, monitorId), 'check')
      const chosen = choose(known, body.locations)
      const runs = await database.transaction(async (tx) => {
        const asked: string[] = []
        for (const { id: locationId, slug } of chosen) {
          const run = { id: randomUUID(), accountId, monitorId, locationId, askedBy }
          const json = await insertRun(tx, run)
          if (json === undefined) throw full(slug)
          asked.push(json)
        }
        return asked
      })
      return `{"runs":[${runs.join(',')}]}`
    },
  })
}

function full(slug: string): ApiError {
  const { onDemandRunsMax } = PROTOCOL_BOUNDS
  return new ApiError(409, `Location ${slug} has ${onDemandRunsMax} open runs already`)
}

/** The locations asked for, in the order of their ids, which is that of their locks. */
function choose(known: readonly RunnableIn[], asked: readonly string[] | undefined): RunnableIn[] {
  if (known.length === 0) throw new ApiError(400, 'The check has no private location to run in')
  if (asked === undefined) {
    const current = known.filter((one) => one.current)
    return current.length > 0 ? current : [...known]
  }
  const slugs = new Set(known.map(({ slug }) => slug))
  const unknown = asked.find((slug) => !slugs.has(slug))
  if (unknown !== undefined) {
    const has = [...slugs].join(', ')
    throw new ApiError(400, `locations: ${unknown} is not one of the check’s: ${has}`)
  }
  return known.filter(({ slug }) => asked.includes(slug))
}

function list(database: Database): DefinedOperation {
  return defineOperation({
    tag: TAG,
    summary: 'List the runs on demand of a check',
    method: 'get',
    path: PATH,
    params: { checkId },
    query: pageParameters('runs'),
    answers: {
      status: 200,
      schema: pageOf(Run, 'CheckRunsPage'),
      description: 'A page of runs, newest first',
    },
    async answer({ key, params: { checkId: owner }, query: { limit, nextId: after } }) {
      if (!(await knowsMonitor(database, key.accountId, owner))) throw notFound('check')
      const page = await listRuns(database, { owner, limit, after })
      return pageJson('runs', page)
    },
  })
}

const WAIT_ERROR = `must be a whole number up to ${RUN_BOUNDS.waitMsMax}`
const waiting = {
  waitMs: z
    .string()
    .regex(/^\d{1,5}$/, { error: WAIT_ERROR, abort: true })
    .transform(Number)
    .refine((ms) => ms <= RUN_BOUNDS.waitMsMax, { error: WAIT_ERROR })
    .default(0)
    .openapi({
      type: 'integer',
      minimum: 0,
      maximum: RUN_BOUNDS.waitMsMax,
      default: 0,
      description: 'How long to wait for a change; milliseconds',
    }),
  knownProgress: z.string().max(40).optional().openapi({
    description:
      'The `at` of the progress that the caller knows, or `none`: with it, another one is answered at once, too.',
    example: 'none',
  }),
  knownState: z.enum(RUN_STATES).optional().openapi({
    description:
      'The state that the caller knows: a run in another one is answered at once. By default the state at the start of the request.',
  }),
}

function read(database: Database, news: News, draining: AbortSignal): DefinedOperation {
  return defineOperation({
    tag: TAG,
    summary: 'Read a run, or wait until it changes',
    description:
      'With `waitMs` it answers when the state changes, with `knownProgress` when its agent has said how far it is, or when the time is over.',
    method: 'get',
    path: ONE,
    params,
    query: waiting,
    answers,
    async answer({ key: { accountId }, params: { checkId: monitorId, runId: id }, query }) {
      const run = { id, monitorId, accountId }
      const watch = news.watch(id)
      const row = orNotFound(
        await follow(database, run, {
          ...query,
          changed: (ms) => watch.wait(ms, draining),
        }).finally(() => watch.end()),
        'run',
      )
      return await detailJson(database, id, row)
    },
  })
}

interface Wait {
  waitMs: number
  knownState?: RunState | undefined
  knownProgress?: string | undefined
  /** Resolves with true when something happened since it was asked last, with false in time. */
  changed: (withinMs: number) => Promise<boolean>
}

/** Reads a run, if need be again and again, until it is in another state or the time is over. */
async function follow(
  database: Database,
  run: RunAddress,
  { waitMs, knownState, knownProgress, changed }: Wait,
): Promise<RunRow | undefined> {
  const until = performance.now() + waitMs
  let row = await readRun(database, run)
  const known = knownState ?? row?.state
  const cancelKnown = row?.cancelAsked
  while (row !== undefined && row.state !== 'finished') {
    if (row.state !== known || row.cancelAsked !== cancelKnown) break
    if (knownProgress !== undefined && progressAt(row) !== knownProgress) break
    const leftMs = until - performance.now()
    if (leftMs <= 0 || !(await changed(leftMs))) break
    row = await readRun(database, run)
  }
  return row
}

function progressAt({ progressAt: at }: RunRow): string {
  return at?.toISOString() ?? 'none'
}

function cancels(database: Database): DefinedOperation[] {
  const common = {
    tag: TAG,
    description:
      'At once when no agent has it; else its agent is notified, and its result shows the outcome. Cancelling again, or a run that is finished, changes nothing.',
    method: 'post' as const,
    action: 'run' as const,
    answers,
  }
  const cancel = async (run: RunAddress) => {
    await cancelRun(database, run)
    const row = orNotFound(await readRun(database, run), 'run')
    return await detailJson(database, run.id, row)
  }
  return [
    defineOperation({
      ...common,
      summary: 'Cancel a run of a check',
      path: `${ONE}/cancel`,
      params,
      answer: ({ key: { accountId }, params: { checkId: monitorId, runId: id } }) =>
        cancel({ id, monitorId, accountId }),
    }),
    defineOperation({
      ...common,
      summary: 'Cancel a run by its id',
      path: '/v1/runs/{runId}/cancel',
      params: { runId: params.runId },
      answer: ({ key: { accountId }, params: { runId: id } }) => cancel({ id, accountId }),
    }),
  ]
}

async function detailJson(database: Database, id: string, row: RunRow): Promise<string> {
  const { json, result, locationId, filesOverdue, progress } = row
  const stored = await artifactsOf(database, locationId, id)
  const rest: Pick<RunDetail, 'result' | 'artifacts' | 'progress'> = {
    result: result && {
      startedAt: new Date(result.startedAt).toISOString(),
      durationMs: result.durationMs,
      responseTimeMs: result.responseTimeMs ?? null,
      attempts: result.attempts,
      failures: result.failures ?? [],
      observed: result.detail?.observed ?? null,
    },
    artifacts: withArtifacts(result?.artifacts ?? [], stored, filesOverdue),
    progress: progress && {
      phase: progress.phase,
      done: progress.done ?? null,
      total: progress.total ?? null,
      line: progress.line ?? null,
      at: progressAt(row),
    },
  }
  return `${json.slice(0, -1)},${JSON.stringify(rest).slice(1)}`
}
