// Statements on slots whose results an agent dropped because its spool was full, reported as spans.
import { PROTOCOL_BOUNDS } from '../../../contract/protocol/agent-protocol.ts'
import { slotAtOrAfterSql } from '../../../database/expected-slots.ts'
import { raw, sql } from '../../../database/sql.ts'
import type { Queryable } from '../../../database/database.ts'

const SLOTS_MAX = PROTOCOL_BOUNDS.droppedSlotsPerBatchMax

/** Filled-in reasons that the agent's report replaces. */
const LESS_SPECIFIC = `('no-agent', 'agent-lost', 'not-delivered', 'no-capable-agent')`

/**
 * Fills the expected slots of these spans, within [fromMs, toMs], as `missed` with the reason `spool-full`
 * where there is no result, or says so where another reason was filled in. At most
 * `droppedSlotsPerBatchMax` of them; the slots that changed.
 */
export async function fillDropped(
  tx: Queryable,
  whose: { locationId: string; accountId: string; agentId: string },
  spans: readonly { monitorId: string; from: number; to: number }[],
  { fromMs, toMs }: { fromMs: number; toMs: number },
): Promise<{ monitorId: string; slotMs: number }[]> {
  return tx.query(sql<{ monitorId: string; slotMs: number }>('dropped-fill')`
      with slots as (
        select distinct monitor_id, slot_ms from (
          select e.monitor_id, s.slot_ms
          from unnest(${spans.map(({ monitorId }) => monitorId)}::uuid[], ${spans.map(({ from }) => from)}::bigint[], ${spans.map(({ to }) => to)}::bigint[]) g(monitor_id, from_ms, to_ms)
          join expectations e on e.location_id = ${whose.locationId}::uuid and e.monitor_id = g.monitor_id
            and e.from_ms <= g.to_ms and (e.until_ms is null or e.until_ms > g.from_ms)
          cross join lateral (select greatest(e.from_ms, g.from_ms, ${fromMs}::bigint) as lo,
            least(e.until_ms - 1, g.to_ms, ${toMs}::bigint) as hi) w
          cross join lateral generate_series(${raw(slotAtOrAfterSql('e', 'w.lo'))},
            least(w.hi, w.lo + ${raw(SLOTS_MAX)} * e.every_ms), e.every_ms) s(slot_ms)
          limit ${raw(SLOTS_MAX)}) due
      )
      insert into results as r (location_id, account_id, agent_id, monitor_id, slot, verdict,
        missed_reason, filled, started_at, duration_ms, attempts)
      select ${whose.locationId}::uuid, ${whose.accountId}::uuid, ${whose.agentId}::uuid, monitor_id, to_timestamp(slot_ms / 1000::float8), 'missed',
        'spool-full', true, to_timestamp(slot_ms / 1000::float8), 0, 0
      from slots order by monitor_id, slot_ms
      on conflict (location_id, monitor_id, slot) do update set
        missed_reason = excluded.missed_reason, needed = null, agent_id = excluded.agent_id
      where r.filled and r.missed_reason in ${raw(LESS_SPECIFIC)}
      returning r.monitor_id as "monitorId",
        (extract(epoch from r.slot) * 1000)::bigint as "slotMs"`)
}
