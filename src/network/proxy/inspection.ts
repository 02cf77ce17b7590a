// Checks the targets of the location's proxy against the network policy, as far as possible: the proxy resolves
// names itself, and may get other addresses than we do.
import type { Endpoint } from '../dial.ts'
import { literalOf, nameOf } from '../ip-address.ts'
import { LeastRecentlyUsed } from '../least-recently-used.ts'
import { DeadlineReached, untilAborted } from '../deadline.ts'
import { permit, type NetworkPolicy } from '../network-policy.ts'
import type { Resolver } from '../dns/resolver.ts'
import { targetFailure } from '../target-failure.ts'

/** Names of the clouds' metadata services, with their addresses. */
const METADATA_NAMES: ReadonlyMap<string, string> = new Map([
  ['metadata', '169.254.169.254'],
  ['metadata.google.internal', '169.254.169.254'],
  ['metadata.goog', '169.254.169.254'],
  ['metadata.azure.internal', '169.254.169.254'],
  ['metadata.tencentyun.com', '169.254.0.23'],
  ['instance-data', '169.254.169.254'],
  ['instance-data.ec2.internal', '169.254.169.254'],
  ['metadata.platformequinix.com', '169.254.169.254'],
])

/** Number of names with an incomplete look-up that are cached. */
const REMEMBERED_MAX = 1000

export interface InspectionSettings {
  policy: NetworkPolicy
  resolver: Resolver
  /** Time limit of one look-up, regardless of the deadlines of waiting checks. */
  lookUpMs?: number
  /** For this time an incomplete look-up is cached. */
  rememberMs?: number
}

/** The addresses found, and whether all questions were answered. */
interface LookUp {
  addresses: readonly string[]
  complete: boolean
}

/**
 * Creates the check of endpoints, which precedes the request to the proxy. It rejects with TargetFailure
 * (ADDRESS_BLOCKED; POLICY_UNDECIDED when the deadline comes during a look-up), or the signal's reason.
 *
 * A name that we cannot resolve passes. An incomplete look-up is cached; when it has expired, the name is looked up
 * again while checks use the cached addresses: no check waits a second time.
 */
export function createInspection(settings: InspectionSettings) {
  const { policy } = settings
  const lookUp = sharedLookUps(settings)
  return async ({ host, address }: Endpoint, signal: AbortSignal): Promise<void> => {
    signal.throwIfAborted()
    const literal = address ?? literalOf(host)
    if (literal !== undefined) {
      permit(policy, literal, host)
      return
    }
    const name = nameOf(host) ?? host
    const metadata = METADATA_NAMES.get(name.replace(/\.$/, ''))
    if (metadata !== undefined) permit(policy, metadata, host)
    // The look-up goes on, so that the next check finds its outcome.
    const { addresses } = await untilAborted(lookUp(name), signal).catch((reason: unknown) => {
      throw undecided(reason, host)
    })
    for (const one of addresses) permit(policy, one, host)
  }
}

/** Shares one look-up among concurrent checks of a name; caches incomplete ones. */
function sharedLookUps({ resolver, lookUpMs = 2000, rememberMs = 60_000 }: InspectionSettings) {
  const underWay = new Map<string, Promise<LookUp>>()
  const remembered = new LeastRecentlyUsed<string, { found: LookUp; until: number }>(REMEMBERED_MAX)
  const begin = async (name: string): Promise<LookUp> => {
    const found = await lookUpBoth(resolver, name, lookUpMs)
    underWay.delete(name)
    if (found.complete) remembered.delete(name)
    else remembered.set(name, { found, until: performance.now() + rememberMs })
    return found
  }
  return (name: string): Promise<LookUp> => {
    const known = remembered.get(name)
    if (known !== undefined && known.until > performance.now()) return Promise.resolve(known.found)
    let current = underWay.get(name)
    if (current === undefined) {
      current = begin(name)
      underWay.set(name, current)
    }
    return known === undefined ? current : Promise.resolve(known.found)
  }
}

/** Looks up both families: the proxy may use either. Never rejects. */
async function lookUpBoth(resolver: Resolver, name: string, lookUpMs: number): Promise<LookUp> {
  const limit = AbortSignal.timeout(lookUpMs)
  const answers = await Promise.allSettled([
    resolver.resolve(name, 'IPv4', limit),
    resolver.resolve(name, 'IPv6', limit),
  ])
  const addresses = answers.flatMap((one) => (one.status === 'fulfilled' ? one.value : []))
  return { addresses, complete: addresses.length > 0 && !limit.aborted }
}

/** Slow name servers of our own say nothing about the target. */
function undecided(reason: unknown, host: string): Error {
  if (!(reason instanceof DeadlineReached)) return reason as Error
  return targetFailure(
    'POLICY_UNDECIDED',
    `time ran out before the addresses of ${host} could be checked against the network policy`,
    { host, deadlineMs: reason.deadlineMs },
  )
}
