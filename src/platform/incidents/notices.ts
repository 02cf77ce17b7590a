// Updates of incidents that are posted with notifySubscribers are sent to the account's channels, once:
// when they are first posted, never when they are edited.
import type { Incident, IncidentUpdate } from '../../contract/api/incident.ts'
import type { IncidentPayload } from '../../contract/api/alert-payload.ts'
import { insertNotices } from '../alerts/queries/alert-notifications.ts'
import { readIncident } from './queries.ts'
import type { Queryable } from '../../database/database.ts'

/** Options of notices, in addition to the transaction. */
export interface NoticeOptions {
  /** The platform's time. */
  now: () => number
  /** Where clients reach the platform; undefined: links are null. */
  publicUrl?: string | undefined
}

/** The address of a path of the public API, for the payload of a notification. */
export function linkTo({ publicUrl }: NoticeOptions, path: string): string | null {
  return publicUrl === undefined ? null : `${publicUrl.replace(/\/+$/, '')}${path}`
}

interface NotifiedUpdate {
  accountId: string
  incidentId: string
  updateJson: string
}

/**
 * Notifies of a new update. To be called in the transaction that posts it, after the course of the incident was
 * written.
 */
export async function notifyOfUpdate(
  tx: Queryable,
  of: NotifiedUpdate,
  options: NoticeOptions,
): Promise<void> {
  const { accountId, incidentId } = of
  const json = await readIncident(tx, accountId, incidentId)
  if (json === undefined) return
  await insertNotices(tx, payloadOf(of, JSON.parse(json) as Incident, options), incidentId)
}

function payloadOf(
  { accountId, incidentId, updateJson }: NotifiedUpdate,
  incident: Incident,
  options: NoticeOptions,
): IncidentPayload {
  const update = JSON.parse(updateJson) as IncidentUpdate
  const at = new Date(options.now()).toISOString()
  return {
    type: 'incident.update',
    at,
    accountId,
    title: `${incident.name}: ${incident.lastUpdateStatus.toLowerCase()}`,
    incident: {
      id: incidentId,
      name: incident.name,
      severity: incident.severity,
      status: incident.lastUpdateStatus,
      services: incident.services.map(({ id, name }) => ({ id, name })),
    },
    update: {
      id: update.id,
      ...(update.status !== undefined && { status: update.status }),
      description: update.description,
      publicIncidentUpdateDate: update.publicIncidentUpdateDate ?? at,
    },
    links: { incident: linkTo(options, `/v1/status-pages/incidents/${incidentId}`) },
  }
}
