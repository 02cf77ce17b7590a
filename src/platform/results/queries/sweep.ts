// Statements of the sweep, which inserts a row for every expected slot without a report.
import { slotAtOrAfterSql, slotsBetweenSql } from '../../../database/expected-slots.ts'
import { statement, type Connection } from '../../../database/statement.ts'

const lock = statement<[], { sweptUntilMs: number }>(
  'sweep-lock',
  'select swept_until_ms as "sweptUntilMs" from accounting for update',
)

const begin = statement<[number], never>(
  'sweep-begin',
  `insert into accounting (swept_until_ms)
   select least($1::bigint, min(from_ms)) from expectations on conflict do nothing`,
)

/**
 * The end of the swept span. The row stays locked until the transaction ends, so that only one process
 * sweeps. The first sweep begins at the first expected slot, or at `startMs` when there is none.
 */
export async function beginSweep(tx: Connection, startMs: number): Promise<number> {
  const [found] = await lock(tx)
  if (found !== undefined) return found.sweptUntilMs
  await begin(tx, startMs)
  return (await lock(tx))[0]?.sweptUntilMs ?? startMs
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

const count = statement<[number, number, number], { slots: number }>(
  'sweep-expected',
  `select coalesce(sum(${slotsBetweenSql('e', 'e.lo', 'e.hi')}), 0)::bigint as slots
   from (${DUE_ERAS}) e`,
)

/** How many slots are due in the window. */
export async function countDueSlots(tx: Connection, window: SweepWindow): Promise<number> {
  return (await count(tx, window.fromMs, window.untilMs, window.floorMs))[0]?.slots ?? 0
}

/** Slots without a row that are missed for the same reason. */
export interface MissingSlots {
  locationId: string
  accountId: string
  /** The epoch of these slots; null when no agent had ever reported until then. */
  epoch: number | null
  needs: string[]
  monitorIds: string[]
  slotsMs: number[]
}

const find = statement<[number, number, number], MissingSlots>(
  'sweep-missing',
  // The limit makes PostgreSQL look up `results` by its index, slot by slot, which is the only fast plan for a
  // few slots of a day's partition.
  `select e.location_id as "locationId", e.account_id as "accountId", o.epoch,
     coalesce(p.needs, array[m.check_type], '{}') as needs,
     array_agg(e.monitor_id::text) as "monitorIds", array_agg(s.slot_ms::float8) as "slotsMs"
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
)

/** Slots due in the window that have no row. */
export async function findMissingSlots(
  tx: Connection,
  window: SweepWindow,
): Promise<MissingSlots[]> {
  return find(tx, window.fromMs, window.untilMs, window.floorMs)
}

/** An agent of a location in an epoch. */
export interface SweptMember {
  id: string
  abilities: string[]
  /** Since when it has been live without a break; null when it is not live. Milliseconds. */
  liveSinceMs: number | null
  /** Its last heartbeat, if it is live: a killed agent counts as live until the timeout. */
  lastSeenMs: number | null
}

const members = statement<[string, number], SweptMember>(
  'sweep-members',
  `select m.id, m.abilities, (extract(epoch from a.live_since) * 1000)::bigint as "liveSinceMs",
     (extract(epoch from a.last_seen_at) * 1000)::bigint as "lastSeenMs"
   from location_epochs e
   cross join lateral jsonb_to_recordset(e.members) m(id text, abilities text[])
   left join agents a on a.location_id = e.location_id and a.id::text = m.id and a.state = 'live'
   where e.location_id = $1 and e.epoch = $2`,
)

/** The agents of a location in an epoch. */
export async function readMembers(
  tx: Connection,
  locationId: string,
  epoch: number,
): Promise<SweptMember[]> {
  return members(tx, locationId, epoch)
}

type Fill = [string, string, string, string | null, string[], number[]]

const fill = statement<Fill, { filled: number }>(
  'sweep-fill',
  `with filled as (
     insert into results (location_id, account_id, monitor_id, slot, verdict, missed_reason, needed,
       filled, started_at, duration_ms, attempts)
     select $1::uuid, $2::uuid, g.monitor_id, to_timestamp(g.slot_ms / 1000), 'missed', $3::text,
       $4::text, true, to_timestamp(g.slot_ms / 1000), 0, 0
     from unnest($5::uuid[], $6::float8[]) g(monitor_id, slot_ms)
     order by g.monitor_id, g.slot_ms
     on conflict (location_id, monitor_id, slot) do nothing
     returning 1
   ) select count(*)::int as filled from filled`,
)

/** Fills slots in, except those that were reported in the meantime; returns how many were filled. */
export async function fillMissed(
  tx: Connection,
  { locationId, accountId, monitorIds, slotsMs }: MissingSlots,
  { reason, needed }: { reason: string; needed?: string },
): Promise<number> {
  const rows = await fill(tx, locationId, accountId, reason, needed ?? null, monitorIds, slotsMs)
  return rows[0]?.filled ?? 0
}

const advance = statement<[number, number, number], never>(
  'sweep-advance',
  `update accounting set swept_until_ms = $1::bigint,
     expected_total = expected_total + $2::bigint, recorded_total = recorded_total + $3::bigint`,
)

/** Records that the window is swept. */
export async function advanceSweep(
  tx: Connection,
  { untilMs, expected, recorded }: { untilMs: number; expected: number; recorded: number },
): Promise<void> {
  await advance(tx, untilMs, expected, recorded)
}

const pulse = statement<[], { sinceMs: number }>(
  'sweep-pulse',
  `select (extract(epoch from since) * 1000)::bigint as "sinceMs" from platform_pulse`,
)

/** Since when agents could report without a pause; undefined when unknown. */
export async function readPulseSince(connection: Connection): Promise<number | undefined> {
  return (await pulse(connection))[0]?.sinceMs
}
