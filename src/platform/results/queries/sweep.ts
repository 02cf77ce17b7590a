// Statements of the sweep, which inserts a row for every expected slot without a report.
import { slotAtOrAfterSql, slotsBetweenSql } from '../../../database/expected-slots.ts'
import { execute, queryAs, queryRows, queryValue, sql } from '../../../database/sql.ts'
import type { Queryable, Statement } from '../../../database/database.ts'
import type { MonitorSlot } from './results.ts'

const lockSweep = queryValue(
  () => sql<{ sweptUntilMs: number }>('sweep-lock')`
      select swept_until_ms as "sweptUntilMs" from accounting for update`,
)

/**
 * The end of the swept span. The row stays locked until the transaction ends, so that only one process
 * sweeps. The first sweep begins at the first expected slot, or at `startMs` when there is none.
 */
export async function beginSweep(tx: Queryable, startMs: number): Promise<number> {
  const found = await lockSweep(tx)
  if (found !== undefined) return found
  await tx.query(sql('sweep-begin')`
      insert into accounting (swept_until_ms)
      select least(${startMs}::bigint, min(from_ms)) from expectations on conflict do nothing`)
  return (await lockSweep(tx)) ?? startMs
}

/** A span to be swept, [fromMs, untilMs); rows before `floorMs` are not retained. */
export interface SweepWindow {
  fromMs: number
  untilMs: number
  floorMs: number
}

/**
 * Eras with slots that are due in the window [$1, $2), rows before $3 being expired. A slot is due at
 * its instant; one that lies before its era was written down is due when that happened.
 */
const DUE_ERAS = `select e.location_id, e.monitor_id, e.every_ms, e.offset_ms, l.account_id, w.lo, w.hi
  from expectations e
  join private_locations l on l.id = e.location_id
  cross join lateral (select
    greatest(e.from_ms, $3::bigint, case when e.opened_ms < $1::bigint then $1::bigint end) as lo,
    least(e.until_ms, $2::bigint) as hi) w
  where e.opened_ms < $2::bigint
    and (e.until_ms is null or e.until_ms > $1::bigint or e.opened_ms >= $1::bigint)
    and w.lo < w.hi`

const count = {
  name: 'sweep-expected',
  text: `select coalesce(sum(${slotsBetweenSql('e', 'e.lo', 'e.hi')}), 0)::bigint as slots
   from (${DUE_ERAS}) e`,
}

/** How many slots are due in the window. */
export const countDueSlots = queryAs(
  (window: SweepWindow): Statement<{ slots: number }> => ({ ...count, values: valuesOf(window) }),
  ([row]) => row?.slots ?? 0,
)

function valuesOf({ fromMs, untilMs, floorMs }: SweepWindow): number[] {
  return [fromMs, untilMs, floorMs]
}

/** Slots without a row that are missed for the same reason. */
export interface MissingSlots {
  locationId: string
  accountId: string
  /** The epoch of these slots; null when no agent had ever reported until then. */
  epoch: number | null
  needs: string[]
  slots: MonitorSlot[]
}

const find = {
  name: 'sweep-missing',
  text: `select e.location_id as "locationId", e.account_id as "accountId", o.epoch,
     coalesce(p.needs, array[m.check_type], '{}') as needs,
     json_agg(json_build_object('monitorId', e.monitor_id, 'slotMs', s.slot_ms)) as slots
   from (${DUE_ERAS}) e
   left join monitors m on m.id = e.monitor_id
   cross join lateral generate_series(${slotAtOrAfterSql('e', 'e.lo')}, e.hi - 1, e.every_ms) s(slot_ms)
   left join lateral (select true as there from results r
     where r.location_id = e.location_id and r.monitor_id = e.monitor_id
       and r.slot = to_timestamp(s.slot_ms / 1000::float8) limit 1) r on true
   left join lateral (select coalesce(
     (select one.epoch from location_epochs one
      where one.location_id = e.location_id and one.from_ms <= s.slot_ms
      order by one.epoch desc limit 1),
     -- Old epochs are deleted: the oldest remaining one stands for all before it, except the first.
     (select nullif(min(one.epoch), 1) from location_epochs one
      where one.location_id = e.location_id)) as epoch) o on true
   left join placements p on p.location_id = e.location_id and p.monitor_id = e.monitor_id
   where r.there is null
   group by 1, 2, 3, 4`,
}

/** Slots due in the window that have no row. */
export const findMissingSlots = queryRows((window: SweepWindow): Statement<MissingSlots> => ({
  ...find,
  values: valuesOf(window),
}))

export interface SweptMember {
  id: string
  abilities: string[]
  /** Since when it has been live without a break; null when it is not live. Milliseconds. */
  liveSinceMs: number | null
}

/** The agents of a location in an epoch. */
export const readMembers = queryRows(
  (locationId: string, epoch: number) => sql<SweptMember>('sweep-members')`
      select m.id, m.abilities, (extract(epoch from a.live_since) * 1000)::bigint as "liveSinceMs"
      from location_epochs e
      cross join lateral jsonb_to_recordset(e.members) m(id text, abilities text[])
      left join agents a on a.location_id = e.location_id and a.id::text = m.id and a.state = 'live'
      where e.location_id = ${locationId} and e.epoch = ${epoch}`,
)

/** Fills slots in, except those that were reported in the meantime; returns how many were filled. */
export const fillMissed = queryAs(
  (
    { locationId, accountId, slots }: MissingSlots,
    { reason, needed }: { reason: string; needed?: string },
  ) => sql<{ filled: number }>('sweep-fill')`
      with filled as (
        insert into results (location_id, account_id, monitor_id, slot, verdict, missed_reason, needed,
          filled, started_at, duration_ms, attempts)
        select ${locationId}::uuid, ${accountId}::uuid, g.monitor_id,
          to_timestamp(g.slot_ms / 1000), 'missed', ${reason}::text, ${needed ?? null}::text, true,
          to_timestamp(g.slot_ms / 1000), 0, 0
        from json_to_recordset(${JSON.stringify(slots)}::json) s("monitorId" uuid, "slotMs" float8)
        cross join lateral (select s."monitorId" as monitor_id, s."slotMs" as slot_ms) g
        order by g.monitor_id, g.slot_ms
        on conflict (location_id, monitor_id, slot) do nothing
        returning 1
      ) select count(*)::int as filled from filled`,
  (rows) => rows[0]?.filled ?? 0,
)

/** Records that the window is swept. */
export const advanceSweep = execute(
  ({ untilMs, expected, recorded }: { untilMs: number; expected: number; recorded: number }) => sql(
    'sweep-advance',
  )`
      update accounting set swept_until_ms = ${untilMs}::bigint,
        expected_total = expected_total + ${expected}::bigint, recorded_total = recorded_total + ${recorded}::bigint`,
)

/** Since when agents could report without a pause; undefined when unknown. */
export const readPulseSince = queryValue(
  () => sql<{ sinceMs: number }>('sweep-pulse')`
      select (extract(epoch from since) * 1000)::bigint as "sinceMs" from platform_pulse`,
)
