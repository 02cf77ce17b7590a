// What analytics answer with: figures of a monitor over a span of time, whole or in steps. Verdicts about
// us (errored, cancelled, missed) say nothing about the target: they count for no availability and are
// shown beside it.
import * as z from 'zod'
import { CHECK_TYPES, type CheckType } from './monitor.ts'
import {
  countOf,
  mergeHistogram,
  quantilesOf,
  RELATIVE_ERROR,
  type ResponseHistogram,
} from './response-histogram.ts'
import { type Verdict, VERDICTS } from './result.ts'

/** The part of an address under /v1/analytics/ that names a type of monitor. */
export const ANALYTICS_PATHS: Partial<Record<CheckType, string>> = {
  URL: 'url-monitors',
  API: 'api-checks',
  TCP: 'tcp-monitors',
  DNS: 'dns-monitors',
  ICMP: 'icmp-monitors',
  GRPC: 'grpc-monitors',
  TRACEROUTE: 'traceroute-monitors',
  SSL: 'ssl-monitors',
  BROWSER: 'browser-checks',
  MULTI_STEP: 'multistep-checks',
  PLAYWRIGHT: 'playwright-checks',
}

/** Spans that have a name, up to now, in hours. */
export const QUICK_RANGES = { last24Hours: 24, last7Days: 7 * 24, last30Days: 30 * 24 } as const

/** Every figure: its unit, how it comes about, and its name for people. */
export const ANALYTICS_METRICS = {
  availability: { unit: 'percent', aggregation: 'ratio', label: 'Availability' },
  responseTime_avg: { unit: 'milliseconds', aggregation: 'avg', label: 'Response time avg' },
  responseTime_min: { unit: 'milliseconds', aggregation: 'min', label: 'Response time min' },
  responseTime_max: { unit: 'milliseconds', aggregation: 'max', label: 'Response time max' },
  responseTime_p50: { unit: 'milliseconds', aggregation: 'p50', label: 'Response time p50' },
  responseTime_p95: { unit: 'milliseconds', aggregation: 'p95', label: 'Response time p95' },
  responseTime_p99: { unit: 'milliseconds', aggregation: 'p99', label: 'Response time p99' },
} as const
export type AnalyticsMetric = keyof typeof ANALYTICS_METRICS
export const METRIC_NAMES = Object.keys(ANALYTICS_METRICS) as AnalyticsMetric[]

/** What figures are made of; sums of such totals are totals of the whole. */
export interface Totals {
  counts: Record<Verdict, number>
  timeMsSum: number
  timeMsMin: number | null
  timeMsMax: number | null
  times: ResponseHistogram
}

/** Totals of nothing. */
export function noTotals(): Totals {
  const counts = Object.fromEntries(VERDICTS.map((verdict) => [verdict, 0]))
  return {
    counts: counts as Record<Verdict, number>,
    timeMsSum: 0,
    timeMsMin: null,
    timeMsMax: null,
    times: {},
  }
}

/** Adds `more` to `into`. */
export function addTotals(into: Totals, more: Totals): void {
  for (const verdict of VERDICTS) into.counts[verdict] += more.counts[verdict]
  into.timeMsSum += more.timeMsSum
  if (more.timeMsMin !== null) {
    into.timeMsMin = Math.min(into.timeMsMin ?? Infinity, more.timeMsMin)
  }
  if (more.timeMsMax !== null) into.timeMsMax = Math.max(into.timeMsMax ?? 0, more.timeMsMax)
  mergeHistogram(into.times, more.times)
}

/** All figures of some totals; null where there is nothing to say. */
export function figuresOf(totals: Totals): Record<AnalyticsMetric, number | null> {
  const { passed, degraded, failed } = totals.counts
  const about = passed + degraded + failed
  const times = countOf(totals.times)
  const [p50 = null, p95 = null, p99 = null] = quantilesOf(totals.times, [0.5, 0.95, 0.99]).map(
    (quantile) => within(quantile, totals),
  )
  return {
    availability: about === 0 ? null : rounded((100 * (passed + degraded)) / about, 4),
    responseTime_avg: times === 0 ? null : rounded(totals.timeMsSum / times, 3),
    responseTime_min: rounded(totals.timeMsMin, 3),
    responseTime_max: rounded(totals.timeMsMax, 3),
    responseTime_p50: rounded(p50, 3),
    responseTime_p95: rounded(p95, 3),
    responseTime_p99: rounded(p99, 3),
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
  passed: count,
  degraded: count,
  failed: count,
  errored: count,
  cancelled: count,
  missed: count,
})

const Figures = z
  .object({
    from: z.string().meta({ format: 'date-time' }),
    to: z.string().meta({ format: 'date-time' }),
    counts: Counts.meta({ description: 'Slots by verdict' }),
    availability: figure.meta({
      description:
        'Percent: (passed + degraded) / (passed + degraded + failed); null without any of them',
    }),
    responseTime_avg: figure,
    responseTime_min: figure,
    responseTime_max: figure,
    responseTime_p50: figure.meta({
      description: `Percentiles are exact within ${100 * RELATIVE_ERROR} percent of their value`,
    }),
    responseTime_p95: figure,
    responseTime_p99: figure,
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
