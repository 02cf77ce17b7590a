// Answers of analytics: figures of a monitor over a span of time, whole or in steps. Verdicts about us (errored,
// cancelled, missed) say nothing about the target: they do not count for availability and are shown separately.
import * as z from 'zod'
import type { AnalyticsDefinition } from '../../contract/type/definition.ts'
import { CHECK_TYPES, type CheckType, DEFINITIONS } from '../../monitors/definitions.ts'
import {
  countOf,
  mergeHistogram,
  quantilesOf,
  RELATIVE_ERROR,
  type ResponseHistogram,
} from './response-histogram.ts'
import { type Verdict, VERDICTS } from '../../contract/result.ts'

/** The types of monitors that have analytics. */
export const ANALYTICS_TYPES = CHECK_TYPES.filter((type) => analyticsOf(type) !== undefined)

/** The analytics of a type, where it has any. */
export function analyticsOf(checkType: CheckType): AnalyticsDefinition | undefined {
  return DEFINITIONS.get(checkType)?.analytics
}

/** Spans up to now that have a name, in hours. */
export const QUICK_HOURS = { last24Hours: 24, last7Days: 7 * 24, last30Days: 30 * 24 } as const
/** Names of spans; weeks begin on Monday, all of them in UTC. */
export const QUICK_RANGES = [
  'last24Hours',
  'last7Days',
  'last30Days',
  'thisWeek',
  'thisMonth',
  'lastWeek',
  'lastMonth',
] as const
export type QuickRange = (typeof QUICK_RANGES)[number]

/** What may be made of response times. */
const AGGREGATIONS = ['avg', 'min', 'max', 'sum', 'median', 'p50', 'p90', 'p95', 'p99'] as const
type Aggregation = (typeof AGGREGATIONS)[number]

/** A figure: its unit, its aggregation, its display name, and its computation from the totals. */
export interface Metric {
  unit: 'percentage' | 'milliseconds'
  aggregation: string
  label: string
  of: 'availability' | Aggregation
}

/** The figures of a type of monitor by their names. */
export function metricsOf(checkType: CheckType): Map<string, Metric> {
  const own = analyticsOf(checkType)?.time
  const times = [{ name: 'responseTime', label: 'Response time' }, ...(own ? [own] : [])]
  return new Map<string, Metric>([
    [
      'availability',
      { unit: 'percentage', aggregation: 'avg', label: 'Availability', of: 'availability' },
    ],
    ...times.flatMap(({ name, label }) =>
      AGGREGATIONS.map((of): [string, Metric] => [
        `${name}_${of}`,
        { unit: 'milliseconds', aggregation: of, label: `${label} ${of}`, of },
      ]),
    ),
  ])
}

/** Names of declared figures of a type of monitor that are left out of answers. */
export function unmeasuredOf(checkType: CheckType): string[] {
  return (analyticsOf(checkType)?.unmeasured ?? []).flatMap((name) =>
    [...AGGREGATIONS, 'stddev'].map((aggregation) => `${name}_${aggregation}`),
  )
}

/** What figures are made of: slots by verdict, and times. Sums of such totals are totals of the whole. */
export interface Totals extends Record<Verdict, number> {
  timeMsSum: number
  timeMsMin: number | null
  timeMsMax: number | null
  times: ResponseHistogram
}

/** Totals of nothing. */
export function noTotals(): Totals {
  const counts = Object.fromEntries(VERDICTS.map((verdict) => [verdict, 0]))
  const times = { timeMsSum: 0, timeMsMin: null, timeMsMax: null, times: {} }
  return { ...(counts as Record<Verdict, number>), ...times }
}

/** Adds `more` to `into`. */
export function addTotals(into: Totals, more: Totals): void {
  for (const verdict of VERDICTS) into[verdict] += more[verdict]
  into.timeMsSum += more.timeMsSum
  if (more.timeMsMin !== null) {
    into.timeMsMin = Math.min(into.timeMsMin ?? Infinity, more.timeMsMin)
  }
  if (more.timeMsMax !== null) into.timeMsMax = Math.max(into.timeMsMax ?? 0, more.timeMsMax)
  mergeHistogram(into.times, more.times)
}

/** All figures of some totals; null where there is nothing to say. */
export function figuresOf(totals: Totals): Record<Metric['of'], number | null> {
  const { passed, degraded, failed } = totals
  const about = passed + degraded + failed
  const times = countOf(totals.times)
  const [p50 = null, p90 = null, p95 = null, p99 = null] = quantilesOf(
    totals.times,
    [0.5, 0.9, 0.95, 0.99],
  ).map((quantile) => within(quantile, totals))
  return {
    availability: about === 0 ? null : rounded((100 * (passed + degraded)) / about, 4),
    avg: times === 0 ? null : rounded(totals.timeMsSum / times, 3),
    min: rounded(totals.timeMsMin, 3),
    max: rounded(totals.timeMsMax, 3),
    sum: times === 0 ? null : rounded(totals.timeMsSum, 3),
    median: rounded(p50, 3),
    p50: rounded(p50, 3),
    p90: rounded(p90, 3),
    p95: rounded(p95, 3),
    p99: rounded(p99, 3),
  }
}

/** A quantile is known by its class; the ends of the whole are known exactly. */
function within(quantile: number | null, { timeMsMin, timeMsMax }: Totals): number | null {
  if (quantile === null) return null
  return Math.min(Math.max(quantile, timeMsMin ?? 0), timeMsMax ?? Infinity)
}

function rounded(value: number | null, digits: number): number | null {
  return value === null ? null : Math.round(value * 10 ** digits) / 10 ** digits
}

const figure = z.number().nullable().optional()
const count = z.int().min(0)

const Counts = z.object({
  total: count,
  ...(Object.fromEntries(VERDICTS.map((verdict) => [verdict, count])) as object),
})

/** Figures of response times under a name. */
function figuresNamed(name: string, aggregations: readonly string[] = AGGREGATIONS): object {
  return Object.fromEntries(aggregations.map((one) => [`${name}_${one}`, figure]))
}

const OWN_NAMES = ANALYTICS_TYPES.flatMap((type) => analyticsOf(type)?.time?.name ?? [])

const Figures = z
  .object({
    from: z.string().meta({ format: 'date-time' }),
    to: z.string().meta({ format: 'date-time' }),
    counts: Counts.meta({ description: 'Slots by verdict' }),
    availability: figure.meta({
      description:
        'Percent: (passed + degraded) / (passed + degraded + failed); null without any of them',
    }),
    ...figuresNamed('responseTime'),
    responseTime_median: figure.meta({ description: 'The same as `responseTime_p50`' }),
    responseTime_p50: figure.meta({
      description: `Percentiles are exact within ${100 * RELATIVE_ERROR} percent of their value`,
    }),
    ...(Object.assign({}, ...OWN_NAMES.map((name) => figuresNamed(name))) as object),
  })
  .meta({ id: 'AnalyticsFigures' })

/** The answer of every analytics operation. */
export const Analytics = z
  .object({
    checkId: z.guid().meta({ format: 'uuid' }),
    name: z.string(),
    checkType: z.enum(CHECK_TYPES),
    activated: z.boolean(),
    muted: z.boolean(),
    tags: z.array(z.string()),
    from: z.string().meta({ format: 'date-time', description: 'Where what was counted begins' }),
    to: z.string().meta({ format: 'date-time', description: 'Where it ends, not included' }),
    series: z.array(
      z.object({
        location: z.string().nullable().meta({ description: 'Null: all locations together' }),
        runLocation: z.string().nullable().meta({ description: 'The same as `location`' }),
        data: z.array(Figures),
      }),
    ),
    metadata: z.record(
      z.string(),
      z.object({ unit: z.string(), aggregation: z.string(), label: z.string() }),
    ),
  })
  .meta({ id: 'Analytics' })
export type Analytics = z.infer<typeof Analytics>

/** Request for the figures of several monitors. */
export const AnalyticsAsk = z
  .strictObject({
    checkIds: z
      .array(z.guid().meta({ format: 'uuid' }))
      .min(1)
      .max(100),
  })
  .meta({
    id: 'AnalyticsAsk',
    example: { checkIds: ['0b0f1c3e-6a55-4d3f-9a5e-0a6f6d2f9a01'] },
  })

/** What the figures of several monitors have of response times. */
export const SUMMARY_AGGREGATIONS = ['avg', 'p50', 'p95', 'p99'] as const

/** The figures of one of several monitors. */
export const AnalyticsSummary = z
  .object({
    checkId: z.guid().meta({ format: 'uuid' }),
    checkType: z.enum(CHECK_TYPES),
    availability: z.number().nullable(),
    ...figuresNamed('responseTime', SUMMARY_AGGREGATIONS),
    ...figuresNamed('latency', SUMMARY_AGGREGATIONS),
    latency_avg: figure.meta({ description: 'Of ICMP and traceroute, in place of responseTime' }),
  })
  .meta({ id: 'AnalyticsSummary' })
export type AnalyticsSummary = z.infer<typeof AnalyticsSummary>

/** A figure as it is listed. */
export const MetricFacts = z
  .object({
    name: z.string(),
    unit: z.enum(['percentage', 'milliseconds']),
    label: z.string(),
    type: z.literal('Float'),
    aggregated: z.literal(true),
  })
  .meta({ id: 'AnalyticsMetric' })

/** The figures of one type of monitor, or of all types that have any. */
export function listedMetrics(checkType: CheckType | undefined): z.infer<typeof MetricFacts>[] {
  const types = checkType === undefined ? ANALYTICS_TYPES : [checkType]
  const all = new Map(types.flatMap((type) => [...metricsOf(type)]))
  return [...all].map(([name, { unit, label }]) => ({
    name,
    unit,
    label,
    type: 'Float',
    aggregated: true,
  }))
}
