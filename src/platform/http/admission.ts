// How a key is let in, whatever kind it is: remembered keys at once, others by a look-up, and an address
// with too many failures not at all.
import type { Context } from 'hono'
import { FAILED_AUTHENTICATION } from '../../contract/api/rate-policy.ts'
import type { ClientAddress } from './client-address.ts'
import { ApiError, unauthorized } from './errors.ts'
import type { HashedKey, KeyClaim, KeyRing } from './key-ring.ts'
import { rateHeaders, type RateLimiter, type RateVerdict } from './rate-limit/rate-limit.ts'

/** What admission needs. */
export interface AdmissionParts<Key extends HashedKey, Claim extends KeyClaim> {
  keys: KeyRing<Key>
  limiter: RateLimiter
  clientAddress: ClientAddress
  /** Reads what a request says about itself; throws the 401 that a client is to see. */
  readClaim(c: Context): Claim
  /** The 401 for a key that is not accepted; by default one that says no more. */
  refusal?(claim: Claim): Promise<ApiError>
}

/** A key that was let in, and what its request said. */
export interface Admitted<Key, Claim> {
  key: Key
  claim: Claim
}

/** Lets a request's key in, at once where it is remembered. Throws or rejects with 401 and 429. */
export type Admission<Key, Claim> = (
  c: Context,
) => Admitted<Key, Claim> | Promise<Admitted<Key, Claim>>

const RATE = 'rate'

/** Notes how a request was counted, for its headers. */
export function noteRate(c: Context, verdict: RateVerdict): void {
  c.set(RATE, verdict)
}

/** The RateLimit headers of a request that was counted; none before that. */
export function rateHeadersOf(c: Context): Record<string, string> {
  const verdict = c.get(RATE) as RateVerdict | undefined
  return verdict === undefined ? {} : rateHeaders(verdict)
}

/**
 * Makes the admission. It throws 401 for a key that is not accepted, and 429 for an address with too many
 * failures unless its key was good before.
 */
export function createAdmission<Key extends HashedKey, Claim extends KeyClaim>(
  parts: AdmissionParts<Key, Claim>,
): Admission<Key, Claim> {
  const { keys, limiter, clientAddress } = parts
  const refuse = async (c: Context, error: unknown): Promise<never> => {
    const scope = `address:${clientAddress(c)}`
    const verdict = await limiter.take(scope, FAILED_AUTHENTICATION)
    noteRate(c, verdict)
    throw verdict.allowed ? error : tooMany(verdict)
  }
  const lookUp = async (c: Context, claim: Claim): Promise<Admitted<Key, Claim>> => {
    if (!keys.isKnown(claim)) {
      const spent = limiter.exhausted(`address:${clientAddress(c)}`)
      if (spent !== undefined) {
        noteRate(c, spent)
        throw tooMany(spent)
      }
    }
    const key = await keys.find(claim)
    if (key !== undefined) return { key, claim }
    return refuse(c, (await parts.refusal?.(claim)) ?? unauthorized('Bad Token'))
  }
  return (c) => {
    let claim: Claim
    try {
      claim = parts.readClaim(c)
    } catch (error) {
      return refuse(c, error)
    }
    const key = keys.recall(claim)
    return key === undefined ? lookUp(c, claim) : { key, claim }
  }
}

/** 429 for a request that is over its limit; `headers` are added. */
export function tooMany(verdict: RateVerdict, headers: Record<string, string> = {}): ApiError {
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
      headers: { 'Retry-After': String(resetS), ...headers },
    },
  )
}
