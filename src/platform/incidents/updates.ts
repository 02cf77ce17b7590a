// The updates of an incident: listed, posted, read, changed and deleted. Every change computes anew what
// they say about their incident.
import { randomUUID } from 'node:crypto'
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
} from './queries.ts'
import { notFound, ApiError, orNotFound } from '../http/errors.ts'
import { notifyOfUpdate, type NoticeOptions } from './notices.ts'
import type { DefinedOperation } from '../http/operation.ts'
import { idParameter } from '../http/parameters.ts'
import { Resource } from '../http/resource.ts'

const of = { incidentId: idParameter('incident') }
const updates = new Resource({
  tag: 'Status Page Incidents',
  path: '/v1/status-pages/incidents/{incidentId}/incident-updates',
  of,
  one: { ...of, incidentUpdateId: idParameter('incident update') },
  what: 'incident update',
  schema: IncidentUpdate,
})
const { updatesShownMax, updatesPerIncidentMax } = API_BOUNDS

/** The operations on incident updates. */
export function incidentUpdateOperations(
  database: Database,
  options: NoticeOptions,
): DefinedOperation[] {
  return [
    updates.list(
      { summary: `List the ${updatesShownMax} latest updates of an incident, newest first` },
      async ({ accountId, incidentId }) => {
        const json = orNotFound(
          await listIncidentUpdates(database, accountId, incidentId),
          'incident',
        )
        return json
      },
    ),
    updates.create(
      {
        status: 200,
        summary: 'Post an update on an incident',
        body: IncidentUpdateInput,
        conflict: `The incident has ${updatesPerIncidentMax} updates already`,
      },
      ({ accountId, incidentId, body }) =>
        onIncident(database, { accountId, incidentId }, async (tx) => {
          const { length } = await readTurns(tx, incidentId)
          if (length >= updatesPerIncidentMax) {
            throw new ApiError(409, `An incident has at most ${updatesPerIncidentMax} updates`)
          }
          return postUpdate(tx, { accountId, incidentId }, body, options)
        }),
    ),
    updates.read(
      { summary: 'Read an incident update' },
      ({ accountId, incidentId, incidentUpdateId: id }) =>
        readIncidentUpdate(database, { accountId, incidentId, id }),
    ),
    updates.replace(
      {
        summary: 'Replace an incident update',
        description:
          'Nobody is notified again. Without a public date the update keeps the one it has.',
        body: IncidentUpdateInput,
      },
      ({ accountId, incidentId, incidentUpdateId: id, body }) =>
        onIncident(database, { accountId, incidentId }, async (tx) => {
          const json = await changeIncidentUpdate(tx, { id, incidentId }, body)
          if (json !== undefined) await writeCourse(tx, incidentId)
          return json
        }),
    ),
    updates.remove(
      { summary: 'Delete an incident update', conflict: 'It is the only update of its incident' },
      ({ accountId, incidentId, incidentUpdateId: id }) =>
        onIncident(database, { accountId, incidentId }, async (tx) => {
          if (!(await deleteIncidentUpdate(tx, { id, incidentId }))) return false
          const left = await readTurns(tx, incidentId)
          if (left.length === 0) throw new ApiError(409, 'An incident keeps at least one update')
          await writeCourse(tx, incidentId)
          return true
        }),
    ),
  ]
}

interface OwnIncident {
  accountId: string
  incidentId: string
}

/** Runs `work` with the incident locked. */
function onIncident<T>(
  database: Database,
  { accountId, incidentId }: OwnIncident,
  work: (tx: Queryable) => Promise<T>,
): Promise<T> {
  return database.transaction(async (tx) => {
    if (!(await lockIncident(tx, accountId, incidentId))) throw notFound('incident')
    return work(tx)
  })
}

/** Adds an update to an incident, notifies of it where it asks for that, and answers with it as JSON text. */
export async function postUpdate(
  tx: Queryable,
  incident: OwnIncident,
  input: IncidentUpdateInput,
  options: NoticeOptions,
): Promise<string> {
  const { incidentId } = incident
  const update = { id: randomUUID(), incidentId }
  const updateJson = await insertIncidentUpdate(tx, update, input)
  await writeCourse(tx, incidentId)
  if (input.notifySubscribers) await notifyOfUpdate(tx, { ...incident, updateJson }, options)
  return updateJson
}

/** Computes the course of an incident from its updates and writes it down. */
async function writeCourse(tx: Queryable, incidentId: string): Promise<void> {
  await setIncidentCourse(tx, incidentId, courseOf(await readTurns(tx, incidentId)))
}
