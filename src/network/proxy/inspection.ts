// Holds what the location's proxy is asked to reach against the network policy, as far as we can see it: the
// proxy resolves names itself, and may know more or others than we do.
import type { Endpoint } from '../dial.ts'
import { literalOf, nameOf } from '../ip-address.ts'
import { LeastRecentlyUsed } from '../least-recently-used.ts'
import { DeadlineReached } from '../deadline.ts'
import { permit, type NetworkPolicy } from '../network-policy.ts'
import type { Resolver } from '../dns/resolver.ts'
import { targetFailure } from '../target-failure.ts'

/** Names under which the clouds' metadata services answer, and where they lead. */
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

/** Names whose look-up was incomplete that are remembered. */
const REMEMBERED_MAX = 1000

/** What an inspection goes by. */
export interface InspectionSettings {
  policy: NetworkPolicy
  resolver: Resolver
  /** For one look-up, whatever time the checks have that wait for it. */
  lookUpMs?: number
  /** How long an incomplete look-up stands before the name is asked for again. */
  rememberMs?: number
}

/** Addresses that were found, and whether all that was asked for was answered. */
interface LookUp {
  addresses: readonly string[]
  complete: boolean
}

/**
 * Makes the test of endpoints before the proxy is asked for them. It rejects with TargetFailure
 * (ADDRESS_BLOCKED; POLICY_UNDECIDED when the deadline comes during a look-up), or the signal's reason.
 *
 * A name that we cannot resolve passes. What took a look-up to its end without an answer is remembered, and
 * from then on the name is asked for again while checks go by what is known: no check waits a second time.
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
    const { addresses } = await untilAborted(lookUp(name), host, signal)
    for (const one of addresses) permit(policy, one, host)
  }
}

/** One look-up for all who ask for a name at the same time; what was incomplete is remembered. */
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

/** Both families: what the monitor asks for does not bind the proxy. Never rejects. */
async function lookUpBoth(resolver: Resolver, name: string, lookUpMs: number): Promise<LookUp> {
  const limit = new AbortController()
  const timer = setTimeout(() => limit.abort(new Error('the look-up took too long')), lookUpMs)
  timer.unref()
  const answers = await Promise.allSettled([
    resolver.resolve(name, 'IPv4', limit.signal),
    resolver.resolve(name, 'IPv6', limit.signal),
  ])
  clearTimeout(timer)
  const addresses = answers.flatMap((one) => (one.status === 'fulfilled' ? one.value : []))
  return { addresses, complete: addresses.length > 0 && !limit.signal.aborted }
}

/** Stops waiting when aborted; the look-up goes on, so that the next check finds its outcome. */
function untilAborted(work: Promise<LookUp>, host: string, signal: AbortSignal): Promise<LookUp> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(undecided(signal.reason, host))
    signal.addEventListener('abort', onAbort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}

/** That our own name servers are slow says nothing about the target. */
function undecided(reason: unknown, host: string): Error {
  if (!(reason instanceof DeadlineReached)) return reason as Error
  return targetFailure(
    'POLICY_UNDECIDED',
    `time ran out before the addresses of ${host} could be held against the network policy`,
    { host, deadlineMs: reason.deadlineMs },
  )
}
