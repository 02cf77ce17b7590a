// Incidents of alerts: opened and closed by the same statements as incidents of users. A user may have
// resolved, changed or deleted one in the meantime.
import { randomUUID } from 'node:crypto'
import { API_BOUNDS } from '../../contract/api/bounds.ts'
import type { TriggerIncident } from '../../contract/monitor.ts'
import type { Log } from '../../process/log.ts'
import {
  deleteIncident,
  insertIncident,
  lockIncident,
  readTurns,
  setIncidentServices,
} from '../incidents/queries.ts'
import type { Queryable } from '../../database/database.ts'
import { courseOf } from '../incidents/course.ts'
import { postUpdate } from '../incidents/updates.ts'
import type { NoticeOptions } from '../incidents/notices.ts'

export interface IncidentContext extends NoticeOptions {
  tx: Queryable
  accountId: string
  log: Log
}

/** Description of the update that closes the incident of an unwatched monitor. */
export const UNWATCHED_DESCRIPTION =
  'The monitor that opened this incident was switched off or deleted. It is closed without a verdict.'

/**
 * Opens the incident of an alert with one INVESTIGATING update. Returns its id, or null when the service
 * does not exist any more, which is logged: the alert is sent nevertheless.
 */
export async function openAlertIncident(
  context: IncidentContext,
  monitor: { id: string; name: string },
  trigger: TriggerIncident,
): Promise<string | null> {
  const { tx, accountId, log } = context
  const { serviceId, severity, notifySubscribers } = trigger
  const id = randomUUID()
  if (typeof serviceId === 'string') {
    const name = cut(trigger.name, API_BOUNDS.nameCharactersMax)
    await insertIncident(tx, { id, accountId, name, severity })
    const missing = await setIncidentServices(tx, { id, accountId }, [serviceId.toLowerCase()])
    if (missing.length === 0) {
      const description = /\S/.test(trigger.description)
        ? cut(trigger.description, API_BOUNDS.descriptionCharactersMax)
        : 'We are investigating this incident.'
      const update = { description, status: 'INVESTIGATING' as const, notifySubscribers }
      await postUpdate(tx, { accountId, incidentId: id }, update, context)
      return id
    }
    await deleteIncident(tx, accountId, id)
  }
  log.warn({ monitor: monitor.id }, 'an alert opens no incident: its service does not exist')
  return null
}

/**
 * Posts a RESOLVED update on the incident of an alert, unless it is resolved or deleted. An incident with
 * the maximum number of updates stays unchanged, which is logged.
 */
export async function resolveAlertIncident(
  context: IncidentContext,
  incidentId: string,
  update: { description: string; notifySubscribers: boolean },
): Promise<void> {
  const { tx, accountId, log } = context
  if (!(await lockIncident(tx, accountId, incidentId))) return
  const turns = await readTurns(tx, incidentId)
  if (courseOf(turns).lastUpdateStatus === 'RESOLVED') return
  if (turns.length >= API_BOUNDS.updatesPerIncidentMax) {
    log.warn(
      { incident: incidentId },
      'an incident has the maximum of updates and cannot be resolved',
    )
    return
  }
  await postUpdate(tx, { accountId, incidentId }, { ...update, status: 'RESOLVED' }, context)
}

function cut(value: string, charactersMax: number): string {
  const characters = Array.from(value)
  if (characters.length <= charactersMax) return value
  return `${characters.slice(0, charactersMax - 1).join('')}…`
}
