// Placements: which monitor runs in which location, reported to agents. Eras: since when and until when, from
// which the expected slots of any past span follow.
import { slotAtOrAfter, slotAtOrBefore, type Slots } from '../../../contract/timetable.ts'
import { AGENTS_CHANNEL } from '../../agents/queries/agents.ts'
import { queryAs, raw, sql } from '../../../database/sql.ts'
import type { Queryable } from '../../../database/database.ts'

/** A location in which a monitor is to run. */
export interface WantedPlacement {
  locationId: string
  /** Its slots there; whole milliseconds. */
  slots: Slots
  /** Abilities that an agent needs to run it, as in placements.needs. */
  needs: readonly string[]
}

/** All locations of one monitor; none when it is deactivated or deleted. */
export interface Placing {
  monitorId: string
  wanted: readonly WantedPlacement[]
}

/** A placement without its revision, which only its location knows. */
interface Placement extends Slots {
  locationId: string
  monitorId: string
  needs: readonly string[]
  fromMs: number
  untilMs: number | null
}

interface Changes {
  placements: Placement[]
  /** Ends of eras. */
  closed: { locationId: string; monitorId: string; atMs: number }[]
  /** Placements whose era begins. */
  opened: Placement[]
}

const PLACEMENTS_AT_ONCE = 5_000

/**
 * Makes `wanted` the locations of each monitor from `nowMs` on, and notifies their agents. Placements get the
 * next revision of their location, even where only the definition changed. No slot is expected before agents
 * can have received the change. The transaction must hold the account (`lockAccount`).
 */
export async function place(
  tx: Queryable,
  ask: { accountId: string; nowMs: number; monitors: readonly Placing[] },
): Promise<void> {
  const { accountId, monitors } = ask
  if (monitors.length === 0) return
  const ids = monitors.map((one) => one.monitorId)
  const rows = await tx.query(sql<Placement>('placements-current')`
      select location_id as "locationId", monitor_id as "monitorId", needs, every_ms as "everyMs",
        offset_ms as "offsetMs", from_ms as "fromMs", until_ms as "untilMs"
      from placements where monitor_id = any (${ids}::uuid[])`)
  const current = Map.groupBy(rows, (row) => row.monitorId)
  const changes: Changes = { placements: [], closed: [], opened: [] }
  // Slots are whole milliseconds: one that lies before now has passed.
  const nowMs = Math.ceil(ask.nowMs)
  for (const one of monitors) compare(one, current.get(one.monitorId) ?? [], nowMs, changes)
  const locationIds = [...new Set(changes.placements.map((one) => one.locationId))]
  const revisions = await raiseRevisions(tx, accountId, locationIds)
  await write(tx, changes, revisions)
}

/** Time within which agents receive a change. */
const CHANGE_DELAY_MS = 2_000
/** A new monitor waits for its next slot if that is due within this time. */
const SOON_MS = 10_000

/**
 * The first expected slot of a monitor that is new in a location: the next one if it is due soon, else the
 * last one that has passed. Agents run their first slot late, until the next one is due; only slots at short
 * intervals would be missed.
 */
function firstExpectedMs(slots: Slots, nowMs: number): number {
  const isOften = slots.everyMs < 2 * CHANGE_DELAY_MS
  const next = slotAtOrAfter(slots, isOften ? nowMs + CHANGE_DELAY_MS : nowMs)
  return next <= nowMs + SOON_MS ? next : slotAtOrBefore(slots, nowMs)
}

function compare(
  { monitorId, wanted }: Placing,
  rows: readonly Placement[],
  nowMs: number,
  changes: Changes,
): void {
  const left = new Map(rows.map((row) => [row.locationId, row]))
  for (const want of wanted) {
    const row = left.get(want.locationId)
    left.delete(want.locationId)
    settle(monitorId, want, row, nowMs, changes)
  }
  for (const row of left.values()) {
    if (row.untilMs !== null) continue
    // Clocks of several processes may differ by a little; an era never ends before it began.
    const atMs = Math.max(nowMs, row.fromMs)
    changes.closed.push({ locationId: row.locationId, monitorId, atMs })
    changes.placements.push({ ...row, untilMs: atMs })
  }
}

function settle(
  monitorId: string,
  { locationId, slots, needs }: WantedPlacement,
  row: Placement | undefined,
  nowMs: number,
  changes: Changes,
): void {
  const to = (fromMs: number): Placement => {
    const placement = { locationId, monitorId, needs, ...slots, fromMs, untilMs: null }
    changes.placements.push(placement)
    return placement
  }
  if (row === undefined || row.untilMs !== null) {
    const fromMs = firstExpectedMs(slots, nowMs)
    changes.opened.push(to(Math.max(fromMs, row?.untilMs ?? fromMs)))
  } else if (row.everyMs === slots.everyMs && row.offsetMs === slots.offsetMs) {
    to(row.fromMs)
  } else {
    const atMs = Math.max(nowMs, row.fromMs)
    changes.closed.push({ locationId, monitorId, atMs })
    changes.opened.push(to(Math.max(atMs, nowMs + CHANGE_DELAY_MS)))
  }
}

/**
 * Locks locations for the rest of the transaction in the order of their ids, raises their revisions, and
 * notifies their agents at the commit. Returns the new revisions of the account's own locations.
 */
export const raiseRevisions = queryAs(
  (accountId: string, locationIds: readonly string[]) => sql<{ id: string; revision: number }>(
    'locations-raise',
  )`
      with locked as (
        select id from private_locations
        where account_id = ${accountId} and id = any (${locationIds}::uuid[])
        order by id for no key update)
      update private_locations l set revision = revision + 1 from locked where l.id = locked.id
      returning l.id, l.revision, pg_notify('${raw(AGENTS_CHANNEL)}', l.id::text)::text as notified`,
  (rows) => new Map(rows.map(({ id, revision }) => [id, revision])),
)

const COLUMNS = `"locationId" uuid, "monitorId" uuid, revision bigint, needs text[],
  "everyMs" bigint, "offsetMs" bigint, "fromMs" bigint, "untilMs" bigint`

async function write(
  tx: Queryable,
  { placements, closed, opened }: Changes,
  revisions: ReadonlyMap<string, number>,
): Promise<void> {
  const stamped = placements.map((one) => ({ ...one, revision: revisions.get(one.locationId) }))
  for (const some of parts(stamped))
    await tx.query(sql('placements-write')`
      insert into placements
        (location_id, monitor_id, revision, needs, every_ms, offset_ms, from_ms, until_ms)
      select x."locationId", x."monitorId", x.revision, x.needs, x."everyMs", x."offsetMs",
        x."fromMs", x."untilMs"
      from jsonb_to_recordset(${JSON.stringify(some)}::jsonb) as x (${raw(COLUMNS)})
      on conflict (location_id, monitor_id) do update set revision = excluded.revision,
        needs = excluded.needs, every_ms = excluded.every_ms, offset_ms = excluded.offset_ms,
        from_ms = excluded.from_ms, until_ms = excluded.until_ms`)
  for (const some of parts(closed))
    // An era that would be empty is deleted.
    await tx.query(sql('expectations-close')`
      with closing as (
        select * from jsonb_to_recordset(${JSON.stringify(some)}::jsonb)
          as x ("locationId" uuid, "monitorId" uuid, "atMs" bigint)
      ), gone as (
        delete from expectations e using closing c
        where e.location_id = c."locationId" and e.monitor_id = c."monitorId"
          and e.until_ms is null and e.from_ms >= c."atMs"
      )
      update expectations e set until_ms = c."atMs" from closing c
      where e.location_id = c."locationId" and e.monitor_id = c."monitorId"
        and e.until_ms is null and e.from_ms < c."atMs"`)
  for (const some of parts(opened))
    await tx.query(sql('expectations-open')`
      insert into expectations (location_id, monitor_id, from_ms, every_ms, offset_ms)
      select x."locationId", x."monitorId", x."fromMs", x."everyMs", x."offsetMs"
      from jsonb_to_recordset(${JSON.stringify(some)}::jsonb) as x (${raw(COLUMNS)})`)
}

function* parts<T>(all: readonly T[]): Generator<T[]> {
  for (let start = 0; start < all.length; start += PLACEMENTS_AT_ONCE) {
    yield all.slice(start, start + PLACEMENTS_AT_ONCE)
  }
}
