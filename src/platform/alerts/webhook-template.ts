// Variables of webhooks: `{{NAME}}` in the body, address, headers and query parameters of a channel.
import type { Payload } from '../../contract/api/alert-payload.ts'

/** Every variable and its meaning. */
const WEBHOOK_VARIABLES = {
  ALERT_TITLE: 'one sentence that says what happened',
  ALERT_TYPE: 'ALERT_FAILURE, ALERT_FAILURE_REMAIN, ALERT_RECOVERY, ALERT_DEGRADED, …',
  CHECK_ID: 'id of the monitor',
  CHECK_NAME: 'its name',
  CHECK_TYPE: 'its type',
  CHECK_ERROR_MESSAGE: 'message of the first failure',
  CHECK_ERROR_CODE: 'code of the first failure',
  CHECK_RESULT_ID: 'monitor, slot and location of the run',
  GROUP_NAME: 'the group of the monitor',
  TAGS: 'its tags, with commas between',
  RUN_LOCATION: 'name of the location that reported',
  REGION: 'its short name',
  RESPONSE_TIME: 'milliseconds',
  STARTED_AT: 'start of the run, ISO 8601',
  RESULT_LINK: 'address of the results',
  INCIDENT_ID: 'id of the incident',
  INCIDENT_STATUS: 'its status, with an update of an incident',
  $UUID: 'id of the notification, the same at each attempt',
  $RANDOM_NUMBER: 'a number',
} as const
export type WebhookVariable = keyof typeof WEBHOOK_VARIABLES

const PLACE = /\{\{\{?\s*([^{}]*?)\s*\}?\}\}/g

/** Names in braces in `template` that are no variables. */
export function unknownVariables(template: string): string[] {
  return [...template.matchAll(PLACE)]
    .map((match) => match[1] ?? '')
    .filter((name) => !Object.hasOwn(WEBHOOK_VARIABLES, name))
}

/** Fills the variables in; `spell` escapes a value for its place. */
export function fillTemplate(
  template: string,
  values: Record<WebhookVariable, string>,
  spell: (value: string) => string,
): string {
  return template.replaceAll(PLACE, (place, name: string) =>
    Object.hasOwn(values, name) ? spell(values[name as WebhookVariable]) : place,
  )
}

/** The inside of a JSON string. */
export function insideJson(value: string): string {
  return JSON.stringify(value).slice(1, -1)
}

const TYPES: Record<Payload['type'], string> = {
  'alert.failure': 'ALERT_FAILURE',
  'alert.reminder': 'ALERT_FAILURE_REMAIN',
  'alert.recovery': 'ALERT_RECOVERY',
  'alert.degraded': 'ALERT_DEGRADED',
  'alert.degraded-recovery': 'ALERT_DEGRADED_RECOVERY',
  'incident.update': 'INCIDENT_UPDATE',
  'location.unattended': 'LOCATION_UNATTENDED',
  'location.attended': 'LOCATION_ATTENDED',
  'location.network-unreachable': 'LOCATION_NETWORK_UNREACHABLE',
  'location.network-reachable': 'LOCATION_NETWORK_REACHABLE',
}

/** The values of all variables; fields that a payload does not have are empty. */
export function webhookValues(id: string, payload: Payload): Record<WebhookVariable, string> {
  const { type, title, links } = payload
  const { monitor, run, locations, incidentId } = 'monitor' in payload ? payload : {}
  const incident = 'incident' in payload ? payload.incident : undefined
  const place = 'location' in payload ? payload.location : undefined
  const where = place ?? locations?.find((one) => one.id === run?.location) ?? locations?.[0]
  return {
    ALERT_TITLE: title,
    ALERT_TYPE: TYPES[type],
    CHECK_ID: monitor?.id ?? '',
    CHECK_NAME: monitor?.name ?? '',
    CHECK_TYPE: monitor?.checkType ?? '',
    CHECK_ERROR_MESSAGE: run?.failures[0]?.message ?? '',
    CHECK_ERROR_CODE: run?.failures[0]?.code ?? '',
    CHECK_RESULT_ID: monitor && run ? `${monitor.id}.${run.slot}.${run.location}` : '',
    GROUP_NAME: monitor?.group?.name ?? '',
    TAGS: monitor?.tags.join(',') ?? '',
    RUN_LOCATION: where?.name ?? '',
    REGION: where?.slugName ?? '',
    RESPONSE_TIME: run?.responseTimeMs == null ? '' : String(Math.round(run.responseTimeMs)),
    STARTED_AT: run?.startedAt ?? payload.at,
    RESULT_LINK: links.results ?? '',
    INCIDENT_ID: incident?.id ?? incidentId ?? '',
    INCIDENT_STATUS: incident?.status ?? '',
    $UUID: id,
    $RANDOM_NUMBER: String(Number.parseInt(id.slice(0, 8), 16)),
  }
}
