// Statements that record results: one row for each slot, the first real result wins.
import { queryAs, queryRows, raw, sql } from '../../../database/sql.ts'
import type { Queryable } from '../../../database/database.ts'
import {
  type DroppedSpan,
  PROTOCOL_BOUNDS,
  type WireResult,
} from '../../../contract/protocol/agent-protocol.ts'
import { firstFailureCode } from '../../../contract/protocol/wire-result.ts'
import { slotAtOrAfterSql } from '../../../database/expected-slots.ts'

export interface MonitorSlot {
  monitorId: string
  slotMs: number
}

/** Joined to the slots `g` of a location's eras `e`: the era of which `g` is a slot. */
const ERA = raw(`e.monitor_id = g.monitor_id
  and e.from_ms <= g.slot_ms and (e.until_ms is null or g.slot_ms < e.until_ms)
  and (g.slot_ms - e.offset_ms) % e.every_ms = 0`)

export interface ResultsSource {
  locationId: string
  accountId: string
  /** Null where the platform itself made the results. */
  agentId: string | null
}

/**
 * Records results of expected slots that have none. A real result replaces a missed one, and a reported one
 * replaces a filled-in one. Returns the indexes of those that changed nothing. No slot may occur twice.
 */
export async function insertResults(
  tx: Queryable,
  { locationId, accountId, agentId }: ResultsSource,
  results: readonly { result: WireResult; detail: string | null }[],
): Promise<number[]> {
  const plain = (of: (result: WireResult) => string | number | undefined) =>
    plainArray(results.map(({ result }) => of(result)))
  const text = (of: (result: WireResult) => string | null | undefined) =>
    textArray(results.map(({ result }) => of(result) ?? null))
  const [row] = await tx.query(sql<{ others: number[] | null }>('results-insert')`
      with given as materialized (
        select * from unnest(${plain((one) => one.monitorId)}::uuid[],
          ${plain((one) => one.slot)}::bigint[], ${plain((one) => one.verdict)}::text[],
          ${text((one) => one.missedReason)}::text[],
          ${plain((one) => Math.round(one.startedAt))}::float8[],
          ${plain((one) => toMicroseconds(one.durationMs))}::real[],
          ${plain((one) => toMicroseconds(one.responseTimeMs))}::real[],
          ${plain((one) => one.attempts)}::smallint[],
          ${text((one) => firstFailureCode(one))}::text[],
          ${textArray(results.map(({ detail }) => detail))}::text[],
          ${plain((one) => one.clockUncertaintyMs)}::real[])
        with ordinality as g(monitor_id, slot_ms, verdict, missed_reason, started_ms, duration_ms,
          response_time_ms, attempts, failure_code, detail, clock_uncertainty_ms, at)
      ), recorded as (
        insert into results as r (location_id, monitor_id, slot, account_id, verdict, missed_reason,
          agent_id, started_at, duration_ms, response_time_ms, attempts, failure_code, detail,
          clock_uncertainty_ms)
        select ${locationId}::uuid, g.monitor_id, to_timestamp(g.slot_ms / 1000::float8),
          ${accountId}::uuid, g.verdict, g.missed_reason, ${agentId}::uuid,
          to_timestamp(g.started_ms / 1000), g.duration_ms, g.response_time_ms, g.attempts,
          g.failure_code, g.detail::jsonb, g.clock_uncertainty_ms
        from given g
        where exists (select from expectations e where e.location_id = ${locationId}::uuid and ${ERA})
        -- In one order, so that two batches with the same slots never wait for each other in a circle.
        order by g.monitor_id, g.slot_ms
        on conflict (location_id, monitor_id, slot) do update set
          verdict = excluded.verdict, missed_reason = excluded.missed_reason, needed = null,
          filled = false, agent_id = excluded.agent_id, started_at = excluded.started_at,
          duration_ms = excluded.duration_ms, response_time_ms = excluded.response_time_ms,
          attempts = excluded.attempts, failure_code = excluded.failure_code,
          detail = excluded.detail, clock_uncertainty_ms = excluded.clock_uncertainty_ms,
          received_at = excluded.received_at
        where r.verdict = 'missed' and (excluded.verdict <> 'missed' or r.filled)
        returning r.monitor_id, r.slot
      )
      select case when count(*) < ${results.length}::int then (
          select array_agg(g.at::int - 1 order by g.at) from given g
          where not exists (select from recorded
            where recorded.monitor_id = g.monitor_id
              and recorded.slot = to_timestamp(g.slot_ms / 1000::float8)))
        end as others
      from recorded`)
  return row?.others ?? []
}

/** As exact as anything is measured; less is below what a `real` can hold. */
function toMicroseconds(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.round(ms * 1000) / 1000
}

/** An array literal of values that need no quotes: numbers, GUIDs, our own enum values. */
function plainArray(values: readonly (string | number | undefined)[]): string {
  let text = '{'
  for (let index = 0; index < values.length; index++) {
    if (index > 0) text += ','
    text += values[index] ?? 'null'
  }
  return `${text}}`
}

/** An array literal of any texts. A tail of nulls is left out: unnest fills it up again. */
function textArray(values: readonly (string | null)[]): string {
  const end = values.findLastIndex((value) => value !== null) + 1
  let text = '{'
  for (let index = 0; index < end; index++) {
    if (index > 0) text += ','
    const value = values[index] ?? null
    text += value === null ? 'null' : `"${value.replaceAll(/["\\]/g, String.raw`\$&`)}"`
  }
  return `${text}}`
}

export interface Unrecorded {
  /** Place among those that were asked for. */
  at: number
  reason: 'known' | 'monitor-unknown' | 'slot-unknown'
}

/** Why insertResults did not record these slots. */
export const whyUnrecorded = queryRows(
  (locationId: string, slots: readonly MonitorSlot[]) => sql<Unrecorded>('results-unrecorded')`
      select g.at::int - 1 as at, case
          when exists (select from expectations e
            where e.location_id = ${locationId}::uuid and ${ERA}) then 'known'
          when exists (select from expectations e
            where e.location_id = ${locationId}::uuid and e.monitor_id = g.monitor_id)
          then 'slot-unknown' else 'monitor-unknown' end as reason
      from unnest(${plainArray(slots.map(({ monitorId }) => monitorId))}::uuid[],
        ${plainArray(slots.map(({ slotMs }) => slotMs))}::bigint[])
        with ordinality as g(monitor_id, slot_ms, at)
      order by g.at`,
)

/** A run on demand as results of it find it. */
export interface AwaitedRun {
  monitorId: string
  /** It has its result; what the platform filled in is none. */
  finished: boolean
  /** The agent that has it; null while none does. */
  agentId: string | null
  cancelAsked: boolean
}

/** The runs on demand of a location among `ids`, locked, so that two results of one come in turn. */
export const lockRunsOf = queryAs(
  (locationId: string, ids: readonly string[]) => sql<AwaitedRun & { id: string }>('results-runs')`
      select id, monitor_id as "monitorId", state = 'finished' and not filled as finished,
        agent_id as "agentId", cancel_asked_at is not null as "cancelAsked" from runs
      where location_id = ${locationId} and id = any (${plainArray(ids)}::uuid[]) order by id for update`,
  (rows) => new Map(rows.map(({ id, ...run }) => [id, run])),
)

const HOUR_MS = 3_600_000

/** Asks for new rollups of the slots before the hour of `nowMs`, as far as their hours have been rolled up. */
export async function markRollupsDue(
  tx: Queryable,
  locationId: string,
  slots: readonly MonitorSlot[],
  nowMs: number,
): Promise<void> {
  const past = slots.filter(({ slotMs }) => slotMs < nowMs - (nowMs % HOUR_MS))
  if (past.length === 0) return
  await tx.query(sql('results-rollups-due')`
      with done as (select until_hour from rollups_done for share)
      insert into rollups_due as d (location_id, monitor_id, hour)
      select distinct ${locationId}::uuid, g.monitor_id, h.hour
      from unnest(${plainArray(past.map(({ monitorId }) => monitorId))}::uuid[],
          ${plainArray(past.map(({ slotMs }) => slotMs))}::bigint[]) as g(monitor_id, slot_ms),
        lateral (select date_trunc('hour', to_timestamp(g.slot_ms / 1000::float8), 'UTC') as hour) h,
        done
      where h.hour < done.until_hour
      order by g.monitor_id, h.hour
      on conflict (location_id, monitor_id, hour) do update set hour = excluded.hour`)
}

const SLOTS_MAX = PROTOCOL_BOUNDS.droppedSlotsPerBatchMax

/** Filled-in reasons that the agent's report replaces. */
const LESS_SPECIFIC = `('no-agent', 'agent-lost', 'not-delivered', 'no-capable-agent')`

/**
 * Fills the expected slots of these spans, within [fromMs, toMs], as `missed` with the reason `spool-full`
 * where there is no result, or says so where another reason was filled in. At most
 * `droppedSlotsPerBatchMax` of them; the slots that changed.
 */
export const fillDropped = queryRows(
  (
    whose: ResultsSource,
    spans: readonly DroppedSpan[],
    { fromMs, toMs }: { fromMs: number; toMs: number },
  ) => sql<MonitorSlot>('dropped-fill')`
      with slots as (
        select distinct monitor_id, slot_ms from (
          select e.monitor_id, s.slot_ms
          from unnest(${spans.map(({ monitorId }) => monitorId)}::uuid[],
            ${spans.map(({ from }) => from)}::bigint[], ${spans.map(({ to }) => to)}::bigint[])
            g(monitor_id, from_ms, to_ms)
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
        (extract(epoch from r.slot) * 1000)::bigint as "slotMs"`,
)
