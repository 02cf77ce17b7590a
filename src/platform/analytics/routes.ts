// GET /v1/analytics/…: availability and response times of a monitor, from hours that were rolled up and,
// for the rest, from rows.
import { z } from '@hono/zod-openapi'
import {
  addTotals,
  Analytics,
  analyticsOf,
  ANALYTICS_TYPES,
  AnalyticsAsk,
  AnalyticsSummary,
  figuresOf,
  listedMetrics,
  type Metric,
  MetricFacts,
  metricsOf,
  noTotals,
  QUICK_HOURS,
  QUICK_RANGES,
  SUMMARY_AGGREGATIONS,
  type QuickRange,
  type Totals,
  unmeasuredOf,
} from './schema.ts'
import { type CheckType, DEFINITIONS } from '../../monitors/definitions.ts'
import { VERDICTS } from '../../contract/result.ts'
import { CUSTOM_POLICIES } from '../../contract/api/rate-policy.ts'
import {
  type HourCounts,
  type MonitorFacts,
  readHours,
  readMonitorFacts,
  readSlugs,
  type Span,
} from './queries/analytics.ts'
import type { Database } from '../../database/database.ts'
import { notFound, ApiError } from '../http/errors.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { idParameter, namesParameter, unixSeconds } from '../http/parameters.ts'

export interface AnalyticsParts {
  database: Database
  /** Milliseconds on the platform's clock. */
  now: () => number
  /** Retention of rows; before that, only whole hours exist. */
  resultsMs: number
}

const HOUR_MS = 3_600_000
const STEPS_MS = { hour: HOUR_MS, day: 24 * HOUR_MS } as const
/** Maximum number of steps in an answer, over all locations. */
const STEPS_MAX = 24 * 31 + 1
const DAYS_MAX = 400
const SNAPSHOT = {
  isolation: 'repeatable read',
  readOnly: true,
  statementTimeoutMs: 30_000,
} as const

const query = {
  quickRange: z.enum(QUICK_RANGES).optional().openapi({
    description: 'Instead of `from` and `to`; weeks begin on Monday, in UTC. Default: last24Hours',
  }),
  from: unixSeconds('Where to begin, seconds since the Unix epoch; default a day before `to`'),
  to: unixSeconds('Where to end, not included; default now'),
  groupBy: z
    .enum(['location', 'runLocation'])
    .optional()
    .openapi({ description: 'A series for each location instead of one for all' }),
  interval: z
    .enum(['hour', 'day'])
    .optional()
    .openapi({ description: 'Figures for each hour or day (UTC) instead of the whole span' }),
  aggregationInterval: z
    .enum(['60', '1440'])
    .optional()
    .openapi({ description: 'The minutes of `interval`: `60` is `hour`, `1440` is `day`' }),
}

function queryOf(checkType: CheckType) {
  const names = [...metricsOf(checkType).keys(), ...unmeasuredOf(checkType)]
  const description =
    'Which figures, with commas between them; default all. Those that are not measured are left out'
  return { ...query, metrics: namesParameter(names, description) }
}

type Query = z.output<z.ZodObject<ReturnType<typeof queryOf>>>

/** One operation for each type of monitor that locations run, and one for several monitors. */
export function analyticsOperations(parts: AnalyticsParts): DefinedOperation[] {
  const ofTypes = ANALYTICS_TYPES.flatMap((checkType) =>
    (analyticsOf(checkType)?.paths ?? []).map((path) => ofType(parts, checkType, path)),
  )
  return [...ofTypes, ofSeveral(parts), metricsListing()]
}

function ofType(parts: AnalyticsParts, checkType: CheckType, path: string): DefinedOperation {
  return defineOperation({
    tag: 'Analytics',
    summary: `Availability and response times of a check of type ${checkType}`,
    description:
      'Verdicts about us (errored, cancelled, missed) do not count for availability and are shown separately.',
    method: 'get',
    path: `/v1/analytics/${path}/{id}`,
    policy: CUSTOM_POLICIES.analytics,
    params: { id: idParameter('monitor') },
    query: queryOf(checkType),
    lists: ['metrics'],
    answers: { status: 200, schema: Analytics, description: 'The figures' },
    answer: async ({ key, params, query: asked }) => {
      const answer = await analyse(parts, key.accountId, params.id, checkType, asked)
      return JSON.stringify(answer)
    },
  })
}

function ofSeveral({ database, now, resultsMs }: AnalyticsParts): DefinedOperation {
  return defineOperation({
    tag: 'Analytics',
    summary: 'Availability and response times of several checks',
    description: 'Checks that the account does not have are left out.',
    method: 'post',
    path: '/v1/analytics/checks',
    action: 'read',
    policy: CUSTOM_POLICIES.analytics,
    query: { quickRange: query.quickRange },
    body: AnalyticsAsk,
    answers: { status: 200, schema: z.array(AnalyticsSummary), description: 'The figures' },
    async answer({ key: { accountId }, query: asked, body }) {
      const span = spanOf(asked, now(), resultsMs)
      const all = await database.transaction(async (tx) => {
        const found: AnalyticsSummary[] = []
        for (const id of new Set(body.checkIds.map((one) => one.toLowerCase()))) {
          const facts = await readMonitorFacts(tx, accountId, id)
          if (facts === undefined) continue
          found.push(summaryOf(facts, await readHours(tx, id, span)))
        }
        return found
      }, SNAPSHOT)
      return JSON.stringify(all)
    },
  })
}

function metricsListing(): DefinedOperation {
  return defineOperation({
    tag: 'Analytics',
    summary: 'List the figures that analytics have',
    method: 'get',
    path: '/v1/analytics/metrics',
    query: {
      checkType: z
        .enum(ANALYTICS_TYPES)
        .optional()
        .openapi({ description: 'Only those of a type of check' }),
    },
    answers: { status: 200, schema: z.array(MetricFacts), description: 'The figures' },
    async answer({ query: { checkType } }) {
      return JSON.stringify(listedMetrics(checkType))
    },
  })
}

function summaryOf({ id, checkType }: MonitorFacts, hours: HourCounts[]): AnalyticsSummary {
  const totals = noTotals()
  for (const hour of hours) addTotals(totals, hour)
  const figures = figuresOf(totals)
  const name = DEFINITIONS.get(checkType)?.analytics?.isLatency ? 'latency' : 'responseTime'
  const times = SUMMARY_AGGREGATIONS.map((of) => [`${name}_${of}`, figures[of]] as const)
  return {
    checkId: id,
    checkType,
    availability: figures.availability,
    ...Object.fromEntries(times),
  }
}

async function analyse(
  { database, now, resultsMs }: AnalyticsParts,
  accountId: string,
  id: string,
  checkType: CheckType,
  asked: Query,
): Promise<Analytics> {
  const span = spanOf(asked, now(), resultsMs)
  return database.transaction(async (tx) => {
    const facts = await readMonitorFacts(tx, accountId, id)
    if (facts?.checkType !== checkType) throw notFound('monitor')
    const hours = await readHours(tx, id, span)
    const slugs = await readSlugs(tx, accountId)
    const groups =
      asked.groupBy === undefined
        ? new Map([[null, hours]])
        : Map.groupBy(hours, ({ locationId }) => slugs.get(locationId) ?? locationId)
    const known = metricsOf(checkType)
    const names = asked.metrics ?? [...known.keys()]
    const metrics = names.flatMap((name): [string, Metric][] => {
      const metric = known.get(name)
      return metric === undefined ? [] : [[name, metric]]
    })
    const interval = intervalOf(asked)
    const { id: checkId, ...shown } = facts
    return {
      checkId,
      ...shown,
      checkType,
      from: new Date(span.fromMs).toISOString(),
      to: new Date(span.toMs).toISOString(),
      series: [...groups]
        .toSorted(([a], [b]) => ((a ?? '') < (b ?? '') ? -1 : 1))
        .map(([location, some]) => ({
          location,
          runLocation: location,
          data: stepsOf(some, span, interval).map((step) => shownStep(step, metrics)),
        })),
      metadata: Object.fromEntries(
        metrics.map(([name, { unit, aggregation, label }]) => [name, { unit, aggregation, label }]),
      ),
    }
  }, SNAPSHOT)
}

/** The steps that are asked for. Throws 400 where they are asked for twice. */
function intervalOf({ interval, aggregationInterval }: Asked): Query['interval'] {
  if (aggregationInterval === undefined) return interval
  if (interval !== undefined) {
    throw new ApiError(400, 'aggregationInterval: must not be given together with interval')
  }
  return aggregationInterval === '60' ? 'hour' : 'day'
}

type Asked = Partial<Pick<Query, 'quickRange' | 'from' | 'to' | 'interval' | 'aggregationInterval'>>

/** The requested span and steps. Throws 400 for an invalid span or too many steps. */
function spanOf(asked: Asked, nowMs: number, resultsMs: number): Span {
  if (asked.quickRange !== undefined && (asked.from ?? asked.to) !== undefined) {
    throw new ApiError(400, 'quickRange: must not be given together with from or to')
  }
  const endMs = Math.ceil(nowMs)
  const quick = quickSpan(asked.quickRange ?? 'last24Hours', endMs)
  const toMs = Math.min(asked.to ?? quick.toMs, endMs)
  const given = asked.from ?? (asked.to === undefined ? quick.fromMs : toMs - STEPS_MS.day)
  if (given >= toMs) throw new ApiError(400, 'from: must lie before to, and before now')
  // Before that there are no rows from which to count a part of an hour.
  const isRolledUp = given < nowMs - resultsMs
  const fromMs = isRolledUp ? Math.floor(given / HOUR_MS) * HOUR_MS : given
  if (toMs - fromMs > DAYS_MAX * STEPS_MS.day) {
    throw new ApiError(400, `from: must lie at most ${DAYS_MAX} days before to`)
  }
  const interval = intervalOf(asked)
  const stepMs = interval === undefined ? Infinity : STEPS_MS[interval]
  if ((toMs - fromMs) / stepMs > STEPS_MAX) {
    throw new ApiError(400, `interval: would make more than ${STEPS_MAX} steps`)
  }
  return { fromMs, toMs }
}

/** The span of a named range at an instant. */
function quickSpan(range: QuickRange, nowMs: number): Span {
  if (range in QUICK_HOURS) {
    return { fromMs: nowMs - QUICK_HOURS[range as keyof typeof QUICK_HOURS] * HOUR_MS, toMs: nowMs }
  }
  const now = new Date(nowMs)
  const [year, month, day] = [now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate()]
  const sinceMonday = (now.getUTCDay() + 6) % 7
  const weekMs = Date.UTC(year, month, day - sinceMonday)
  const monthMs = Date.UTC(year, month)
  if (range === 'thisWeek') return { fromMs: weekMs, toMs: nowMs }
  if (range === 'thisMonth') return { fromMs: monthMs, toMs: nowMs }
  if (range === 'lastWeek') return { fromMs: weekMs - 7 * STEPS_MS.day, toMs: weekMs }
  return { fromMs: Date.UTC(year, month - 1), toMs: monthMs }
}

interface Step extends Span {
  totals: Totals
}

/** The totals of each step of the span; of steps without any slot as well. */
function stepsOf(hours: HourCounts[], span: Span, interval: Query['interval']): Step[] {
  const steps: Step[] = []
  const stepMs = interval === undefined ? Infinity : STEPS_MS[interval]
  const start = interval === undefined ? span.fromMs : Math.floor(span.fromMs / stepMs) * stepMs
  for (let at = start; at < span.toMs; at += stepMs) {
    const fromMs = Math.max(at, span.fromMs)
    steps.push({ fromMs, toMs: Math.min(at + stepMs, span.toMs), totals: noTotals() })
  }
  for (const hour of hours) {
    const index = interval === undefined ? 0 : Math.floor((hour.hour.getTime() - start) / stepMs)
    const step = steps[Math.max(0, index)]
    if (step !== undefined) addTotals(step.totals, hour)
  }
  return steps
}

function shownStep({ fromMs, toMs, totals }: Step, metrics: readonly [string, Metric][]) {
  const all = figuresOf(totals)
  const counts = VERDICTS.map((verdict) => [verdict, totals[verdict]] as const)
  return {
    from: new Date(fromMs).toISOString(),
    to: new Date(toMs).toISOString(),
    counts: {
      total: counts.reduce((sum, [, one]) => sum + one, 0),
      ...Object.fromEntries(counts),
    },
    ...Object.fromEntries(metrics.map(([name, { of }]) => [name, all[of]])),
  }
}
