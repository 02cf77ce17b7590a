// Statements on slots that agents say they run at present, as each sync says anew: a suite takes up to an hour,
// and a slot is swept minutes after its instant.
import type { SlotUnderWay } from '../../../contract/protocol/run-progress.ts'
import type { Queryable } from '../../../database/database.ts'
import { queryRows, raw, sql } from '../../../database/sql.ts'

/** How long a report of an agent is valid: two syncs, and the heartbeat timeout. */
const SAID_S = 60

/** Slots that present or leaving agents report as running, with their progress. */
const SAID = `select a.location_id, a.id as agent_id, a.last_seen_at, said.one,
    (said.one->>'monitorId')::uuid as monitor_id, (said.one->>'slot')::float8 as slot_ms
  from agents a cross join lateral jsonb_array_elements(a.queues->'scripted'->'slots') said(one)
  where a.state <> 'lost' and a.last_seen_at > clock_timestamp() - make_interval(secs => ${SAID_S})
    and jsonb_typeof(a.queues->'scripted'->'slots') = 'array'`

/**
 * Marks filled-in slots that agents report as running as `under-way`. Those without a report for `graceMs`
 * become `agent-lost`, or `not-delivered` if the agent is still there.
 */
export async function sortUnderWay(
  tx: Queryable,
  { nowMs, graceMs }: { nowMs: number; graceMs: number },
): Promise<void> {
  await tx.query(sql('under-way-keep')`
      update results r set missed_reason = 'under-way', needed = null, agent_id = s.agent_id,
        received_at = to_timestamp(${nowMs}::float8 / 1000)
      from (${raw(SAID)}) s
      where r.location_id = s.location_id and r.monitor_id = s.monitor_id
        and r.slot = to_timestamp(s.slot_ms / 1000) and r.filled`)
  await tx.query(sql('under-way-lose')`
      update results r set agent_id = null, missed_reason = case when exists (
          select from agents a where a.location_id = r.location_id and a.id = r.agent_id
            and a.state = 'live' and a.live_since <= r.slot)
        then 'not-delivered' else 'agent-lost' end
      where missed_reason = 'under-way' and filled
        and received_at < to_timestamp((${nowMs}::float8 - ${graceMs}::float8) / 1000)`)
}

export interface UnderWayRow {
  location: string
  agentId: string
  /** When its agent last reported this. */
  saidAt: Date
  said: SlotUnderWay
}

/** Scheduled runs of a monitor that are under way, by location. */
export const slotsUnderWay = queryRows(
  (accountId: string, monitorId: string) => sql<UnderWayRow>('under-way-list')`
      select l.slug_name as location, s.agent_id as "agentId", s.last_seen_at as "saidAt", s.one as said
      from (${raw(SAID)}) s join private_locations l on l.id = s.location_id
      where l.account_id = ${accountId} and s.monitor_id = ${monitorId}
      order by l.slug_name, s.slot_ms limit 100`,
)
