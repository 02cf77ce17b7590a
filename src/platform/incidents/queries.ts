// Statements on incidents, the services that they name, and their updates. Changes of updates require the lock on the
// incident.
import { API_BOUNDS } from '../../contract/api/bounds.ts'
import type { IncidentSeverity, IncidentUpdateInput } from '../../contract/api/incident.ts'
import { pageStatement } from '../../database/page.ts'
import {
  dayText,
  escaped,
  instantText,
  listText,
  objectText,
  orNull,
  quoted,
} from '../../database/row-json.ts'
import {
  execute,
  queryAny,
  queryAs,
  queryRows,
  queryValue,
  queryValues,
  raw,
  sql,
} from '../../database/sql.ts'
import { serviceText } from '../services/queries.ts'
import type { Course, Turn } from './course.ts'

const { updatesShownMax, pageTextBytesMax } = API_BOUNDS

/** An update from the row `u`; it has no status where it leaves that of the incident. */
const UPDATE = objectText(
  {
    description: escaped('u.description'),
    publicIncidentUpdateDate: quoted(instantText('u.public_at')),
    notifySubscribers: 'u.notify_subscribers::text',
    id: quoted('u.id'),
    created_at: quoted(dayText('u.created_at')),
  },
  { status: quoted('u.status') },
)

/** The latest updates of the incident `i`, newest first. */
const UPDATES = listText(`select ${UPDATE} as entry from incident_updates u
  where u.incident_id = i.id order by u.public_at desc, u.seq desc limit ${updatesShownMax}`)

const SERVICES = listText(`select ${serviceText('s')} as entry
  from incident_services link join services s on s.id = link.service_id
  where link.incident_id = i.id order by link.position`)

/** The incident of the row `i`. */
const INCIDENT = objectText({
  name: escaped('i.name'),
  severity: quoted('i.severity'),
  id: quoted('i.id'),
  services: SERVICES,
  incidentUpdates: UPDATES,
  lastUpdateStatus: quoted('i.last_update_status'),
  duration: orNull('i.duration_s::text'),
  created_at: quoted(dayText('i.created_at')),
  updated_at: orNull(quoted(dayText('i.updated_at'))),
})

/** The incidents of an account. */
export const listIncidents = pageStatement({
  name: 'incidents-page',
  from: 'incidents',
  where: 'account_id = $1::uuid',
  entry: INCIDENT,
  bytes: { of: 'i.update_bytes', max: pageTextBytesMax },
})

/** An incident of the account as JSON text. */
export const readIncident = queryValue(
  (accountId: string, id: string) => sql<{ json: string }>('incident-read')`
      select ${raw(INCIDENT)} as json from incidents i
      where i.id = ${id} and i.account_id = ${accountId}`,
)

/** Adds an incident that has no services and no updates yet. */
export const insertIncident = execute(
  (incident: { id: string; accountId: string; name: string; severity: IncidentSeverity }) => sql(
    'incident-insert',
  )`
      insert into incidents (id, account_id, name, severity, last_update_status)
      values (${incident.id}, ${incident.accountId}, ${incident.name}, ${incident.severity}, 'INVESTIGATING') returning id`,
)

/** Locks an incident of the account for the rest of the transaction; false when it does not exist. */
export const lockIncident = queryAny(
  (accountId: string, id: string) => sql('incident-lock')`
      select id from incidents where id = ${id} and account_id = ${accountId} for update`,
)

/** Changes the given fields of an incident. */
export const changeIncident = execute(
  (
    id: string,
    fields: { name?: string | undefined; severity?: IncidentSeverity | undefined },
  ) => sql('incident-change')`
      update incidents set name = coalesce(${fields.name ?? null}, name), severity = coalesce(${fields.severity ?? null}, severity),
        updated_at = clock_timestamp()
      where id = ${id} returning id`,
)

/** Deletes an incident with its updates; false when the account has none of that id. */
export const deleteIncident = queryAny(
  (accountId: string, id: string) => sql('incident-delete')`
      delete from incidents where id = ${id} and account_id = ${accountId} returning id`,
)

/**
 * Makes `serviceIds`, each named once, the services of an incident. Answers with those that the account
 * does not have; when there are any the transaction is to be given up.
 */
export const setIncidentServices = queryValues(
  ({ id, accountId }: { id: string; accountId: string }, serviceIds: string[]) => sql<{
    id: string
  }>('incident-services-set')`
      with wanted as (
        select * from unnest(${serviceIds}::uuid[]) with ordinality one (id, position)
      ), unlinked as (
        delete from incident_services
        where incident_id = ${id} and service_id <> all (${serviceIds}::uuid[])
      ), linked as (
        -- A deleted service may stay where it is, but cannot be added.
        insert into incident_services (incident_id, service_id, position)
        select ${id}, s.id, wanted.position from wanted
        join services s on s.id = wanted.id and s.account_id = ${accountId}
        where s.deleted_at is null
          or exists (select from incident_services was where was.incident_id = ${id}
            and was.service_id = s.id)
        on conflict (incident_id, service_id) do update set position = excluded.position
        returning service_id
      )
      select id from wanted where id not in (select service_id from linked) order by position`,
)

/** Stores the course of an incident. */
export const setIncidentCourse = execute(
  (id: string, course: Course) => sql('incident-course')`
      update incidents set last_update_status = ${course.lastUpdateStatus}, duration_s = ${course.durationS}, updated_at = clock_timestamp(),
        update_bytes = (select coalesce(sum(octet_length(description)), 0) from incident_updates
          where incident_id = ${id})
      where id = ${id} returning id`,
)

/** The latest updates of an incident, newest first, as JSON text; undefined without the incident. */
export const listIncidentUpdates = queryValue(
  (accountId: string, incidentId: string) => sql<{ json: string }>('incident-updates-list')`
      select ${raw(UPDATES)} as json
      from incidents i where i.id = ${incidentId} and i.account_id = ${accountId}`,
)

/** One update as JSON text. */
export const readIncidentUpdate = queryValue(
  (of: { accountId: string; incidentId: string; id: string }) => sql<{ json: string }>(
    'incident-update-read',
  )`
      select ${raw(UPDATE)} as json
      from incident_updates u join incidents i on i.id = u.incident_id
      where u.id = ${of.id} and i.id = ${of.incidentId} and i.account_id = ${of.accountId}`,
)

/** An instant as PostgreSQL reads it to the millisecond; null: none is given. */
function instant(text: string | undefined): string | null {
  return text === undefined ? null : new Date(text).toISOString()
}

/** Adds an update, by default with the present as its public date, and answers with it as JSON text. */
export const insertIncidentUpdate = queryAs(
  (
    { id, incidentId }: { id: string; incidentId: string },
    { description, status, publicIncidentUpdateDate, notifySubscribers }: IncidentUpdateInput,
  ) => sql<{ json: string }>('incident-update-insert')`
      insert into incident_updates as u
        (id, incident_id, description, status, public_at, notify_subscribers)
      values (${id}, ${incidentId}, ${description}, ${status ?? null},
        coalesce(${instant(publicIncidentUpdateDate)}::timestamptz, clock_timestamp()), ${notifySubscribers})
      returning ${raw(UPDATE)} as json`,
  ([row]) => row?.json ?? '',
)

/** Replaces an update; without a public date it stays unchanged. Undefined when it does not exist. */
export const changeIncidentUpdate = queryValue(
  (
    { id, incidentId }: { id: string; incidentId: string },
    { description, status, publicIncidentUpdateDate, notifySubscribers }: IncidentUpdateInput,
  ) => sql<{ json: string }>('incident-update-change')`
      update incident_updates u set description = ${description}, status = ${status ?? null},
        public_at = coalesce(${instant(publicIncidentUpdateDate)}::timestamptz, public_at),
        notify_subscribers = ${notifySubscribers}
      where u.id = ${id} and u.incident_id = ${incidentId}
      returning ${raw(UPDATE)} as json`,
)

/** Deletes an update; false when the incident has none of that id. */
export const deleteIncidentUpdate = queryAny(
  (of: { id: string; incidentId: string }) => sql('incident-update-delete')`
      delete from incident_updates where id = ${of.id} and incident_id = ${of.incidentId} returning id`,
)

/** The turns of an incident in the order that courseOf wants. */
export const readTurns = queryRows(
  (incidentId: string) => sql<Turn>('incident-updates-turns')`
      select floor(extract(epoch from public_at) * 1000)::bigint as at, status
      from incident_updates where incident_id = ${incidentId} order by public_at, seq`,
)
