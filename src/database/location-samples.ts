// Statements on how much waits in a location, sampled minute by minute.
import { sql } from './sql.ts'
import type { Queryable } from './database.ts'

/** Stores a sample of every location with agents, and deletes those older than `daysMax`. */
export async function sampleLocations(connection: Queryable, daysMax: number): Promise<void> {
  // The last reports of agents on their queues; those of an unresponsive agent are outdated.
  await connection.query(sql('location-samples-take')`
      insert into location_samples (location_id, at, queue_size, oldest_scheduled_ms)
      select a.location_id, date_trunc('minute', clock_timestamp()),
        least(sum(coalesce((a.queues #>> '{uptime,waiting}')::numeric, 0)
          + coalesce((a.queues #>> '{scripted,waiting}')::numeric, 0)), 2147483647)::int,
        max(greatest((a.queues #>> '{uptime,oldestMs}')::numeric,
          (a.queues #>> '{scripted,oldestMs}')::numeric))::bigint
      from agents a where a.state = 'live'
      group by a.location_id
      on conflict (location_id, at) do update set queue_size = excluded.queue_size,
        oldest_scheduled_ms = excluded.oldest_scheduled_ms`)
  await connection.query(sql('location-samples-drop')`
      delete from location_samples
      where at < clock_timestamp() - make_interval(days => ${daysMax}::int)`)
}

/** A sample. */
export interface LocationSampleRow {
  at: Date
  queue_size: number
  oldest_scheduled_ms: number | null
}

/** Samples of a location within [from, to], oldest first, `limit` at most. */
export function listLocationSamples(
  connection: Queryable,
  locationId: string,
  from: Date,
  to: Date,
  limit: number,
): Promise<LocationSampleRow[]> {
  return connection.query(sql<LocationSampleRow>('location-samples-list')`
    select at, queue_size, oldest_scheduled_ms from location_samples
    where location_id = ${locationId} and at between ${from}::timestamptz and ${to}::timestamptz
    order by at limit ${limit}::int`)
}
