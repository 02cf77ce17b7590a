// Status page incidents: listed, opened, read, changed and deleted.
import { randomUUID } from 'node:crypto'
import type * as z from 'zod'
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
  insertIncidentUpdate,
  listIncidents,
  lockIncident,
  readIncident,
  setIncidentServices,
} from './queries.ts'
import { notFound } from '../http/errors.ts'
import { notifyOfUpdate, type NoticeOptions } from './notices.ts'
import { updateFieldsOf, writeCourse } from './updates.ts'
import { pageJson, pageOf, pageParameters } from '../http/listing.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { idParameter } from '../http/parameters.ts'

const TAG = 'Status Page Incidents'
const PATH = '/v1/status-pages/incidents'
const ONE = `${PATH}/{incidentId}`
const params = { incidentId: idParameter('incident') }

/** The operations on incidents. */
export function incidentOperations(database: Database, options: NoticeOptions): DefinedOperation[] {
  return [
    list(database),
    create(database, options),
    read(database),
    ...writes(database),
    remove(database),
  ]
}

function list(database: Database): DefinedOperation {
  return defineOperation({
    operationId: 'getV1StatuspagesIncidents',
    tag: TAG,
    summary: 'List the latest incidents of all services',
    description:
      'Newest first. `nextId` leads to the next page; no row comes twice or is left out while others come and go.',
    method: 'get',
    path: PATH,
    action: 'read',
    query: pageParameters('incidents'),
    answers: {
      status: 200,
      schema: pageOf(Incident, 'StatusPageIncidentsPage'),
      description: 'A page of incidents',
    },
    async answer({ key, query }) {
      const { limit, nextId: after } = query
      const page = await listIncidents(database, { owner: key.accountId, limit, after })
      return { status: 200, json: pageJson('incidents', page) }
    },
  })
}

function create(database: Database, options: NoticeOptions): DefinedOperation {
  return defineOperation({
    operationId: 'postV1StatuspagesIncidents',
    tag: TAG,
    summary: 'Open an incident with its first update',
    method: 'post',
    path: PATH,
    action: 'write',
    body: IncidentInput,
    answers: { status: 201, schema: Incident, description: 'The incident' },
    async answer({ key: { accountId }, body }) {
      const { name, severity, services, incidentUpdates } = body
      const id = randomUUID()
      const json = await database.transaction(async (tx) => {
        await insertIncident(tx, { id, accountId, name, severity })
        await setServices(tx, { id, accountId }, services)
        const toSend: string[] = []
        for (const update of incidentUpdates) {
          const of = { id: randomUUID(), incidentId: id }
          const updateJson = await insertIncidentUpdate(tx, of, updateFieldsOf(update))
          if (update.notifySubscribers) toSend.push(updateJson)
        }
        await writeCourse(tx, id)
        for (const updateJson of toSend) {
          await notifyOfUpdate(tx, { accountId, incidentId: id, updateJson }, options)
        }
        return (await readIncident(tx, accountId, id)) ?? ''
      })
      return { status: 201, json }
    },
  })
}

function read(database: Database): DefinedOperation {
  return defineOperation({
    operationId: 'getV1StatuspagesIncidentsIncidentid',
    tag: TAG,
    summary: 'Read an incident',
    method: 'get',
    path: ONE,
    action: 'read',
    params,
    answers: { status: 200, schema: Incident, description: 'The incident' },
    async answer({ key, params: { incidentId } }) {
      const json = await readIncident(database, key.accountId, incidentId)
      if (json === undefined) throw notFound('incident')
      return { status: 200, json }
    },
  })
}

function writes(database: Database): DefinedOperation[] {
  const common = {
    tag: TAG,
    path: ONE,
    action: 'write' as const,
    params,
    answers: { status: 200 as const, schema: Incident, description: 'The incident' },
  }
  const write = async (accountId: string, id: string, fields: IncidentPatch) => ({
    status: 200 as const,
    json: await database.transaction((tx) => change(tx, { id, accountId }, fields)),
  })
  return [
    defineOperation({
      ...common,
      operationId: 'putV1StatuspagesIncidentsIncidentid',
      summary: 'Replace the name, severity and services of an incident',
      method: 'put',
      body: IncidentReplacement,
      answer: ({ key, params: of, body }) => write(key.accountId, of.incidentId, body),
    }),
    defineOperation({
      ...common,
      operationId: 'patchV1StatuspagesIncidentsIncidentid',
      summary: 'Change the name, severity or services of an incident',
      method: 'patch',
      body: IncidentPatch,
      answer: ({ key, params: of, body }) => write(key.accountId, of.incidentId, body),
    }),
  ]
}

function remove(database: Database): DefinedOperation {
  return defineOperation({
    operationId: 'deleteV1StatuspagesIncidentsIncidentid',
    tag: TAG,
    summary: 'Delete an incident with its updates',
    method: 'delete',
    path: ONE,
    action: 'write',
    params,
    answers: { status: 204, description: 'The incident is deleted' },
    async answer({ key, params: { incidentId } }) {
      const deleted = await deleteIncident(database, key.accountId, incidentId)
      if (!deleted) throw notFound('incident')
      return { status: 204 }
    },
  })
}

interface OwnIncident {
  id: string
  accountId: string
}

async function change(
  tx: Queryable,
  incident: OwnIncident,
  fields: z.output<typeof IncidentPatch>,
): Promise<string> {
  const { id, accountId } = incident
  if (!(await lockIncident(tx, accountId, id))) throw notFound('incident')
  if (fields.services !== undefined) await setServices(tx, incident, fields.services)
  await changeIncident(tx, id, fields)
  return (await readIncident(tx, accountId, id)) ?? ''
}

async function setServices(
  tx: Queryable,
  incident: OwnIncident,
  services: readonly ServiceReference[],
): Promise<void> {
  const ids = [...new Set(services.map((service) => service.id.toLowerCase()))]
  const missing = await setIncidentServices(tx, incident, ids)
  if (missing[0] !== undefined) throw notFound(`service: ${missing[0]}`)
}
