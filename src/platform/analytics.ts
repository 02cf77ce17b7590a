// GET /v1/analytics/…: availability and response times of a monitor, from hours that were rolled up and,
// for the rest, from rows.
import { z } from '@hono/zod-openapi'
import {
  addTotals,
  Analytics,
  ANALYTICS_METRICS,
  ANALYTICS_PATHS,
  type AnalyticsMetric,
  figuresOf,
  METRIC_NAMES,
  noTotals,
  QUICK_RANGES,
  type Totals,
} from '../contract/analytics.ts'
import type { CheckType } from '../contract/monitor.ts'
import { CUSTOM_POLICIES } from '../contract/rate-policy.ts'
import {
  type HourCounts,
  readHours,
  readMonitorFacts,
  readSlugs,
  type Span,
} from '../store/analytics.ts'
import type { Database } from '../store/database.ts'
import { absent, ApiError } from './errors.ts'
import { unixSeconds, wordsOf } from './instants.ts'
import { defineOperation, type DefinedOperation } from './operation.ts'
import { idParameter } from './parameters.ts'

/** What analytics need. */
export interface AnalyticsParts {
  database: Database
  /** Milliseconds on the platform's clock. */
  now: () => number
  /** How long rows are kept; of time before that there are only whole hours. */
  resultsMs: number
}

const HOUR_MS = 3_600_000
const STEPS_MS = { hour: HOUR_MS, day: 24 * HOUR_MS } as const
/** Steps in an answer, all locations taken once. */
const STEPS_MAX = 24 * 31 + 1
const DAYS_MAX = 400
const STATEMENT_MS = 30_000

const query = {
  quickRange: z
    .enum(Object.keys(QUICK_RANGES) as (keyof typeof QUICK_RANGES)[])
    .optional()
    .openapi({ description: 'Up to now, instead of `from` and `to`; default last24Hours' }),
  from: unixSeconds('Where to begin, seconds since the Unix epoch; default a day before `to`'),
  to: unixSeconds('Where to end, not included; default now'),
  groupBy: z
    .enum(['location'])
    .optional()
    .openapi({ description: 'A series for each location instead of one for all' }),
  interval: z
    .enum(['hour', 'day'])
    .optional()
    .openapi({ description: 'Figures for each hour or day (UTC) instead of the whole span' }),
  metrics: wordsOf(METRIC_NAMES, 'Which figures, with commas between them; default all'),
}

type Query = z.output<z.ZodObject<typeof query>>

/** One operation for each type of monitor that locations run. */
export function analyticsOperations(parts: AnalyticsParts): DefinedOperation[] {
  return Object.entries(ANALYTICS_PATHS).map(([checkType, path]) =>
    defineOperation({
      operationId: `getV1Analytics${path.replace('-', '')}Id`,
      tag: 'Analytics',
      summary: `Availability and response times of one of the ${path.replace('-', ' ')}`,
      description:
        'Verdicts about us (errored, cancelled, missed) count for no availability and are shown beside it.',
      method: 'get',
      path: `/v1/analytics/${path}/{id}`,
      deed: 'read',
      policy: CUSTOM_POLICIES.analytics,
      params: { id: idParameter('monitor') },
      query,
      answers: { status: 200, schema: Analytics, description: 'The figures' },
      answer: async ({ key, params, query: asked }) => {
        const answer = await analyse(parts, key.accountId, params.id, checkType as CheckType, asked)
        return { status: 200, json: JSON.stringify(answer) }
      },
    }),
  )
}

async function analyse(
  { database, now, resultsMs }: AnalyticsParts,
  accountId: string,
  id: string,
  checkType: CheckType,
  asked: Query,
): Promise<Analytics> {
  const span = spanOf(asked, now(), resultsMs)
  return database.transaction(
    async (inside) => {
      const facts = await readMonitorFacts(inside, accountId, id)
      if (facts?.checkType !== checkType) throw absent('monitor')
      const hours = await readHours(inside, id, span)
      const slugs = await readSlugs(inside, accountId)
      const groups =
        asked.groupBy === undefined
          ? new Map([[null, hours]])
          : Map.groupBy(hours, ({ locationId }) => slugs.get(locationId) ?? locationId)
      const metrics = asked.metrics ?? METRIC_NAMES
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
            data: stepsOf(some, span, asked.interval).map((step) => shownStep(step, metrics)),
          })),
        metadata: Object.fromEntries(metrics.map((name) => [name, ANALYTICS_METRICS[name]])),
      }
    },
    { isolation: 'repeatable read', readOnly: true, statementTimeoutMs: STATEMENT_MS },
  )
}

/** What is to be counted. Throws 400 for spans that are none, or have too many steps. */
function spanOf(asked: Query, nowMs: number, resultsMs: number): Span {
  if (asked.quickRange !== undefined && (asked.from ?? asked.to) !== undefined) {
    throw new ApiError(400, 'quickRange: must not be given together with from or to')
  }
  const toMs = Math.min(asked.to ?? Math.ceil(nowMs), Math.ceil(nowMs))
  const hours = QUICK_RANGES[asked.quickRange ?? 'last24Hours']
  const given = asked.from ?? toMs - hours * HOUR_MS
  // Before that there are no rows from which to count a part of an hour.
  const isRolledUp = given < nowMs - resultsMs
  const fromMs = isRolledUp ? Math.floor(given / HOUR_MS) * HOUR_MS : given
  if (given >= toMs) throw new ApiError(400, 'from: must lie before to, and before now')
  if (toMs - fromMs > DAYS_MAX * 24 * HOUR_MS) {
    throw new ApiError(400, `from: must lie at most ${DAYS_MAX} days before to`)
  }
  const stepMs = asked.interval === undefined ? Infinity : STEPS_MS[asked.interval]
  if ((toMs - fromMs) / stepMs > STEPS_MAX) {
    throw new ApiError(400, `interval: would make more than ${STEPS_MAX} steps`)
  }
  return { fromMs, toMs }
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
    if (step !== undefined) addTotals(step.totals, { ...hour, counts: hour })
  }
  return steps
}

function shownStep({ fromMs, toMs, totals }: Step, metrics: readonly AnalyticsMetric[]) {
  const all = figuresOf(totals)
  const { counts } = totals
  return {
    from: new Date(fromMs).toISOString(),
    to: new Date(toMs).toISOString(),
    counts: { total: Object.values(counts).reduce((sum, one) => sum + one, 0), ...counts },
    ...Object.fromEntries(metrics.map((name) => [name, all[name]])),
  }
}
