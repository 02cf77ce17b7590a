// Statements on heartbeats. Their results are rows of `results` in the internal location of the account, and each
// result and each deadline is an expected slot, so that the account of slots covers them.
import { raw, sql } from '../../../database/sql.ts'
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
export async function lockPinged(
  tx: Queryable,
  tokenHashes: readonly string[],
): Promise<Map<string, HeartbeatRow>> {
  const rows = await tx.query(sql<HeartbeatRow & { tokenHash: string }>('heartbeats-pinged')`
      select ${raw(COLUMNS)}, encode(token_hash, 'hex') as "tokenHash" from heartbeats
      where token_hash = any (select decode(hash, 'hex') from unnest(${tokenHashes}::text[]) hash)
      order by monitor_id for update`)
  return new Map(rows.map(({ tokenHash, ...row }) => [tokenHash, row]))
}

/** Heartbeats whose deadline has passed, without those that another process handles. */
export async function lockLate(
  tx: Queryable,
  nowMs: number,
  rowsMax: number,
): Promise<HeartbeatRow[]> {
  return tx.query(sql<HeartbeatRow>('heartbeats-late')`
      select ${raw(COLUMNS)} from heartbeats where deadline_ms <= ${nowMs}
      order by deadline_ms limit ${rowsMax} for update skip locked`)
}

/** The heartbeats of these monitors. */
export async function lockHeartbeats(
  tx: Queryable,
  monitorIds: readonly string[],
): Promise<Map<string, HeartbeatRow>> {
  const rows = await tx.query(sql<HeartbeatRow>('heartbeats-lock')`
      select ${raw(COLUMNS)} from heartbeats where monitor_id = any (${monitorIds}::uuid[])
      order by monitor_id for update`)
  return new Map(rows.map((row) => [row.monitorId, row]))
}

/** Stores states. */
export async function saveStates(tx: Queryable, rows: readonly HeartbeatRow[]): Promise<void> {
  await tx.query(sql('heartbeats-save')`
      update heartbeats h set last_ping_ms = x."lastPingMs", started_ms = x."startedMs",
        last_slot_ms = x."lastSlotMs", deadline_ms = x."deadlineMs", is_late = x."isLate"
      from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as x ("monitorId" uuid, "lastPingMs" bigint,
        "startedMs" bigint, "lastSlotMs" bigint, "deadlineMs" bigint, "isLate" boolean)
      where h.monitor_id = x."monitorId"`)
}

/** A heartbeat as its definition wants it. */
export interface WantedHeartbeat extends HeartbeatRow {
  /** Hexadecimal. */
  tokenHash: string
}

/** Creates or replaces heartbeats and their placements. A used token is a duplicate of `heartbeats_token_taken`. */
export async function writeHeartbeats(
  tx: Queryable,
  rows: readonly WantedHeartbeat[],
  nowMs: number,
): Promise<void> {
  const given = JSON.stringify(rows)
  await tx.query(sql('heartbeats-write')`
      insert into heartbeats (monitor_id, account_id, location_id, token_hash, period_ms, grace_ms, last_ping_ms,
        started_ms, last_slot_ms, deadline_ms, is_late)
      select x."monitorId", x."accountId", x."locationId", decode(x."tokenHash", 'hex'), x."periodMs", x."graceMs",
        x."lastPingMs", x."startedMs", x."lastSlotMs", x."deadlineMs", x."isLate"
      from jsonb_to_recordset(${given}::jsonb) as x ("monitorId" uuid, "accountId" uuid, "locationId" uuid,
        "tokenHash" text, "periodMs" bigint, "graceMs" bigint, "lastPingMs" bigint, "startedMs" bigint,
        "lastSlotMs" bigint, "deadlineMs" bigint, "isLate" boolean)
      on conflict (monitor_id) do update set token_hash = excluded.token_hash, period_ms = excluded.period_ms,
        grace_ms = excluded.grace_ms, started_ms = excluded.started_ms, deadline_ms = excluded.deadline_ms,
        is_late = excluded.is_late`)
  await tx.query(sql('heartbeats-place')`
      insert into placements (location_id, monitor_id, revision, needs, every_ms, offset_ms, from_ms, until_ms)
      select x."locationId", x."monitorId", 1, array['HEARTBEAT'], x."periodMs", 0, ${nowMs},
        case when x."deadlineMs" is null then ${nowMs}::bigint end
      from jsonb_to_recordset(${given}::jsonb)
        as x ("monitorId" uuid, "locationId" uuid, "periodMs" bigint, "deadlineMs" bigint)
      on conflict (location_id, monitor_id) do update set every_ms = excluded.every_ms,
        until_ms = excluded.until_ms`)
}

/** An expected slot of a heartbeat. */
export interface HeartbeatSlot {
  locationId: string
  monitorId: string
  slotMs: number
}

/** Replaces expected slots: deadlines that no longer hold by the slots that came instead, and by new deadlines. */
export async function expectSlots(
  tx: Queryable,
  { gone, come }: { gone: readonly HeartbeatSlot[]; come: readonly HeartbeatSlot[] },
): Promise<void> {
  if (gone.length > 0)
    await tx.query(sql('heartbeats-unexpect')`
      delete from expectations e
      using jsonb_to_recordset(${JSON.stringify(gone)}::jsonb)
        as x ("locationId" uuid, "monitorId" uuid, "slotMs" bigint)
      where e.location_id = x."locationId" and e.monitor_id = x."monitorId" and e.from_ms = x."slotMs"`)
  if (come.length > 0)
    await tx.query(sql('heartbeats-expect')`
      insert into expectations (location_id, monitor_id, from_ms, until_ms, every_ms, offset_ms)
      select x."locationId", x."monitorId", x."slotMs", x."slotMs" + 1, 1000, x."slotMs" % 1000
      from jsonb_to_recordset(${JSON.stringify(come)}::jsonb)
        as x ("locationId" uuid, "monitorId" uuid, "slotMs" bigint)
      on conflict do nothing`)
}

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
  if (row === undefined) throw new Error('the internal location of the account was not made')
  return row.id
}

/** Deletes heartbeats of monitors, and returns the deadlines that are no longer expected. */
export async function deleteHeartbeats(
  tx: Queryable,
  monitorIds: readonly string[],
): Promise<HeartbeatSlot[]> {
  return tx.query(sql<HeartbeatSlot>('heartbeats-delete')`
      with gone as (delete from heartbeats where monitor_id = any (${monitorIds}::uuid[]) returning *)
      select location_id as "locationId", monitor_id as "monitorId", deadline_ms as "slotMs" from gone
      where deadline_ms is not null`)
}

/** Heartbeat checks without a heartbeat; `effective` is encrypted. */
export async function unwatchedHeartbeats(
  tx: Queryable,
): Promise<{ monitorId: string; accountId: string; isActive: boolean; effective: string }[]> {
  return tx.query(sql<{
    monitorId: string
    accountId: string
    isActive: boolean
    effective: string
  }>('heartbeats-unwatched')`
      select m.id as "monitorId", m.account_id as "accountId", m.activated as "isActive", m.effective
      from monitors m left join heartbeats h on h.monitor_id = m.id
      where m.check_type = 'HEARTBEAT' and m.deleted_at is null and h.monitor_id is null
      order by m.id for update of m skip locked`)
}
