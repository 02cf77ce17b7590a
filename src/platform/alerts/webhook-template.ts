// Variables of webhooks: `{{NAME}}` in the body, address, headers and query parameters of a channel.
import type { Payload } from '../../contract/api/alert-payload.ts'

/** What the variables of a notification are made of. */
function factsOf(id: string, payload: Payload) {
  const { monitor, run, locations, incidentId } = 'monitor' in payload ? payload : {}
  const incident = 'incident' in payload ? payload.incident : undefined
  const place = 'location' in payload ? payload.location : undefined
  const where = place ?? locations?.find((one) => one.id === run?.location) ?? locations?.[0]
  return { id, payload, monitor, run, incident, incidentId, where }
}
type Facts = ReturnType<typeof factsOf>

/** Every variable with its value; where a notification has none, it is empty. */
const VARIABLES = {
  ALERT_TITLE: ({ payload }) => payload.title,
  ALERT_TYPE: ({ payload }) => typeText(payload.type),
  CHECK_ID: ({ monitor }) => monitor?.id,
  CHECK_NAME: ({ monitor }) => monitor?.name,
  CHECK_TYPE: ({ monitor }) => monitor?.checkType,
  CHECK_ERROR_MESSAGE: ({ run }) => run?.failures[0]?.message,
  CHECK_ERROR_CODE: ({ run }) => run?.failures[0]?.code,
  CHECK_RESULT_ID: ({ monitor, run }) =>
    monitor && run && `${monitor.id}.${run.slot}.${run.location}`,
  GROUP_NAME: ({ monitor }) => monitor?.group?.name,
  TAGS: ({ monitor }) => monitor?.tags.join(','),
  RUN_LOCATION: ({ where }) => where?.name,
  REGION: ({ where }) => where?.slugName,
  RESPONSE_TIME: ({ run }) =>
    run?.responseTimeMs == null ? undefined : String(Math.round(run.responseTimeMs)),
  STARTED_AT: ({ run, payload }) => run?.startedAt ?? payload.at,
  RESULT_LINK: ({ payload }) => payload.links.results,
  INCIDENT_ID: ({ incident, incidentId }) => incident?.id ?? incidentId,
  INCIDENT_STATUS: ({ incident }) => incident?.status,
  $UUID: ({ id }) => id,
  $RANDOM_NUMBER: ({ id }) => String(Number.parseInt(id.slice(0, 8), 16)),
} satisfies Record<string, (facts: Facts) => string | null | undefined>
type WebhookVariable = keyof typeof VARIABLES

function typeText(type: Payload['type']): string {
  if (type === 'alert.reminder') return 'ALERT_FAILURE_REMAIN'
  return type.toUpperCase().replaceAll(/[.-]/g, '_')
}

const PLACE = /\{\{\{?\s*([^{}]*?)\s*\}?\}\}/g

/** Names in braces in `template` that are no variables. */
export function unknownVariables(template: string): string[] {
  return [...template.matchAll(PLACE)]
    .map((match) => match[1] ?? '')
    .filter((name) => !Object.hasOwn(VARIABLES, name))
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

/** The values of all variables. */
export function webhookValues(id: string, payload: Payload): Record<WebhookVariable, string> {
  const facts = factsOf(id, payload)
  const values = Object.entries(VARIABLES).map(([name, valueOf]) => [name, valueOf(facts) ?? ''])
  return Object.fromEntries(values) as Record<WebhookVariable, string>
}
