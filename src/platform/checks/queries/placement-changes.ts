// Statements for reporting placements to agents: changes since a revision, definitions of the monitors, and
// the last recorded slots.
import { statement, type Connection } from '../../../database/statement.ts'

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

const since = statement<[string, number, boolean], ChangedPlacement>(
  'placements-since',
  `select monitor_id as "monitorId", revision, needs, every_ms as "everyMs",
     offset_ms as "offsetMs", from_ms as "fromMs", until_ms as "untilMs"
   from placements where location_id = $1 and (revision > $2 or ($3 and until_ms is null))`,
)

/**
 * Placements of a location that changed after `revision`; with `all` also the unchanged current ones.
 */
export function placementsSince(
  connection: Connection,
  locationId: string,
  { revision, all = false }: { revision: number; all?: boolean },
): Promise<ChangedPlacement[]> {
  return since(connection, locationId, revision, all)
}

const definitions = statement<[readonly string[]], { id: string; effective: string }>(
  'definitions-read',
  `select id, effective from monitors where id = any ($1::uuid[]) and deleted_at is null`,
)

/** Monitor → its effective definition, encrypted; without deleted monitors. */
export async function readDefinitions(
  connection: Connection,
  monitorIds: readonly string[],
): Promise<Map<string, string>> {
  const rows = await definitions(connection, monitorIds)
  return new Map(rows.map(({ id, effective }) => [id, effective]))
}

// The newest row of each monitor by the primary key of a few days' partitions.
const last = statement<
  [string, readonly string[], number],
  { monitor_id: string; slot: number; filled: boolean }
>(
  'slots-last',
  `select m.id as monitor_id, r.slot, r.filled
   from unnest($2::uuid[]) as m (id), lateral (
     select (extract(epoch from slot) * 1000)::bigint as slot, filled from results
     where location_id = $1 and monitor_id = m.id
       and slot > clock_timestamp() - make_interval(days => $3)
     order by slot desc limit 1
   ) r`,
)

/** How far back the last recorded slot is searched. */
const LOOK_DAYS = 3

/**
 * Monitor → the last slot that an agent reported. Where the platform filled in the newest slot for want of an
 * agent, it is the instant before that slot, which may still be run. Monitors without results for days are
 * left out.
 */
export async function lastRecordedSlots(
  connection: Connection,
  locationId: string,
  monitorIds: readonly string[],
): Promise<Map<string, number>> {
  const rows = await last(connection, locationId, monitorIds, LOOK_DAYS)
  return new Map(rows.map((row) => [row.monitor_id, row.filled ? row.slot - 1 : row.slot]))
}
