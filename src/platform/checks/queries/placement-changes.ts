// Statements for reporting placements to agents: changes since a revision, definitions of the monitors, and
// the last recorded slots.
import { queryAs, queryRows, sql } from '../../../database/sql.ts'

/** A placement, without its monitor's definition. */
export interface ChangedPlacement {
  monitorId: string
  revision: number
  needs: string[]
  everyMs: number
  offsetMs: number
  fromMs: number
  /** Not null: the monitor was removed from the location or deactivated. */
  untilMs: number | null
}

/**
 * Placements of a location that changed after `revision`; with `all` also the unchanged current ones.
 */
export const placementsSince = queryRows(
  (
    locationId: string,
    { revision, all }: { revision: number; all: boolean },
  ) => sql<ChangedPlacement>('placements-since')`
      select monitor_id as "monitorId", revision, needs, every_ms as "everyMs",
        offset_ms as "offsetMs", from_ms as "fromMs", until_ms as "untilMs"
      from placements where location_id = ${locationId} and (revision > ${revision} or (${all} and until_ms is null))`,
)

/** Monitor → its effective definition, encrypted; without deleted monitors. */
export const readDefinitions = queryAs(
  (monitorIds: readonly string[]) => sql<{ id: string; effective: string }>('definitions-read')`
      select id, effective from monitors where id = any (${monitorIds}::uuid[]) and deleted_at is null`,
  (rows) => new Map(rows.map(({ id, effective }) => [id, effective])),
)

/** How far back the last recorded slot is searched. */
const LOOK_DAYS = 3

/**
 * Monitor → the last slot that an agent reported. Where the platform filled in the newest slot for want of an
 * agent, it is the instant before that slot, which may still be run. Monitors without results for days are
 * left out.
 */
export const lastRecordedSlots = queryAs(
  (locationId: string, monitorIds: readonly string[]) => {
    // The newest row of each monitor by the primary key of a few days' partitions.
    return sql<{ monitor_id: string; slot: number; filled: boolean }>('slots-last')`
      select m.id as monitor_id, r.slot, r.filled
      from unnest(${monitorIds}::uuid[]) as m (id), lateral (
        select (extract(epoch from slot) * 1000)::bigint as slot, filled from results
        where location_id = ${locationId} and monitor_id = m.id
          and slot > clock_timestamp() - make_interval(days => ${LOOK_DAYS})
        order by slot desc limit 1
      ) r`
  },
  (rows) => new Map(rows.map((row) => [row.monitor_id, row.filled ? row.slot - 1 : row.slot])),
)
