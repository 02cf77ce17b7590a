// Statements on faults of agents and of the platform itself: stored within bounds, listed, deleted.
import { createHash } from 'node:crypto'
import { FAULT_BOUNDS, type FaultReport } from '../../contract/protocol/fault-report.ts'
import { statement, type Connection } from '../../database/statement.ts'

/** The source of the fault; null: the platform. */
export interface FaultyProgram {
  locationId: string | null
  agentId: string | null
}

const PLATFORM: FaultyProgram = { locationId: null, agentId: null }

const keep = statement<[string | null, string | null, Buffer, string], { isNew: boolean }>(
  'fault-keep',
  `insert into faults as f (location_id, agent_id, mark, report) values ($1, $2, $3, $4::jsonb)
   on conflict (location_id, agent_id, mark) do update set
     report = excluded.report, times = least(f.times + 1, 2000000000), last_seen_at = clock_timestamp()
   returning times = 1 as "isNew"`,
)

const trim = statement<[string | null, string | null, number, number], never>(
  'faults-trim',
  `delete from faults where id in (
     (select id from faults where location_id is not distinct from $1
        and agent_id is not distinct from $2 order by last_seen_at desc, id desc offset $3)
     union all
     (select id from faults where location_id is not distinct from $1
        order by last_seen_at desc, id desc offset $4))`,
)

/** Stores a fault, replacing those not seen for longest; true when it is new. */
export async function storeFault(
  connection: Connection,
  { locationId, agentId }: FaultyProgram,
  report: FaultReport,
): Promise<boolean> {
  const mark = createHash('sha256').update(markOf(report)).digest()
  const [row] = await keep(connection, locationId, agentId, mark, JSON.stringify(report))
  const isNew = row?.isNew === true
  const { perAgentMax, perLocationMax } = FAULT_BOUNDS
  if (isNew) await trim(connection, locationId, agentId, perAgentMax, perLocationMax)
  return isNew
}

/** Stores a fault of the platform itself. */
export async function storePlatformFault(
  connection: Connection,
  report: FaultReport,
): Promise<void> {
  await storeFault(connection, PLATFORM, report)
}

function instantText(column: string): string {
  return `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`
}

/** Its kind, its message and the nearest stack frames. */
function markOf({ release, type, message, stack }: FaultReport): string {
  return JSON.stringify([release, type, message, stack.slice(0, 3)])
}

const OBSERVATION = `jsonb_build_object('count', f.times,
  'firstSeenAt', ${instantText('f.first_seen_at')}, 'lastSeenAt', ${instantText('f.last_seen_at')})`

const ofLocation = statement<[string, string, string | null, number], { json: string }>(
  'faults-of-location',
  `select (f.report || jsonb_build_object('agentId', f.agent_id) || ${OBSERVATION})::text as json
   from faults f join private_locations l on l.id = f.location_id
   where l.account_id = $1 and l.id = $2 and ($3::uuid is null or f.agent_id = $3)
   order by f.last_seen_at desc, f.id desc limit $4`,
)

/** The faults of a location's agents, or of one of them, as JSON; last seen first. */
export async function faultsOfLocation(
  connection: Connection,
  ask: { accountId: string; locationId: string; agentId: string | null },
): Promise<string[]> {
  const { accountId, locationId, agentId } = ask
  const rows = await ofLocation(
    connection,
    accountId,
    locationId,
    agentId,
    FAULT_BOUNDS.perLocationMax,
  )
  return rows.map(({ json }) => json)
}

const ofPlatform = statement<[number], { json: string }>(
  'faults-of-platform',
  `select (f.report || ${OBSERVATION})::text as json from faults f where f.location_id is null
   order by f.last_seen_at desc, f.id desc limit $1`,
)

/** The faults of the platform itself, as JSON; last seen first. */
export async function faultsOfPlatform(connection: Connection): Promise<string[]> {
  return (await ofPlatform(connection, FAULT_BOUNDS.perAgentMax)).map(({ json }) => json)
}

const forget = statement<[number], never>(
  'faults-forget',
  `delete from faults where last_seen_at < clock_timestamp() - make_interval(secs => $1)`,
)

/** Deletes faults not seen for this time. */
export async function forgetFaults(connection: Connection, retentionMs: number): Promise<void> {
  await forget(connection, retentionMs / 1000)
}
