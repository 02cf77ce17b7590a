// Statements on the updates of incidents. Changes require the lock on the incident.
import { API_BOUNDS } from '../../../contract/api/bounds.ts'
import type { Turn } from '../course.ts'
import type { IncidentStatus } from '../../../contract/api/incident.ts'
import { updateJson } from '../../../database/json-text.ts'
import { raw, sql } from '../../../database/sql.ts'
import type { Queryable } from '../../../database/database.ts'

/** The latest updates of an incident, newest first, as JSON text; undefined without the incident. */
export async function listIncidentUpdates(
  connection: Queryable,
  accountId: string,
  incidentId: string,
): Promise<string | undefined> {
  const rows = await connection.query(sql<{ json: string }>('incident-updates-list')`
      select '[' || coalesce((
        select string_agg(${raw(updateJson('u'))}, ',' order by u.public_at desc, u.seq desc)
        from (select * from incident_updates one where one.incident_id = i.id
          order by one.public_at desc, one.seq desc limit ${raw(API_BOUNDS.updatesShownMax)}) u), '')
        || ']' as json
      from incidents i where i.id = ${incidentId} and i.account_id = ${accountId}`)
  return rows[0]?.json
}

/** One update as JSON text. */
export async function readIncidentUpdate(
  connection: Queryable,
  of: { accountId: string; incidentId: string; id: string },
): Promise<string | undefined> {
  const rows = await connection.query(sql<{ json: string }>('incident-update-read')`
      select ${raw(updateJson('u'))} as json
      from incident_updates u join incidents i on i.id = u.incident_id
      where u.id = ${of.id} and i.id = ${of.incidentId} and i.account_id = ${of.accountId}`)
  return rows[0]?.json
}

/** Fields of an update. */
export interface UpdateFields {
  description: string
  status: IncidentStatus | undefined
  /** ISO 8601; undefined: now. */
  publicAt: string | undefined
  notifySubscribers: boolean
}

const insert = {
  name: 'incident-update-insert',
  text: `insert into incident_updates as u
     (id, incident_id, description, status, public_at, notify_subscribers)
   values ($1, $2, $3, $4, coalesce($5::timestamptz, clock_timestamp()), $6)
   returning ${updateJson('u')} as json`,
}

/** Parameters of both statements. */
function columnsOf(
  { id, incidentId }: { id: string; incidentId: string },
  { description, status, publicAt, notifySubscribers }: UpdateFields,
): [string, string, string, string | null, string | null, boolean] {
  return [id, incidentId, description, status ?? null, publicAt ?? null, notifySubscribers]
}

/** Adds an update and answers with it as JSON text. */
export async function insertIncidentUpdate(
  connection: Queryable,
  of: { id: string; incidentId: string },
  fields: UpdateFields,
): Promise<string> {
  const [row] = await connection.query<{ json: string }>(insert, columnsOf(of, fields))
  return row?.json ?? ''
}

const change = {
  name: 'incident-update-change',
  text: `update incident_updates u set description = $3, status = $4,
     public_at = coalesce($5::timestamptz, public_at), notify_subscribers = $6
   where u.id = $1 and u.incident_id = $2
   returning ${updateJson('u')} as json`,
}

/** Replaces an update; without a public date it stays unchanged. Undefined when it does not exist. */
export async function changeIncidentUpdate(
  connection: Queryable,
  of: { id: string; incidentId: string },
  fields: UpdateFields,
): Promise<string | undefined> {
  const [row] = await connection.query<{ json: string }>(change, columnsOf(of, fields))
  return row?.json
}

/** Deletes an update; false when the incident has none of that id. */
export async function deleteIncidentUpdate(
  connection: Queryable,
  of: { id: string; incidentId: string },
): Promise<boolean> {
  const rows = await connection.query(sql<{ id: string }>('incident-update-delete')`
      delete from incident_updates where id = ${of.id} and incident_id = ${of.incidentId} returning id`)
  return rows.length === 1
}

/** The turns of an incident in the order that courseOf wants. */
export async function readTurns(connection: Queryable, incidentId: string): Promise<Turn[]> {
  const rows = await connection.query(sql<{ at: string; status: IncidentStatus | null }>(
    'incident-updates-turns',
  )`
      select (floor(extract(epoch from public_at) * 1000))::bigint::text as at, status
      from incident_updates where incident_id = ${incidentId} order by public_at, seq`)
  return rows.map((row) => ({ at: Number(row.at), status: row.status }))
}
