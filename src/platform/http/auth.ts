// Auth middleware of both APIs: credentials, authentication and rate limit; authorization in the public API.
import { hash as digest } from 'node:crypto'
import type { Context } from 'hono'
import { allows } from '../../contract/api/account.ts'
import { API_BOUNDS } from '../../contract/api/bounds.ts'
import { FAILED_AUTHENTICATION, type RatePolicy } from '../../contract/api/rate-policy.ts'
import type { KeyRefusal } from '../../contract/protocol/agent-protocol.ts'
import type { Database } from '../../database/database.ts'
import { findLocationKey } from '../../database/known-location-keys.ts'
import type { DefinedAgentOperation } from './agent-operation.ts'
import type { ClientAddress } from './client-address.ts'
import { ApiError, tooMany, unauthorized } from './errors.ts'
import type { HashedKey, KeyCredentials, KeyRing, KnownKey, KnownLocationKey } from './key-ring.ts'
import type { Auth, DefinedOperation } from './operation.ts'
import type { AgentRates } from './rate-limit/agent-rates.ts'
import { noteRate, type RateLimiter, type RateVerdict } from './rate-limit/rate-limit.ts'

/** Dependencies of both middlewares. */
export interface AuthParts<Key extends HashedKey> {
  keys: KeyRing<Key>
  limiter: RateLimiter
  clientAddress: ClientAddress
}

function limited(c: Context, verdict: RateVerdict): ApiError {
  noteRate(c, verdict)
  return tooMany(verdict)
}

/** The credentials of a request and the key that they were accepted as. */
interface Authenticated<Key, Given> {
  key: Key
  credentials: Given
}

/**
 * Creates an authenticator, synchronous for remembered keys. It throws 401 for a key that is not accepted, and 429
 * for an address with too many failures unless its key was good before.
 */
function createAuthenticator<Key extends HashedKey, Given extends KeyCredentials>(
  { keys, limiter, clientAddress }: AuthParts<Key>,
  read: (c: Context) => Given,
  refusalOf: (credentials: Given) => ApiError | Promise<ApiError>,
): (c: Context) => Authenticated<Key, Given> | Promise<Authenticated<Key, Given>> {
  const refuse = async (c: Context, error: unknown): Promise<never> => {
    const verdict = await limiter.take(`address:${clientAddress(c)}`, FAILED_AUTHENTICATION)
    if (!verdict.allowed) throw limited(c, verdict)
    noteRate(c, verdict)
    throw error
  }
  const lookUp = async (c: Context, credentials: Given) => {
    const isKnown = keys.isKnown(credentials)
    const spent = isKnown ? undefined : limiter.exhausted(`address:${clientAddress(c)}`)
    if (spent !== undefined) throw limited(c, spent)
    const key = await keys.find(credentials)
    if (key !== undefined) return { key, credentials }
    return refuse(c, await refusalOf(credentials))
  }
  return (c) => {
    let credentials: Given
    try {
      credentials = read(c)
    } catch (error) {
      return refuse(c, error)
    }
    const key = keys.recall(credentials)
    return key === undefined ? lookUp(c, credentials) : { key, credentials }
  }
}

/**
 * Creates the middleware of the public API. It throws 401 for a key that is not accepted, 429 past a limit (also
 * for an address with too many failures, unless its key was good before), 403 by account and by role.
 *
 * `policyOf` turns an operation's policy into the one that is counted: configuration may set another limit.
 */
export function createAuth(
  parts: AuthParts<KnownKey> & { policyOf: (operation: DefinedOperation) => RatePolicy },
): Auth<KnownKey, DefinedOperation> {
  const { limiter, policyOf } = parts
  const authenticate = createAuthenticator(parts, readCredentials, () => unauthorized('Bad Token'))
  const count = (
    c: Context,
    { key, credentials }: Authenticated<KnownKey, Credentials>,
    operation: DefinedOperation,
  ) => {
    const policy = policyOf(operation)
    const verdict = limiter.take(`key:${key.id}:${policy.name}`, policy)
    const decide = (one: RateVerdict): KnownKey => {
      if (!one.allowed) throw limited(c, one)
      noteRate(c, one)
      if (key.accountId !== credentials.accountId) {
        throw new ApiError(403, 'This key has no access to the account')
      }
      if (allows(key.role, operation.action)) return key
      throw new ApiError(403, `The API key role ${key.role} is not permitted to do this`)
    }
    return verdict instanceof Promise ? verdict.then(decide) : decide(verdict)
  }
  return (c, operation) => {
    const authenticated = authenticate(c)
    return authenticated instanceof Promise
      ? authenticated.then((one) => count(c, one, operation))
      : count(c, authenticated, operation)
  }
}

const REFUSALS: Record<KeyRefusal, string> = {
  unknown: 'No location has this key',
  revoked: 'This key was revoked',
}

/**
 * Creates the middleware of the agents' API. It throws 401 with `attributes.reason`, one of KEY_REFUSALS, for a key
 * that is not accepted, and 429 as above and for a key with too many calls.
 */
export function createLocationAuth(
  parts: AuthParts<KnownLocationKey> & { database: Database; rates: AgentRates },
): Auth<KnownLocationKey, DefinedAgentOperation> {
  const { database, rates } = parts
  const authenticate = createAuthenticator(parts, readAgentKey, async ({ hash }) => {
    const row = await findLocationKey(database, Buffer.from(hash, 'base64'))
    const reason = row?.revoked === true ? 'revoked' : 'unknown'
    const error = REFUSALS[reason]
    return new ApiError(401, error, {
      attributes: { error, reason },
      headers: { 'WWW-Authenticate': `Bearer error="invalid_token", error_description="${error}"` },
    })
  })
  const count = (key: KnownLocationKey, { kind }: DefinedAgentOperation) => {
    rates.take(key, kind)
    return key
  }
  return (c, operation) => {
    const authenticated = authenticate(c)
    return authenticated instanceof Promise
      ? authenticated.then(({ key }) => count(key, operation))
      : count(authenticated.key, operation)
  }
}

const BEARER = /^bearer +([\x21-\x7e]+) *$/i
const GUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
const SENTRY = /^sentry /i
const SENTRY_KEY = /(?:^sentry|,) *sentry_key=([\x21-\x2b\x2d-\x7e]+)/i

/** Credentials of a request to the public API, well-formed but not verified. */
interface Credentials extends KeyCredentials {
  accountId: string
}

/** Reads the key of a request from its Authorization header, RFC 6750. */
function readBearer(c: Context): KeyCredentials {
  const secret = BEARER.exec(c.req.header('authorization') ?? '')?.[1]
  if (secret === undefined) throw unauthorized('Missing authentication')
  return credentialsOf(secret)
}

/** As `readBearer`; without that header it reads the key where Sentry's protocol has it, X-Sentry-Auth. */
function readAgentKey(c: Context): KeyCredentials {
  const sentry = c.req.header('x-sentry-auth') ?? ''
  if (c.req.header('authorization') !== undefined || !SENTRY.test(sentry)) return readBearer(c)
  const secret = SENTRY_KEY.exec(sentry)?.[1]
  return secret === undefined ? readBearer(c) : credentialsOf(secret)
}

function credentialsOf(secret: string): KeyCredentials {
  if (secret.length > API_BOUNDS.keyCharactersMax) throw unauthorized('Bad Token')
  return { hash: digest('sha256', secret, 'base64') }
}

/**
 * Reads the Authorization and account headers. `X-Checkly-Account` is another spelling of
 * `X-Service-Account`; where both stand they must agree.
 */
function readCredentials(c: Context): Credentials {
  const { hash } = readBearer(c)
  const ours = c.req.header('x-service-account')
  const theirs = c.req.header('x-checkly-account')
  const account = (ours ?? theirs)?.toLowerCase()
  if (account === undefined) throw unauthorized('Missing account header')
  if (!GUID.test(account)) throw unauthorized('Bad account header')
  if (theirs !== undefined && theirs.toLowerCase() !== account) {
    throw unauthorized('The account headers differ')
  }
  return { hash, accountId: account }
}
