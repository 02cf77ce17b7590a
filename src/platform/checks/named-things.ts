// References of definitions other than locations and groups: the service of an incident, alert channels, the
// code bundle of a suite. A new reference must exist in the same account; an old one may have been deleted.
import type { CheckGroup } from '../../contract/api/check-group.ts'
import { bundleHash } from '../../contract/api/code-bundle.ts'
import type { Monitor } from '../../contract/monitor.ts'
import { channelsAmong } from '../alerts/queries/channels.ts'
import { bundlesAmong } from '../code-bundles/queries.ts'
import { servicesAmong } from '../services/queries.ts'
import type { Queryable } from '../../database/database.ts'
import type { DraftProblem } from '../http/draft-problem.ts'
import type { Definition } from './encrypted-monitor.ts'

/** Existing services, channels and bundles of an account. */
export interface NamedThings {
  services: ReadonlySet<string>
  channels: ReadonlySet<number>
  /** By their hashes. */
  bundles: ReadonlySet<string>
}

const GUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** Looks up the references of unchecked definitions. */
export async function readNamedThings(
  connection: Queryable,
  accountId: string,
  definitions: Iterable<Readonly<Definition>>,
): Promise<NamedThings> {
  const services = new Set<string>()
  const channels = new Set<number>()
  const bundles = new Set<string>()
  for (const one of definitions) {
    const service = serviceOf(one)
    if (service !== undefined && GUID.test(service)) services.add(service)
    for (const id of channelsOf(one)) if (Number.isSafeInteger(id)) channels.add(id as number)
    const bundle = bundleOf(one)
    if (bundle !== undefined) bundles.add(bundle)
  }
  const among = async <T>(
    find: (on: Queryable, of: string, named: T[]) => Promise<T[]>,
    named: ReadonlySet<T>,
  ) => new Set(named.size === 0 ? [] : await find(connection, accountId, [...named]))
  return {
    services: await among(servicesAmong, services),
    channels: await among(channelsAmong, channels),
    bundles: await among(bundlesAmong, bundles),
  }
}

/** New references of a checked definition to things that do not exist; those of `stored` are not new. */
export function missingThings(
  definition: Readonly<Definition>,
  stored: Readonly<Definition> | undefined,
  { services, channels, bundles }: NamedThings,
): DraftProblem[] {
  const problems: DraftProblem[] = []
  const service = serviceOf(definition)
  const isUnchanged = stored !== undefined && serviceOf(stored) === service
  if (service !== undefined && !services.has(service) && !isUnchanged) {
    problems.push({
      path: ['triggerIncident', 'serviceId'],
      message: `unknown service ${service}; GET /v1/status-pages/services lists them`,
    })
  }
  const before = new Set(stored === undefined ? [] : channelsOf(stored))
  for (const [index, id] of channelsOf(definition).entries()) {
    if (channels.has(id as number) || before.has(id)) continue
    problems.push({
      path: ['alertChannelSubscriptions', index, 'alertChannelId'],
      message: `unknown alert channel ${String(id)}; GET /v1/alert-channels lists them`,
    })
  }
  const path = pathOf(definition)
  const bundle = path === undefined ? undefined : bundleProblem(path, bundles)
  const isSame = stored !== undefined && pathOf(stored) === path
  if (bundle !== undefined && !isSame) problems.push({ path: ['codeBundlePath'], message: bundle })
  return problems
}

function bundleProblem(path: string, bundles: ReadonlySet<string>): string | undefined {
  const hash = bundleHash(path)
  if (hash === undefined) {
    return 'must be bundle: and the 64 hex digits of its SHA-256, in lower case, without variables; `vedette apply` uploads a folder and writes it'
  }
  if (bundles.has(hash)) return undefined
  return `unknown code bundle ${hash}; upload it by PUT /v1/code-bundles/${hash}, or with \`vedette apply\``
}

/** The code bundle of the platform that a definition names; undefined where it names none. */
export function bundleOf(definition: Readonly<Definition>): string | undefined {
  return bundleHash(pathOf(definition) ?? '')
}

function pathOf(definition: Readonly<Definition>): string | undefined {
  const { codeBundlePath } = definition
  return typeof codeBundlePath === 'string' ? codeBundlePath : undefined
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
