// The updates of an incident: listed, posted, read, changed and deleted. Every change computes anew what
// they say about their incident.
import { randomUUID } from 'node:crypto'
import * as z from 'zod'
import { API_BOUNDS } from '../../contract/api/bounds.ts'
import { courseOf } from './course.ts'
import { IncidentUpdate, IncidentUpdateInput } from '../../contract/api/incident.ts'
import type { Database, Queryable } from '../../database/database.ts'
import {
  changeIncidentUpdate,
  deleteIncidentUpdate,
  insertIncidentUpdate,
  listIncidentUpdates,
  lockIncident,
  readIncidentUpdate,
  readTurns,
  setIncidentCourse,
  type UpdateFields,
} from './queries.ts'
import { notFound, ApiError } from '../http/errors.ts'
import { notifyOfUpdate, type NoticeOptions } from './notices.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { idParameter } from '../http/parameters.ts'

const TAG = 'Status Page Incidents'
const PATH = '/v1/status-pages/incidents/{incidentId}/incident-updates'
const ONE = `${PATH}/{incidentUpdateId}`
const ofIncident = { incidentId: idParameter('incident') }
const ofUpdate = { ...ofIncident, incidentUpdateId: idParameter('incident update') }

/** The operations on incident updates. */
export function incidentUpdateOperations(
  database: Database,
  options: NoticeOptions,
): DefinedOperation[] {
  return [
    list(database),
    post(database, options),
    read(database),
    replace(database),
    remove(database),
  ]
}

function list(database: Database): DefinedOperation {
  return defineOperation({
    operationId: 'getV1StatuspagesIncidentsIncidentidIncidentupdates',
    tag: TAG,
    summary: `List the ${API_BOUNDS.updatesShownMax} latest updates of an incident`,
    method: 'get',
    path: PATH,
    action: 'read',
    params: ofIncident,
    answers: {
      status: 200,
      schema: z.array(IncidentUpdate).max(API_BOUNDS.updatesShownMax),
      description: 'The updates, newest first',
    },
    async answer({ key, params }) {
      const json = await listIncidentUpdates(database, key.accountId, params.incidentId)
      if (json === undefined) throw notFound('incident')
      return { status: 200, json }
    },
  })
}

function post(database: Database, options: NoticeOptions): DefinedOperation {
  return defineOperation({
    operationId: 'postV1StatuspagesIncidentsIncidentidIncidentupdates',
    tag: TAG,
    summary: 'Post an update on an incident',
    method: 'post',
    path: PATH,
    action: 'write',
    params: ofIncident,
    body: IncidentUpdateInput,
    answers: { status: 200, schema: IncidentUpdate, description: 'The update' },
    conflict: `The incident has ${API_BOUNDS.updatesPerIncidentMax} updates already`,
    async answer({ key: { accountId }, params: { incidentId }, body }) {
      const work = async (tx: Queryable) => {
        const turns = await readTurns(tx, incidentId)
        if (turns.length >= API_BOUNDS.updatesPerIncidentMax) {
          throw new ApiError(409, `An incident has at most ${turns.length} updates`)
        }
        const of = { id: randomUUID(), incidentId }
        return insertIncidentUpdate(tx, of, updateFieldsOf(body))
      }
      const notify = async (tx: Queryable, updateJson: string) => {
        if (!body.notifySubscribers) return
        await notifyOfUpdate(tx, { accountId, incidentId, updateJson }, options)
      }
      const json = await onIncident(database, accountId, incidentId, work, notify)
      return { status: 200, json }
    },
  })
}

function read(database: Database): DefinedOperation {
  return defineOperation({
    operationId: 'getV1StatuspagesIncidentsIncidentidIncidentupdatesIncidentupdateid',
    tag: TAG,
    summary: 'Read an incident update',
    method: 'get',
    path: ONE,
    action: 'read',
    params: ofUpdate,
    answers: { status: 200, schema: IncidentUpdate, description: 'The update' },
    async answer({ key: { accountId }, params: { incidentId, incidentUpdateId: id } }) {
      const json = await readIncidentUpdate(database, { accountId, incidentId, id })
      if (json === undefined) throw notFound('incident update')
      return { status: 200, json }
    },
  })
}

function replace(database: Database): DefinedOperation {
  return defineOperation({
    operationId: 'putV1StatuspagesIncidentsIncidentidIncidentupdatesIncidentupdateid',
    tag: TAG,
    summary: 'Replace an incident update',
    description: 'Nobody is notified again. Without a public date the update keeps the one it has.',
    method: 'put',
    path: ONE,
    action: 'write',
    params: ofUpdate,
    body: IncidentUpdateInput,
    answers: { status: 200, schema: IncidentUpdate, description: 'The update' },
    async answer({ key, params: { incidentId, incidentUpdateId: id }, body }) {
      const json = await onIncident(database, key.accountId, incidentId, async (tx) => {
        const changed = await changeIncidentUpdate(tx, { id, incidentId }, updateFieldsOf(body))
        if (changed === undefined) throw notFound('incident update')
        return changed
      })
      return { status: 200, json }
    },
  })
}

function remove(database: Database): DefinedOperation {
  return defineOperation({
    operationId: 'deleteV1StatuspagesIncidentsIncidentidIncidentupdatesIncidentupdateid',
    tag: TAG,
    summary: 'Delete an incident update',
    method: 'delete',
    path: ONE,
    action: 'write',
    params: ofUpdate,
    answers: { status: 204, description: 'The update is deleted' },
    conflict: 'It is the only update of its incident',
    async answer({ key, params: { incidentId, incidentUpdateId: id } }) {
      await onIncident(database, key.accountId, incidentId, async (tx) => {
        if (!(await deleteIncidentUpdate(tx, { id, incidentId }))) {
          throw notFound('incident update')
        }
        const left = await readTurns(tx, incidentId)
        if (left.length === 0) throw new ApiError(409, 'An incident keeps at least one update')
      })
      return { status: 204 }
    },
  })
}

/**
 * Runs `work` with the incident locked, writes down the course that its updates then have, and runs
 * `after` with what work came to.
 */
async function onIncident<T>(
  database: Database,
  accountId: string,
  incidentId: string,
  work: (tx: Queryable) => Promise<T>,
  after?: (tx: Queryable, value: T) => Promise<void>,
): Promise<T> {
  return database.transaction(async (tx) => {
    if (!(await lockIncident(tx, accountId, incidentId))) throw notFound('incident')
    const value = await work(tx)
    await writeCourse(tx, incidentId)
    await after?.(tx, value)
    return value
  })
}

/** Computes the course of an incident from its updates and writes it down. */
export async function writeCourse(tx: Queryable, incidentId: string): Promise<void> {
  await setIncidentCourse(tx, incidentId, courseOf(await readTurns(tx, incidentId)))
}

/** The columns of an update from its wire form. */
export function updateFieldsOf(input: IncidentUpdateInput): UpdateFields {
  const { description, status, publicIncidentUpdateDate, notifySubscribers } = input
  const at = publicIncidentUpdateDate
  return {
    description,
    status,
    publicAt: at === undefined ? undefined : new Date(at).toISOString(),
    notifySubscribers,
  }
}
