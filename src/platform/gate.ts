// The gate that every operation stands behind: who asks, how often, and whether they may.
import type { Context } from 'hono'
import { allows } from '../contract/account.ts'
import { FAILED_AUTHENTICATION, type RatePolicy } from '../contract/rate-policy.ts'
import { checkAccount, readClaim, type Claim, type KeyRing, type KnownKey } from './auth.ts'
import type { ClientAddress } from './client-address.ts'
import { ApiError, unauthorized } from './errors.ts'
import type { DefinedOperation, Gate } from './operation.ts'
import { rateHeaders, type RateLimiter, type RateVerdict } from './rate-limit.ts'

/** What a gate needs. */
export interface GateParts {
  keys: KeyRing
  limiter: RateLimiter
  clientAddress: ClientAddress
  /** Turns an operation's policy into the one that is counted: configuration may set another limit. */
  policyOf: (operation: DefinedOperation) => RatePolicy
}

const RATE = 'rate'

/** The RateLimit headers of a request that was counted; none before that. */
export function rateHeadersOf(c: Context): Record<string, string> {
  const verdict = c.get(RATE) as RateVerdict | undefined
  return verdict === undefined ? {} : rateHeaders(verdict)
}

/**
 * Makes the gate. It throws 401 for a key that is not accepted, 429 past a limit (also for an address
 * with too many failures, unless its key was good before), 403 by account and by role.
 */
export function createGate({ keys, limiter, clientAddress, policyOf }: GateParts): Gate {
  const refuse = async (c: Context, error: unknown): Promise<never> => {
    const scope = `address:${clientAddress(c)}`
    const verdict = await limiter.take(scope, FAILED_AUTHENTICATION)
    c.set(RATE, verdict)
    throw verdict.allowed ? error : tooMany(verdict)
  }
  const lookUp = async (c: Context, claim: Claim): Promise<KnownKey> => {
    if (!keys.isKnown(claim)) {
      const spent = limiter.exhausted(`address:${clientAddress(c)}`, FAILED_AUTHENTICATION)
      if (spent !== undefined) {
        c.set(RATE, spent)
        throw tooMany(spent)
      }
    }
    return (await keys.find(claim)) ?? refuse(c, unauthorized('Bad Token'))
  }
  const count = (c: Context, key: KnownKey, claim: Claim, operation: DefinedOperation) => {
    const policy = policyOf(operation)
    const verdict = limiter.take(`key:${key.id}:${policy.name}`, policy)
    const decide = (one: RateVerdict): KnownKey => {
      c.set(RATE, one)
      if (!one.allowed) throw tooMany(one)
      checkAccount(key, claim)
      if (allows(key.role, operation.deed)) return key
      throw new ApiError(403, `The role of this key, ${key.role}, does not allow this`)
    }
    return verdict instanceof Promise ? verdict.then(decide) : decide(verdict)
  }
  return (c, operation) => {
    let claim: Claim
    try {
      claim = readClaim(c)
    } catch (error) {
      return refuse(c, error)
    }
    const key = keys.recall(claim)
    if (key !== undefined) return count(c, key, claim, operation)
    return lookUp(c, claim).then((found) => count(c, found, claim, operation))
  }
}

function tooMany(verdict: RateVerdict): ApiError {
  const { policy, resetS } = verdict
  const what = policy === FAILED_AUTHENTICATION ? 'failed authentications' : 'requests'
  return new ApiError(
    429,
    `Rate limit of ${policy.limit} ${what} in ${policy.windowS} seconds is used up`,
    {
      attributes: {
        policy: policy.name,
        limit: policy.limit,
        remaining: 0,
        windowSeconds: policy.windowS,
        resetSeconds: resetS,
      },
      headers: { 'Retry-After': String(resetS) },
    },
  )
}
