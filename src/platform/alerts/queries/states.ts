// Statements on alert states: rows of monitors that are not well. A process that changes a state holds the lock
// on its row, so that two processes never alert twice.
import { freshAlertState, type AlertState } from '../../../contract/api/alert.ts'
import type { BadRun } from '../../../contract/api/alert-payload.ts'
import { UNATTENDED } from '../../private-locations/queries/locations.ts'
import { execute, queryAs, queryRows, raw, sql } from '../../../database/sql.ts'
import type { Queryable } from '../../../database/database.ts'

export interface AlertStateRow {
  monitorId: string
  accountId: string
  state: AlertState
  lastBad: BadRun | null
  incidentId: string | null
}

const columns = `s.monitor_id as "monitorId", s.account_id as "accountId", s.state,
  s.last_bad as "lastBad", s.incident_id as "incidentId"`

/** The states that there are of these monitors, locked for the rest of the transaction. */
export const lockAlertStates = queryRows(
  (monitorIds: string[]) => sql<AlertStateRow>('alert-states-lock')`
      select ${raw(columns)} from alert_states s where s.monitor_id = any (${monitorIds}::uuid[])
      order by s.monitor_id for update`,
)

/**
 * Creates states for monitors without one, and locks them. Waits for another process that does the same;
 * `begun` are the states created here.
 */
export async function beginAlertStates(
  tx: Queryable,
  accountId: string,
  monitorIds: string[],
): Promise<{ rows: AlertStateRow[]; begun: Set<string> }> {
  const made = await tx.query(sql<{ id: string }>('alert-states-begin')`
      insert into alert_states (monitor_id, account_id, state)
      select m.id, m.account_id, ${JSON.stringify(freshAlertState())}::jsonb from monitors m
      where m.account_id = ${accountId} and m.id = any (${monitorIds}::uuid[])
      order by m.id on conflict (monitor_id) do nothing returning monitor_id as id`)
  const rows = await lockAlertStates(tx, monitorIds)
  return { rows, begun: new Set(made.map(({ id }) => id)) }
}

/** States that are due by time, locked; without those that another process has locked. */
export const lockDueAlertStates = queryRows(
  (now: number, rowsMax: number) => sql<AlertStateRow>('alert-states-lock-due')`
      select ${raw(columns)} from alert_states s where s.due_at <= ${new Date(now).toISOString()}::timestamptz
      order by s.due_at limit ${rowsMax}::int for update skip locked`,
)

/** States of monitors that are deleted or switched off, locked. */
export const lockEndedAlertStates = queryRows(
  (rowsMax: number) => sql<AlertStateRow>('alert-states-lock-ended')`
      select ${raw(columns)} from alert_states s join monitors m on m.id = s.monitor_id
      where m.deleted_at is not null or not m.activated
      limit ${rowsMax}::int for update of s skip locked`,
)

export interface AlertStateChange extends AlertStateRow {
  /** Milliseconds since the Unix epoch. */
  dueAt: number | null
}

/** Stores locked states. */
export const saveAlertStates = execute(
  (changes: readonly AlertStateChange[]) => sql('alert-states-save')`
      update alert_states s set state = one.state, last_bad = one."lastBad",
        due_at = to_timestamp(one."dueAt" / 1000), incident_id = one."incidentId",
        updated_at = clock_timestamp()
      from jsonb_to_recordset(${JSON.stringify(changes)}::jsonb) as one ("monitorId" uuid,
        state jsonb, "lastBad" jsonb, "dueAt" float8, "incidentId" uuid)
      where s.monitor_id = one."monitorId"`,
)

/**
 * Deletes locked states of monitors that are well or no longer watched; stores the slots that ended their
 * alerts.
 */
export const deleteAlertStates = execute(
  (states: readonly { monitorId: string; endedSlot: number | null }[]) => sql(
    'alert-states-delete',
  )`
      with gone as (
        select * from jsonb_to_recordset(${JSON.stringify(states)}::jsonb)
          as gone ("monitorId" uuid, "endedSlot" bigint)
      ), ends as (
        insert into alert_ends (monitor_id, slot_ms)
        select "monitorId", "endedSlot" from gone where "endedSlot" is not null
        on conflict (monitor_id) do update set slot_ms = excluded.slot_ms
      )
      delete from alert_states where monitor_id in (select "monitorId" from gone)`,
)

/**
 * The slots that ended the last alerts of monitors. Call it once their states are locked, not in the same statement:
 * another process may have ended one while this one waited for the lock.
 */
export const readAlertEnds = queryAs(
  (monitorIds: string[]) => sql<{ monitorId: string; slot: number }>('alert-ends-read')`
      select monitor_id as "monitorId", slot_ms as slot from alert_ends
      where monitor_id = any (${monitorIds}::uuid[])`,
  (rows) => new Map(rows.map(({ monitorId, slot }) => [monitorId, slot])),
)

/** Makes the states of the monitors in these locations due. */
export const hurryAlertStates = execute(
  (locationIds: string[], now: number) => sql('alert-states-hurry')`
      with here as (
        select s.monitor_id from alert_states s
        where s.monitor_id in (select p.monitor_id from placements p
          where p.location_id = any (${locationIds}::uuid[]) and p.until_ms is null)
        order by s.monitor_id for update)
      update alert_states s set due_at = ${new Date(now).toISOString()}::timestamptz from here
      where s.monitor_id = here.monitor_id`,
)

/** A monitor as alerts need it. */
export interface AlertedMonitor {
  id: string
  accountId: string
  name: string
  checkType: string
  muted: boolean
  tags: string[]
  groupId: number | null
  groupName: string | null
  /** Encrypted; see platform/checks/encrypted-monitor.ts. */
  effective: string
  /** Its locations that are watched. */
  locations: string[]
  /** Its locations that were reported to have no agent. */
  unattended: string[]
}

const placed = (condition: string) =>
  `array(select p.location_id from placements p join private_locations l on l.id = p.location_id
     where p.monitor_id = m.id and p.until_ms is null and ${condition}
     order by p.location_id)::text[]`

/** Those of the monitors that are watched. */
export const readAlertedMonitors = queryRows(
  (monitorIds: string[]) => sql<AlertedMonitor>('alert-monitors')`
      select m.id, m.account_id as "accountId", m.name, m.check_type as "checkType", m.muted, m.tags,
        m.group_id as "groupId", g.name as "groupName", m.effective,
        ${raw(placed(`not ${UNATTENDED}`))} as locations, ${raw(placed(UNATTENDED))} as unattended
      from monitors m left join check_groups g on g.id = m.group_id
      where m.id = any (${monitorIds}::uuid[]) and m.deleted_at is null and m.activated`,
)

/**
 * For each of the given runs' monitors the newest slot of the location that was recorded with a verdict
 * about the target before: runs that come after it are news, those before it are not.
 */
export const newestOtherSlots = queryAs(
  (locationId: string, given: readonly { monitorId: string; slot: number }[]) => sql<{
    monitorId: string
    slot: number
  }>('alert-newest-others')`
      with given as (select * from unnest(${given.map((one) => one.monitorId)}::uuid[], ${given.map((one) => new Date(one.slot).toISOString())}::timestamptz[]) g (monitor_id, slot)),
        first as (select monitor_id, min(slot) as slot from given group by monitor_id)
      select f.monitor_id as "monitorId", (extract(epoch from r.slot) * 1000)::bigint as slot
      from first f cross join lateral (
        select r.slot from results r
        where r.location_id = ${locationId} and r.monitor_id = f.monitor_id and r.slot > f.slot
          and r.verdict in ('passed', 'degraded', 'failed')
          and not exists (select from given g where g.monitor_id = r.monitor_id and g.slot = r.slot)
        order by r.slot desc limit 1) r`,
  (rows) => new Map(rows.map((row) => [row.monitorId, row.slot])),
)

/** A run, as recorded among the results. */
export interface RecordedRun {
  monitorId: string
  locationId: string
  slot: number
  verdict: 'passed' | 'degraded' | 'failed'
  startedAt: number
  durationMs: number
  responseTimeMs: number | null
  failureCode: string | null
}

/**
 * Runs that were recorded in time and not evaluated, because another process recorded them while a state
 * began. In the order of slots.
 */
export const newerRuns = queryRows(
  (
    last: readonly { monitorId: string; locationId: string; slot: number }[],
    lateAfterMs: number,
  ) => sql<RecordedRun>('alert-newer-runs')`
      select r.monitor_id as "monitorId", r.location_id as "locationId",
        (extract(epoch from r.slot) * 1000)::bigint as slot, r.verdict,
        (extract(epoch from r.started_at) * 1000)::bigint as "startedAt",
        r.duration_ms as "durationMs", r.response_time_ms as "responseTimeMs",
        r.failure_code as "failureCode"
      from unnest(${last.map((one) => one.monitorId)}::uuid[], ${last.map((one) => one.locationId)}::uuid[], ${last.map((one) => new Date(one.slot).toISOString())}::timestamptz[]) last (monitor_id, location_id, slot)
      cross join lateral (
        select * from results r
        where r.location_id = last.location_id and r.monitor_id = last.monitor_id
          and r.slot > last.slot and r.verdict in ('passed', 'degraded', 'failed')
          and r.received_at <= r.started_at
            + make_interval(secs => (r.duration_ms + ${lateAfterMs}::double precision) / 1000)
        order by r.slot limit 20) r
      order by r.slot`,
)
