// What definitions name beside locations and groups: the service of an incident, channels of alerts. Those
// that a definition newly names have to be there, in its own account; one that it named before may have
// been deleted since, and then it goes on without.
import type { CheckGroup } from '../contract/check-group.ts'
import type { Monitor } from '../contract/monitor.ts'
import { channelsAmong } from '../store/alert-channels.ts'
import { servicesAmong } from '../store/services.ts'
import type { Connection } from '../store/statement.ts'
import type { DraftProblem } from './draft-problem.ts'
import type { Definition } from './sealed-monitor.ts'

/** Services and channels of an account, those among them that somebody may name. */
export interface NamedThings {
  services: ReadonlySet<string>
  channels: ReadonlySet<number>
}

const GUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** Looks up what definitions name, as they were sent: of any shape. */
export async function readNamedThings(
  connection: Connection,
  accountId: string,
  definitions: Iterable<Readonly<Definition>>,
): Promise<NamedThings> {
  const services = new Set<string>()
  const channels = new Set<number>()
  for (const one of definitions) {
    const service = serviceOf(one)
    if (service !== undefined && GUID.test(service)) services.add(service)
    for (const id of channelsOf(one)) if (Number.isSafeInteger(id)) channels.add(id as number)
  }
  return {
    services: new Set(
      services.size === 0 ? [] : await servicesAmong(connection, accountId, [...services]),
    ),
    channels: new Set(
      channels.size === 0 ? [] : await channelsAmong(connection, accountId, [...channels]),
    ),
  }
}

/** What a checked definition names that is not there and that `kept` did not name. */
export function missingThings(
  definition: Readonly<Definition>,
  kept: Readonly<Definition> | undefined,
  { services, channels }: NamedThings,
): DraftProblem[] {
  const problems: DraftProblem[] = []
  const service = serviceOf(definition)
  const isKept = kept !== undefined && serviceOf(kept) === service
  if (service !== undefined && !services.has(service) && !isKept) {
    problems.push({
      path: ['triggerIncident', 'serviceId'],
      message: `there is no service ${service}; take one of GET /v1/status-pages/services`,
    })
  }
  const before = new Set(kept === undefined ? [] : channelsOf(kept))
  for (const [index, id] of channelsOf(definition).entries()) {
    if (channels.has(id as number) || before.has(id)) continue
    problems.push({
      path: ['alertChannelSubscriptions', index, 'alertChannelId'],
      message: `there is no alert channel ${String(id)}; take one of GET /v1/alert-channels`,
    })
  }
  return problems
}

function serviceOf(definition: Readonly<Definition>): string | undefined {
  const incident = definition['triggerIncident'] as Partial<Monitor>['triggerIncident']
  const id: unknown = incident?.serviceId
  return typeof id === 'string' ? id.toLowerCase() : undefined
}

function channelsOf(definition: Readonly<Definition>): unknown[] {
  const given = definition[
    'alertChannelSubscriptions'
  ] as Partial<CheckGroup>['alertChannelSubscriptions']
  return Array.isArray(given)
    ? given.map((one) => (one as { alertChannelId?: unknown } | null)?.alertChannelId)
    : []
}
