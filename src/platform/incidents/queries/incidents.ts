// Statements on incidents and the services that they name.
import { API_BOUNDS } from '../../../contract/api/bounds.ts'
import type { Course } from '../course.ts'
import type { IncidentSeverity } from '../../../contract/api/incident.ts'
import { incidentJson } from '../../../database/json-text.ts'
import { pageStatement } from '../../../database/page.ts'
import { raw, sql } from '../../../database/sql.ts'
import type { Queryable } from '../../../database/database.ts'

const { updatesShownMax, pageTextBytesMax } = API_BOUNDS

/** The incidents of an account. */
export const listIncidents = pageStatement({
  name: 'incidents-page',
  from: 'incidents',
  where: 'account_id = $1::uuid',
  json: incidentJson('i', updatesShownMax),
  bytes: { of: 'i.update_bytes', max: pageTextBytesMax },
})

/** An incident of the account as JSON text. */
export async function readIncident(
  connection: Queryable,
  accountId: string,
  id: string,
): Promise<string | undefined> {
  const rows = await connection.query(sql<{ json: string }>('incident-read')`
      select ${raw(incidentJson('i', updatesShownMax))} as json from incidents i
      where i.id = ${id} and i.account_id = ${accountId}`)
  return rows[0]?.json
}

/** Adds an incident that has no services and no updates yet. */
export async function insertIncident(
  connection: Queryable,
  incident: { id: string; accountId: string; name: string; severity: IncidentSeverity },
): Promise<void> {
  await connection.query(sql('incident-insert')`
      insert into incidents (id, account_id, name, severity, last_update_status)
      values (${incident.id}, ${incident.accountId}, ${incident.name}, ${incident.severity}, 'INVESTIGATING') returning id`)
}

/** Locks an incident of the account for the rest of the transaction; false when it does not exist. */
export async function lockIncident(
  connection: Queryable,
  accountId: string,
  id: string,
): Promise<boolean> {
  const rows = await connection.query(sql<{ id: string }>('incident-lock')`
      select id from incidents where id = ${id} and account_id = ${accountId} for update`)
  return rows.length === 1
}

/** Changes the given fields of an incident. */
export async function changeIncident(
  connection: Queryable,
  id: string,
  fields: { name?: string | undefined; severity?: IncidentSeverity | undefined },
): Promise<void> {
  await connection.query(sql('incident-change')`
      update incidents set name = coalesce(${fields.name ?? null}, name), severity = coalesce(${fields.severity ?? null}, severity),
        updated_at = clock_timestamp()
      where id = ${id} returning id`)
}

/** Deletes an incident with its updates; false when the account has none of that id. */
export async function deleteIncident(
  connection: Queryable,
  accountId: string,
  id: string,
): Promise<boolean> {
  const rows = await connection.query(sql<{ id: string }>('incident-delete')`
      delete from incidents where id = ${id} and account_id = ${accountId} returning id`)
  return rows.length === 1
}

/**
 * Makes `serviceIds`, each named once, the services of an incident. Answers with those that the account
 * does not have; when there are any the transaction is to be given up.
 */
export async function setIncidentServices(
  connection: Queryable,
  incident: { id: string; accountId: string },
  serviceIds: string[],
): Promise<string[]> {
  await connection.query(sql('incident-services-unlink')`
      delete from incident_services where incident_id = ${incident.id} and service_id <> all (${serviceIds}::uuid[])
      returning service_id`)
  // A deleted service may stay where it is, but cannot be added.
  const linked = await connection.query(sql<{ service_id: string }>('incident-services-link')`
      insert into incident_services (incident_id, service_id, position)
      select ${incident.id}, s.id, wanted.position
      from unnest(${serviceIds}::uuid[]) with ordinality wanted (id, position)
      join services s on s.id = wanted.id and s.account_id = ${incident.accountId}
      where s.deleted_at is null
        or exists (select from incident_services was where was.incident_id = ${incident.id}
          and was.service_id = s.id)
      on conflict (incident_id, service_id) do update set position = excluded.position
      returning service_id`)
  const found = new Set(linked.map((row) => row.service_id))
  return serviceIds.filter((id) => !found.has(id))
}

/** Stores the course of an incident. */
export async function setIncidentCourse(
  connection: Queryable,
  id: string,
  course: Course,
): Promise<void> {
  await connection.query(sql('incident-course')`
      update incidents set last_update_status = ${course.lastUpdateStatus}, duration_s = ${course.durationS}, updated_at = clock_timestamp(),
        update_bytes = (select coalesce(sum(octet_length(description)), 0) from incident_updates
          where incident_id = ${id})
      where id = ${id} returning id`)
}
