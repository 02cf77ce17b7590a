// Statements on faults of agents and of the platform itself: stored within bounds, listed, deleted.
import { createHash } from 'node:crypto'
import { FAULT_BOUNDS, type FaultReport } from '../../contract/protocol/fault-report.ts'
import type { Queryable } from '../../database/database.ts'
import { instantText } from '../../database/row-json.ts'
import { execute, queryValues, raw, sql } from '../../database/sql.ts'

/** The source of the fault; null: the platform. */
export interface FaultyProgram {
  locationId: string | null
  agentId: string | null
}

/** Stores a fault, replacing those not seen for longest; true when it is new. */
export async function storeFault(
  connection: Queryable,
  program: FaultyProgram,
  report: FaultReport,
): Promise<boolean> {
  const { locationId, agentId } = program
  const mark = createHash('sha256').update(markOf(report)).digest()
  const [row] = await connection.query(sql<{ isNew: boolean }>('fault-keep')`
    insert into faults as f (location_id, agent_id, mark, report)
    values (${locationId}, ${agentId}, ${mark}, ${JSON.stringify(report)}::jsonb)
    on conflict (location_id, agent_id, mark) do update set
      report = excluded.report, times = least(f.times + 1, 2000000000), last_seen_at = clock_timestamp()
    returning times = 1 as "isNew"`)
  const isNew = row?.isNew === true
  if (isNew) await trim(connection, program)
  return isNew
}

async function trim(connection: Queryable, { locationId, agentId }: FaultyProgram): Promise<void> {
  const { perAgentMax, perLocationMax } = FAULT_BOUNDS
  await connection.query(sql('faults-trim')`
    delete from faults where id in (
      (select id from faults where location_id is not distinct from ${locationId}
         and agent_id is not distinct from ${agentId} order by last_seen_at desc, id desc offset ${perAgentMax})
      union all
      (select id from faults where location_id is not distinct from ${locationId}
         order by last_seen_at desc, id desc offset ${perLocationMax}))`)
}

/** Its kind, its message and the nearest stack frames. */
function markOf({ release, type, message, stack }: FaultReport): string {
  return JSON.stringify([release, type, message, stack.slice(0, 3)])
}

const OBSERVATION = raw(`jsonb_build_object('count', f.times,
  'firstSeenAt', ${instantText('f.first_seen_at')}, 'lastSeenAt', ${instantText('f.last_seen_at')})`)

/** The faults of a location's agents, or of one of them, as JSON; last seen first. */
export const faultsOfLocation = queryValues(
  (ask: { accountId: string; locationId: string; agentId: string | null }) => {
    const { accountId, locationId, agentId } = ask
    return sql<{ json: string }>('faults-of-location')`
    select (f.report || jsonb_build_object('agentId', f.agent_id) || ${OBSERVATION})::text as json
    from faults f join private_locations l on l.id = f.location_id
    where l.account_id = ${accountId} and l.id = ${locationId}
      and (${agentId}::uuid is null or f.agent_id = ${agentId})
    order by f.last_seen_at desc, f.id desc limit ${FAULT_BOUNDS.perLocationMax}`
  },
)

/** The faults of the platform itself, as JSON; last seen first. */
export const faultsOfPlatform = queryValues(
  () => sql<{ json: string }>('faults-of-platform')`
    select (f.report || ${OBSERVATION})::text as json from faults f where f.location_id is null
    order by f.last_seen_at desc, f.id desc limit ${FAULT_BOUNDS.perAgentMax}`,
)

/** Deletes faults not seen for this time. */
export const forgetFaults = execute(
  (retentionMs: number) => sql('faults-forget')`
    delete from faults where last_seen_at < clock_timestamp() - make_interval(secs => ${retentionMs / 1000})`,
)
