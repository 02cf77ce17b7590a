// Status page incidents: listed, opened, read, changed and deleted.
import { randomUUID } from 'node:crypto'
import {
  Incident,
  IncidentInput,
  IncidentPatch,
  IncidentReplacement,
  type ServiceReference,
} from '../../contract/api/incident.ts'
import type { Database, Queryable } from '../../database/database.ts'
import {
  changeIncident,
  deleteIncident,
  insertIncident,
  listIncidents,
  lockIncident,
  readIncident,
  setIncidentServices,
} from './queries.ts'
import { notFound } from '../http/errors.ts'
import type { NoticeOptions } from './notices.ts'
import { postUpdate } from './updates.ts'
import type { DefinedOperation } from '../http/operation.ts'
import { idParameter } from '../http/parameters.ts'
import { Resource } from '../http/resource.ts'

const incidents = new Resource({
  tag: 'Status Page Incidents',
  path: '/v1/status-pages/incidents',
  one: { incidentId: idParameter('incident') },
  what: 'incident',
  schema: Incident,
})

/** The operations on incidents. */
export function incidentOperations(database: Database, options: NoticeOptions): DefinedOperation[] {
  const write = (own: { accountId: string; incidentId: string; body: IncidentPatch }) => {
    const { accountId, incidentId: id, body } = own
    return database.transaction((tx) => change(tx, { id, accountId }, body))
  }
  return [
    incidents.pages(
      {
        summary: 'List the latest incidents of all services',
        description:
          'Newest first. `nextId` leads to the next page; no row is repeated or skipped while others are added and removed.',
        listing: 'incidents',
        id: 'StatusPageIncidentsPage',
      },
      database,
      listIncidents,
    ),
    incidents.create(
      { summary: 'Open an incident with its first update', body: IncidentInput },
      ({ accountId, body }) =>
        database.transaction((tx) => open(tx, { id: randomUUID(), accountId }, body, options)),
    ),
    incidents.read({ summary: 'Read an incident' }, ({ accountId, incidentId }) =>
      readIncident(database, accountId, incidentId),
    ),
    incidents.replace(
      {
        summary: 'Replace the name, severity and services of an incident',
        body: IncidentReplacement,
      },
      write,
    ),
    incidents.change(
      { summary: 'Change the name, severity or services of an incident', body: IncidentPatch },
      write,
    ),
    incidents.remove(
      { summary: 'Delete an incident with its updates' },
      ({ accountId, incidentId }) => deleteIncident(database, accountId, incidentId),
    ),
  ]
}

interface Own {
  id: string
  accountId: string
}

async function open(
  tx: Queryable,
  incident: Own,
  { name, severity, services, incidentUpdates }: IncidentInput,
  options: NoticeOptions,
): Promise<string | undefined> {
  const { id: incidentId, accountId } = incident
  await insertIncident(tx, { ...incident, name, severity })
  await setServices(tx, incident, services)
  for (const update of incidentUpdates) {
    await postUpdate(tx, { accountId, incidentId }, update, options)
  }
  return readIncident(tx, accountId, incidentId)
}

async function change(
  tx: Queryable,
  incident: Own,
  fields: IncidentPatch,
): Promise<string | undefined> {
  const { id, accountId } = incident
  if (!(await lockIncident(tx, accountId, id))) return undefined
  if (fields.services !== undefined) await setServices(tx, incident, fields.services)
  await changeIncident(tx, id, fields)
  return readIncident(tx, accountId, id)
}

async function setServices(
  tx: Queryable,
  incident: Own,
  services: readonly ServiceReference[],
): Promise<void> {
  const ids = [...new Set(services.map((service) => service.id.toLowerCase()))]
  const missing = await setIncidentServices(tx, incident, ids)
  if (missing[0] !== undefined) throw notFound(`service: ${missing[0]}`)
}
