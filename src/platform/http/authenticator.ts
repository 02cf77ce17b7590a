// Authenticator for all kinds of keys: remembered keys pass at once, others are looked up. An address with too
// many failures is refused.
import type { Context } from 'hono'
import { FAILED_AUTHENTICATION } from '../../contract/api/rate-policy.ts'
import type { ClientAddress } from './client-address.ts'
import { ApiError, unauthorized } from './errors.ts'
import type { HashedKey, KeyCredentials, KeyRing } from './key-ring.ts'
import { rateHeaders, type RateLimiter, type RateVerdict } from './rate-limit/rate-limit.ts'

/** Dependencies of an authenticator. */
export interface AuthenticatorParts<Key extends HashedKey, Credentials extends KeyCredentials> {
  keys: KeyRing<Key>
  limiter: RateLimiter
  clientAddress: ClientAddress
  /** Reads the credentials of a request; throws the 401 that a client is to see. */
  readCredentials(c: Context): Credentials
  /** The 401 for a key that is not accepted; by default one that says no more. */
  refusal?(credentials: Credentials): Promise<ApiError>
}

/** An accepted key and the credentials of its request. */
export interface Admitted<Key, Credentials> {
  key: Key
  credentials: Credentials
}

/** Authenticates a request, synchronously for a remembered key. Throws or rejects with 401 and 429. */
export type Authenticator<Key, Credentials> = (
  c: Context,
) => Admitted<Key, Credentials> | Promise<Admitted<Key, Credentials>>

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
 * Creates an authenticator. It throws 401 for a key that is not accepted, and 429 for an address with too many
 * failures unless its key was good before.
 */
export function createAuthenticator<Key extends HashedKey, Credentials extends KeyCredentials>(
  parts: AuthenticatorParts<Key, Credentials>,
): Authenticator<Key, Credentials> {
  const { keys, limiter, clientAddress } = parts
  const refuse = async (c: Context, error: unknown): Promise<never> => {
    const scope = `address:${clientAddress(c)}`
    const verdict = await limiter.take(scope, FAILED_AUTHENTICATION)
    noteRate(c, verdict)
    throw verdict.allowed ? error : tooMany(verdict)
  }
  const lookUp = async (
    c: Context,
    credentials: Credentials,
  ): Promise<Admitted<Key, Credentials>> => {
    if (!keys.isKnown(credentials)) {
      const spent = limiter.exhausted(`address:${clientAddress(c)}`)
      if (spent !== undefined) {
        noteRate(c, spent)
        throw tooMany(spent)
      }
    }
    const key = await keys.find(credentials)
    if (key !== undefined) return { key, credentials }
    return refuse(c, (await parts.refusal?.(credentials)) ?? unauthorized('Bad Token'))
  }
  return (c) => {
    let credentials: Credentials
    try {
      credentials = parts.readCredentials(c)
    } catch (error) {
      return refuse(c, error)
    }
    const key = keys.recall(credentials)
    return key === undefined ? lookUp(c, credentials) : { key, credentials }
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
