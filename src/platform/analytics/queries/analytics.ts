// Statements behind analytics: hours of one monitor, from rollups where there are any, else from rows.
import type { CheckType } from '../../../monitors/definitions.ts'
import type { Totals } from '../schema.ts'
import { COUNTED, countHoursSql, HOUR_COUNTS } from './rollups.ts'
import { queryAs, queryRow, raw, sql } from '../../../database/sql.ts'
import type { Queryable } from '../../../database/database.ts'

const HOUR_MS = 3_600_000

/** Facts of a monitor that are shown next to its figures. */
export interface MonitorFacts {
  id: string
  name: string
  checkType: CheckType
  activated: boolean
  muted: boolean
  tags: string[]
}

/** A monitor of the account; undefined when it has none of that id. */
export const readMonitorFacts = queryRow(
  (accountId: string, id: string) => sql<MonitorFacts>('analytics-monitor')`
      select id, name, check_type as "checkType", activated, muted, tags from monitors
      where id = ${id} and account_id = ${accountId} and deleted_at is null`,
)

/** An hour of a monitor in a location, or the part of it that was asked for. */
export interface HourCounts extends Totals {
  locationId: string
  hour: Date
}

const SHOWN = `location_id as "locationId", hour, passed, degraded, failed, errored, cancelled, missed,
  response_time_ms_sum as "timeMsSum", response_time_ms_min as "timeMsMin",
  response_time_ms_max as "timeMsMax", response_times as times`

/** Counts the rows of the monitor $1 in the spans from $2 to $3. */
const fromRows = {
  name: 'analytics-rows',
  text: `select ${SHOWN} from (
     select location_id, hour, ${HOUR_COUNTS} from (${countHoursSql(
       `select r.* from unnest($2::float8[], $3::float8[]) g(from_ms, to_ms)
        cross join lateral (select ${COUNTED} from results r where r.monitor_id = $1
          and r.slot >= to_timestamp(g.from_ms / 1000)
          and r.slot < to_timestamp(g.to_ms / 1000) offset 0) r`,
     )}) hours
   ) shown`,
}

/** A stretch of time, [fromMs, toMs). */
export interface Span {
  fromMs: number
  toMs: number
}

/**
 * The hours of a monitor in `span`; where it begins or ends within an hour, that part of it. To be called
 * in a transaction of isolation `repeatable read`, so that nothing is counted twice or not at all.
 */
export async function readHours(
  tx: Queryable,
  monitorId: string,
  { fromMs, toMs }: Span,
): Promise<HourCounts[]> {
  const wholeFrom = Math.ceil(fromMs / HOUR_MS) * HOUR_MS
  const wholeTo = Math.floor(toMs / HOUR_MS) * HOUR_MS
  const [state] = await tx.query(sql<{ untilHour: Date | null; due: Date[] }>('analytics-open')`
      select (select until_hour from rollups_done) as "untilHour", array(
        select distinct hour from rollups_due where monitor_id = ${monitorId}
          and hour >= to_timestamp(${wholeFrom}::bigint / 1000::float8)
          and hour < to_timestamp(${wholeTo}::bigint / 1000::float8) order by hour) as due`)
  const rolledTo = Math.max(wholeFrom, Math.min(wholeTo, state?.untilHour?.getTime() ?? 0))
  const due = state?.due ?? []
  const spans = spansAround({ fromMs, toMs }, { fromMs: wholeFrom, toMs: rolledTo })
  for (const hour of due) {
    const at = hour.getTime()
    if (at < rolledTo) spans.push({ fromMs: at, toMs: at + HOUR_MS })
  }
  const hours = await tx.query(sql<HourCounts>('analytics-rollups')`
      select ${raw(SHOWN)} from rollups
      where monitor_id = ${monitorId} and hour >= to_timestamp(${wholeFrom}::bigint / 1000::float8)
        and hour < to_timestamp(${rolledTo}::bigint / 1000::float8) and hour <> all (${due}::timestamptz[])`)
  if (spans.length === 0) return hours
  const rest = await tx.query<HourCounts>(fromRows, [
    monitorId,
    spans.map((one) => one.fromMs),
    spans.map((one) => one.toMs),
  ])
  return [...hours, ...rest]
}

/** The parts of `all` before and after `inner`. */
function spansAround(all: Span, inner: Span): Span[] {
  if (inner.toMs <= inner.fromMs) return [all]
  return [
    { fromMs: all.fromMs, toMs: inner.fromMs },
    { fromMs: inner.toMs, toMs: all.toMs },
  ].filter((one) => one.fromMs < one.toMs)
}

/** The account's locations by id: their slugs. */
export const readSlugs = queryAs(
  (accountId: string) => sql<{ id: string; slugName: string }>('analytics-locations')`
      select id, slug_name as "slugName" from private_locations where account_id = ${accountId}`,
  (rows) => new Map(rows.map(({ id, slugName }) => [id, slugName])),
)
