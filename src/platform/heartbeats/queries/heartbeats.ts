// Statements on heartbeats. Their results are rows of `results` in the internal location of the account, and each
// result and each deadline is an expected slot, so that the account of slots covers them.
import { execute, queryAs, queryRows, raw, sql } from '../../../database/sql.ts'
import type { Queryable } from '../../../database/database.ts'
import type { HeartbeatState } from '../heartbeat.ts'

/** A heartbeat, locked for the rest of the transaction. */
export interface HeartbeatRow extends HeartbeatState {
  monitorId: string
  accountId: string
  locationId: string
}

const COLUMNS = `monitor_id as "monitorId", account_id as "accountId", location_id as "locationId",
  period_ms as "periodMs", grace_ms as "graceMs", last_ping_ms as "lastPingMs", started_ms as "startedMs",
  last_slot_ms as "lastSlotMs", deadline_ms as "deadlineMs", is_late as "isLate"`

/** The heartbeats of these tokens, by the hexadecimal of their hash. */
export const lockPinged = queryAs(
  (tokenHashes: readonly string[]) => sql<HeartbeatRow & { tokenHash: string }>(
    'heartbeats-pinged',
  )`
      select ${raw(COLUMNS)}, encode(token_hash, 'hex') as "tokenHash" from heartbeats
      where token_hash = any (select decode(hash, 'hex') from unnest(${tokenHashes}::text[]) hash)
      order by monitor_id for update`,
  (rows) => new Map(rows.map(({ tokenHash, ...row }) => [tokenHash, row])),
)

/** Heartbeats whose deadline has passed, without those that another process handles. */
export const lockLate = queryRows(
  (nowMs: number, rowsMax: number) => sql<HeartbeatRow>('heartbeats-late')`
      select ${raw(COLUMNS)} from heartbeats where deadline_ms <= ${nowMs}
      order by deadline_ms limit ${rowsMax} for update skip locked`,
)

/** The heartbeats of these monitors. */
export const lockHeartbeats = queryAs(
  (monitorIds: readonly string[]) => sql<HeartbeatRow>('heartbeats-lock')`
      select ${raw(COLUMNS)} from heartbeats where monitor_id = any (${monitorIds}::uuid[])
      order by monitor_id for update`,
  (rows) => new Map(rows.map((row) => [row.monitorId, row])),
)

/** A heartbeat in a new state. */
export interface MovedHeartbeat extends HeartbeatRow {
  /** The deadline of the state before. */
  formerMs: number | null
  /** The slots of new results, and the deadline. */
  slots: readonly number[]
}

/** SQL: given heartbeats as rows of `moved`. */
const MOVED =
  raw(`as moved ("monitorId" uuid, "accountId" uuid, "locationId" uuid, "tokenHash" text,
        "periodMs" bigint, "graceMs" bigint, "lastPingMs" bigint, "startedMs" bigint, "lastSlotMs" bigint,
        "deadlineMs" bigint, "isLate" boolean, "formerMs" bigint, slots bigint[])`)

/** SQL: expects the slots of `moved`, and the former deadline only where it is one of them. */
const EXPECT = raw(`gone as (
        delete from expectations e using moved x
        where e.location_id = x."locationId" and e.monitor_id = x."monitorId" and e.from_ms = x."formerMs"
          and x."formerMs" <> all (x.slots)
      )
      insert into expectations (location_id, monitor_id, from_ms, until_ms, every_ms, offset_ms)
      select x."locationId", x."monitorId", slot, slot + 1, 1000, slot % 1000
      from moved x, unnest(x.slots) slot on conflict do nothing`)

/** Stores states. */
export const saveStates = execute(
  (rows: readonly MovedHeartbeat[]) => sql('heartbeats-save')`
      with moved as (select * from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) ${MOVED}), saved as (
        update heartbeats h set last_ping_ms = x."lastPingMs", started_ms = x."startedMs",
          last_slot_ms = x."lastSlotMs", deadline_ms = x."deadlineMs", is_late = x."isLate"
        from moved x where h.monitor_id = x."monitorId"
      ), ${EXPECT}`,
)

/** Creates or replaces heartbeats and their placements. A used token is a duplicate of `heartbeats_token_taken`. */
export const writeHeartbeats = execute(
  (rows: readonly (MovedHeartbeat & { tokenHash: string })[], nowMs: number) => sql(
    'heartbeats-write',
  )`
      with moved as (select * from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) ${MOVED}), written as (
        insert into heartbeats (monitor_id, account_id, location_id, token_hash, period_ms, grace_ms, last_ping_ms,
          started_ms, last_slot_ms, deadline_ms, is_late)
        select "monitorId", "accountId", "locationId", decode("tokenHash", 'hex'), "periodMs", "graceMs",
          "lastPingMs", "startedMs", "lastSlotMs", "deadlineMs", "isLate" from moved
        on conflict (monitor_id) do update set token_hash = excluded.token_hash, period_ms = excluded.period_ms,
          grace_ms = excluded.grace_ms, started_ms = excluded.started_ms, deadline_ms = excluded.deadline_ms,
          is_late = excluded.is_late
      ), placed as (
        insert into placements (location_id, monitor_id, revision, needs, every_ms, offset_ms, from_ms, until_ms)
        select "locationId", "monitorId", 1, array['HEARTBEAT'], "periodMs", 0, ${nowMs},
          case when "deadlineMs" is null then ${nowMs}::bigint end from moved
        on conflict (location_id, monitor_id) do update set every_ms = excluded.every_ms,
          until_ms = excluded.until_ms
      ), ${EXPECT}`,
)

/** The id of the account's internal location, which is made when it is first needed. */
export async function internalLocation(tx: Queryable, accountId: string): Promise<string> {
  const [row] = await tx.query(sql<{ id: string }>('internal-location')`
      with made as (
        insert into private_locations (id, account_id, name, slug_name, is_internal)
        values (gen_random_uuid(), ${accountId}, 'Platform', 'platform:heartbeats', true)
        on conflict (account_id, slug_name) do nothing returning id)
      select id from made
      union all select id from private_locations where account_id = ${accountId} and is_internal
      limit 1`)
  if (row === undefined) throw new Error('the internal location of the account was not created')
  return row.id
}

/** Ends the watch of deleted checks; those of other types are left alone. */
export const deleteHeartbeats = execute(
  (monitorIds: readonly string[]) => sql('heartbeats-delete')`
      with gone as (delete from heartbeats where monitor_id = any (${monitorIds}::uuid[]) returning *)
      delete from expectations e using gone g
      where e.location_id = g.location_id and e.monitor_id = g.monitor_id and e.from_ms = g.deadline_ms`,
)

export interface UnwatchedHeartbeat {
  monitorId: string
  accountId: string
  isActive: boolean
  /** Encrypted. */
  effective: string
}

/** Heartbeat checks without a heartbeat, locked. */
export const unwatchedHeartbeats = queryRows(
  () => sql<UnwatchedHeartbeat>('heartbeats-unwatched')`
      select m.id as "monitorId", m.account_id as "accountId", m.activated as "isActive", m.effective
      from monitors m left join heartbeats h on h.monitor_id = m.id
      where m.check_type = 'HEARTBEAT' and m.deleted_at is null and h.monitor_id is null
      order by m.id for update of m skip locked`,
)

export interface EventRow {
  slotMs: number
  locationId: string
  verdict: 'passed' | 'failed'
  observed: { state: string; source: string | null; userAgent: string | null }
}

/** Events of a heartbeat in [fromMs, toMs), newest first. */
export const listEvents = queryRows(
  (ask: { monitorId: string; fromMs: number; toMs: number; limit: number }) => sql<EventRow>(
    'heartbeat-events',
  )`
      select (extract(epoch from slot) * 1000)::bigint as "slotMs", location_id as "locationId", verdict,
        detail -> 'observed' as observed
      from results where monitor_id = ${ask.monitorId} and detail is not null
        and slot >= ${new Date(ask.fromMs)} and slot < ${new Date(ask.toMs)}
      order by slot desc limit ${ask.limit}`,
)

/** How many events of a heartbeat in [fromMs, toMs) there are, and how many of them passed. */
export const countEvents = queryAs(
  (ask: { monitorId: string; fromMs: number; toMs: number }) => sql<{
    all: number
    passed: number
  }>('heartbeat-counts')`
      select count(*) as all, count(*) filter (where verdict = 'passed') as passed
      from results where monitor_id = ${ask.monitorId} and verdict in ('passed', 'failed')
        and slot >= ${new Date(ask.fromMs)} and slot < ${new Date(ask.toMs)}`,
  ([row]) => row ?? { all: 0, passed: 0 },
)
