// Statements on the events of heartbeats, which are their results.
import { sql } from '../../../database/sql.ts'
import type { Queryable } from '../../../database/database.ts'

/** A stored event. */
export interface EventRow {
  slotMs: number
  locationId: string
  verdict: 'passed' | 'failed'
  observed: { state: string; source: string | null; userAgent: string | null }
}

/** Events of a heartbeat in [fromMs, toMs), newest first. */
export async function listEvents(
  connection: Queryable,
  ask: { monitorId: string; fromMs: number; toMs: number; limit: number },
): Promise<EventRow[]> {
  return connection.query(sql<EventRow>('heartbeat-events')`
      select (extract(epoch from slot) * 1000)::bigint as "slotMs", location_id as "locationId", verdict,
        detail -> 'observed' as observed
      from results where monitor_id = ${ask.monitorId} and detail is not null
        and slot >= ${new Date(ask.fromMs)} and slot < ${new Date(ask.toMs)}
      order by slot desc limit ${ask.limit}`)
}

/** How many events of a heartbeat in [fromMs, toMs) there are, and how many of them passed. */
export async function countEvents(
  connection: Queryable,
  ask: { monitorId: string; fromMs: number; toMs: number },
): Promise<{ all: number; passed: number }> {
  const [row] = await connection.query(sql<{ all: number; passed: number }>('heartbeat-counts')`
      select count(*) as all, count(*) filter (where verdict = 'passed') as passed
      from results where monitor_id = ${ask.monitorId} and verdict in ('passed', 'failed')
        and slot >= ${new Date(ask.fromMs)} and slot < ${new Date(ask.toMs)}`)
  return row ?? { all: 0, passed: 0 }
}
