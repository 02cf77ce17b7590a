// Statements of rollups: an hour of a monitor in a location as counts, which outlive the rows.
import { classSql } from '../response-histogram.ts'
import { VERDICTS } from '../../../contract/result.ts'
import { execute, queryValue, sql } from '../../../database/sql.ts'
import type { Queryable } from '../../../database/database.ts'

const HOUR_MS = 3_600_000

const lockDone = queryValue(
  () => sql<{ untilHour: Date }>('rollups-lock')`
      select until_hour as "untilHour" from rollups_done for update`,
)

/**
 * The instant before which hours have been rolled up or are due. The row stays locked until the transaction
 * ends: recording of late results and rollups wait for each other. Undefined before the first expected slot.
 */
export async function lockRollupsDone(tx: Queryable): Promise<number | undefined> {
  const found = await lockDone(tx)
  if (found !== undefined) return found.getTime()
  await tx.query(sql('rollups-begin')`
      insert into rollups_done (until_hour)
      select date_trunc('hour', to_timestamp(min(from_ms) / 1000::float8), 'UTC') from expectations
      having min(from_ms) is not null on conflict do nothing`)
  return (await lockDone(tx))?.getTime()
}

/** Makes the hour that starts at `hourMs` due for everything that was expected in it. */
export const makeHourDue = execute(
  (hourMs: number) => sql('rollups-make-due')`
      with due as (
        insert into rollups_due (location_id, monitor_id, hour)
        select distinct location_id, monitor_id, to_timestamp(${hourMs}::bigint / 1000::float8)
        from expectations
        where from_ms < ${hourMs + HOUR_MS}::bigint and (until_ms is null or until_ms > ${hourMs}::bigint)
        on conflict do nothing)
      update rollups_done set until_hour = to_timestamp(${hourMs + HOUR_MS}::bigint / 1000::float8)`,
)

const VERDICT_COUNTS = VERDICTS.map((verdict) => {
  return `count(*) filter (where verdict = '${verdict}') as ${verdict}`
})

/** Columns of `results` that an hour is counted from. */
export const COUNTED =
  'r.location_id, r.monitor_id, r.slot, r.account_id, r.verdict, r.response_time_ms'
/** Counters of an hour, by the names of the columns of `rollups`. */
export const HOUR_COUNTS = [
  ...VERDICTS,
  'response_time_ms_sum',
  'response_time_ms_min',
  'response_time_ms_max',
  'response_times',
].join(', ')

/**
 * A query that counts `rows`, a query of COUNTED, into (location_id, monitor_id, hour, account_id) and
 * HOUR_COUNTS: first each class of response time, and from these the hour.
 */
export function countHoursSql(rows: string): string {
  return `select location_id, monitor_id, hour, (array_agg(account_id))[1] as account_id,
      ${VERDICTS.map((verdict) => `sum(${verdict})::int as ${verdict}`).join(', ')},
      coalesce(sum(time_sum), 0) as response_time_ms_sum, min(time_min) as response_time_ms_min,
      max(time_max) as response_time_ms_max,
      coalesce(jsonb_object_agg(class, times) filter (where class is not null), '{}')
        as response_times
    from (
      select location_id, monitor_id, date_trunc('hour', slot, 'UTC') as hour, account_id,
        ${classSql('response_time_ms')} as class, ${VERDICT_COUNTS.join(', ')},
        count(response_time_ms) as times, sum(response_time_ms::float8) as time_sum,
        min(response_time_ms) as time_min, max(response_time_ms) as time_max
      from (${rows}) counted group by 1, 2, 3, 4, 5
    ) classes group by 1, 2, 3`
}

const compute = {
  name: 'rollups-compute',
  text: `insert into rollups (location_id, monitor_id, hour, account_id, ${HOUR_COUNTS})
   ${countHoursSql(`select r.* from unnest($1::uuid[], $2::uuid[], $3::timestamptz[])
       d(location_id, monitor_id, hour)
     cross join lateral (select ${COUNTED} from results r
       where r.location_id = d.location_id and r.monitor_id = d.monitor_id
         and r.slot >= d.hour and r.slot < d.hour + interval '1 hour' offset 0) r`)}
   on conflict (location_id, monitor_id, hour) do update set
     ${HOUR_COUNTS.split(', ')
       .map((column) => `${column} = excluded.${column}`)
       .join(', ')}`,
}

/** Rolls up some of the hours that are due, at most `limit`, and answers with how many. */
export async function rollUpDue(tx: Queryable, limit: number): Promise<number> {
  const due = await tx.query(sql<{ location_id: string; monitor_id: string; hour: Date }>(
    'rollups-take-due',
  )`
      delete from rollups_due d using (
        select location_id, monitor_id, hour from rollups_due
        order by location_id, monitor_id, hour limit ${limit} for update skip locked) o
      where d.location_id = o.location_id and d.monitor_id = o.monitor_id and d.hour = o.hour
      returning d.location_id, d.monitor_id, d.hour`)
  if (due.length === 0) return 0
  await tx.query(compute, [
    due.map((one) => one.location_id),
    due.map((one) => one.monitor_id),
    due.map((one) => one.hour),
  ])
  return due.length
}
