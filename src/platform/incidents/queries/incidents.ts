// Statements on incidents and the services that they name.
import { API_BOUNDS } from '../../../contract/api/bounds.ts'
import type { Course } from '../course.ts'
import type { IncidentSeverity } from '../../../contract/api/incident.ts'
import { incidentJson } from '../../../database/json-text.ts'
import { pageStatement } from '../../../database/page.ts'
import { statement, type Connection } from '../../../database/statement.ts'

const { updatesShownMax, pageTextBytesMax } = API_BOUNDS

/** The incidents of an account. */
export const listIncidents = pageStatement({
  name: 'incidents-page',
  from: 'incidents',
  where: 'account_id = $1::uuid',
  json: incidentJson('i', updatesShownMax),
  bytes: { of: 'i.update_bytes', max: pageTextBytesMax },
})

const read = statement<[string, string], { json: string }>(
  'incident-read',
  `select ${incidentJson('i', updatesShownMax)} as json from incidents i
   where i.id = $1 and i.account_id = $2`,
)

/** An incident of the account as JSON text. */
export async function readIncident(
  connection: Connection,
  accountId: string,
  id: string,
): Promise<string | undefined> {
  return (await read(connection, id, accountId))[0]?.json
}

const insert = statement<[string, string, string, string], { id: string }>(
  'incident-insert',
  `insert into incidents (id, account_id, name, severity, last_update_status)
   values ($1, $2, $3, $4, 'INVESTIGATING') returning id`,
)

/** Adds an incident that has no services and no updates yet. */
export async function insertIncident(
  connection: Connection,
  incident: { id: string; accountId: string; name: string; severity: IncidentSeverity },
): Promise<void> {
  await insert(connection, incident.id, incident.accountId, incident.name, incident.severity)
}

const lock = statement<[string, string], { id: string }>(
  'incident-lock',
  'select id from incidents where id = $1 and account_id = $2 for update',
)

/** Locks an incident of the account for the rest of the transaction; false when it does not exist. */
export async function lockIncident(
  connection: Connection,
  accountId: string,
  id: string,
): Promise<boolean> {
  return (await lock(connection, id, accountId)).length === 1
}

const change = statement<[string, string | null, string | null], { id: string }>(
  'incident-change',
  `update incidents set name = coalesce($2, name), severity = coalesce($3, severity),
     updated_at = clock_timestamp()
   where id = $1 returning id`,
)

/** Changes the given fields of an incident. */
export async function changeIncident(
  connection: Connection,
  id: string,
  fields: { name?: string | undefined; severity?: IncidentSeverity | undefined },
): Promise<void> {
  await change(connection, id, fields.name ?? null, fields.severity ?? null)
}

const remove = statement<[string, string], { id: string }>(
  'incident-delete',
  'delete from incidents where id = $1 and account_id = $2 returning id',
)

/** Deletes an incident with its updates; false when the account has none of that id. */
export async function deleteIncident(
  connection: Connection,
  accountId: string,
  id: string,
): Promise<boolean> {
  return (await remove(connection, id, accountId)).length === 1
}

const unlink = statement<[string, string[]], { service_id: string }>(
  'incident-services-unlink',
  `delete from incident_services where incident_id = $1 and service_id <> all ($2::uuid[])
   returning service_id`,
)

// A deleted service may stay where it is, but cannot be added.
const link = statement<[string, string, string[]], { service_id: string }>(
  'incident-services-link',
  `insert into incident_services (incident_id, service_id, position)
   select $1, s.id, wanted.position
   from unnest($3::uuid[]) with ordinality wanted (id, position)
   join services s on s.id = wanted.id and s.account_id = $2
   where s.deleted_at is null
     or exists (select from incident_services was where was.incident_id = $1
       and was.service_id = s.id)
   on conflict (incident_id, service_id) do update set position = excluded.position
   returning service_id`,
)

/**
 * Makes `serviceIds`, each named once, the services of an incident. Answers with those that the account
 * does not have; when there are any the transaction is to be given up.
 */
export async function setIncidentServices(
  connection: Connection,
  incident: { id: string; accountId: string },
  serviceIds: string[],
): Promise<string[]> {
  await unlink(connection, incident.id, serviceIds)
  const linked = await link(connection, incident.id, incident.accountId, serviceIds)
  const found = new Set(linked.map((row) => row.service_id))
  return serviceIds.filter((id) => !found.has(id))
}

const setCourse = statement<[string, string, number | null], { id: string }>(
  'incident-course',
  `update incidents set last_update_status = $2, duration_s = $3, updated_at = clock_timestamp(),
     update_bytes = (select coalesce(sum(octet_length(description)), 0) from incident_updates
       where incident_id = $1)
   where id = $1 returning id`,
)

/** Stores the course of an incident. */
export async function setIncidentCourse(
  connection: Connection,
  id: string,
  course: Course,
): Promise<void> {
  await setCourse(connection, id, course.lastUpdateStatus, course.durationS)
}
