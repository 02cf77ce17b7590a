// Auth middleware of both APIs: credentials, keys that were good a moment ago, authentication and rate limit;
// authorization in the public API.
import { hash as digest, timingSafeEqual } from 'node:crypto'
import type { Context } from 'hono'
import { allows } from '../../contract/api/account.ts'
import { API_BOUNDS } from '../../contract/api/bounds.ts'
import { FAILED_AUTHENTICATION, type RatePolicy } from '../../contract/api/rate-policy.ts'
import type { KeyRefusal } from '../../contract/protocol/agent-protocol.ts'
import type { Database } from '../../database/database.ts'
import type { DefinedAgentOperation } from './agent-operation.ts'
import type { ClientAddress } from './client-address.ts'
import { ApiError, tooMany, unauthorized } from './errors.ts'
import {
  type FindKey,
  findLocationKey,
  type HashedKey,
  type KeyCredentials,
  type KnownKey,
  type KnownLocationKey,
} from './keys.ts'
import type { Auth, DefinedOperation } from './operation.ts'
import type { AgentRates } from './rate-limit/agent-rates.ts'
import { noteRate, type RateLimiter, type RateVerdict } from './rate-limit/rate-limit.ts'

interface Remembered<Key> {
  key: Key
  freshUntil: number
}

const FRESH_MS = 5_000
const REMEMBERED_MAX = 10_000

/** Remembers keys for a few seconds, so that most requests need no look-up. */
export class KeyRing<Key extends HashedKey> {
  readonly #find: FindKey<Key>
  readonly #remembered = new Map<string, Remembered<Key>>()
  readonly #asking = new Map<string, Promise<Key | undefined>>()
  #generation = 0

  constructor(find: FindKey<Key>) {
    this.#find = find
  }

  /** The key of these credentials when it is fresh in memory. */
  recall(credentials: KeyCredentials): Key | undefined {
    // Only hashes are compared here: the duration reveals nothing about a key.
    const found = this.#remembered.get(credentials.hash)
    return found !== undefined && performance.now() < found.freshUntil ? found.key : undefined
  }

  /** Whether the key was good before, though it has to be looked up again. */
  isKnown(credentials: KeyCredentials): boolean {
    return this.#remembered.has(credentials.hash)
  }

  /** Looks up the key of these credentials; undefined when it is not accepted. Rejects when the look-up does. */
  async find(credentials: KeyCredentials): Promise<Key | undefined> {
    const { hash } = credentials
    const asked = this.#asking.get(hash)
    if (asked !== undefined) return asked
    const asking: Promise<Key | undefined> = this.#ask(hash).finally(() => {
      if (this.#asking.get(hash) === asking) this.#asking.delete(hash)
    })
    this.#asking.set(hash, asking)
    return asking
  }

  /** Makes every key be looked up again: one was revoked or changed, or we may have missed it. */
  forget(): void {
    this.#generation++
    this.#asking.clear()
    for (const one of this.#remembered.values()) one.freshUntil = 0
  }

  async #ask(hash: string): Promise<Key | undefined> {
    const generation = this.#generation
    const bytes = Buffer.from(hash, 'base64')
    const key = await this.#find(bytes)
    if (key === undefined || !timingSafeEqual(key.hash, bytes)) {
      this.#remembered.delete(hash)
      return undefined
    }
    // An answer from before a revocation must not be remembered after it.
    const freshUntil = generation === this.#generation ? performance.now() + FRESH_MS : 0
    this.#remembered.delete(hash)
    this.#remembered.set(hash, { key, freshUntil })
    if (this.#remembered.size > REMEMBERED_MAX) {
      const oldest = this.#remembered.keys().next().value
      if (oldest !== undefined) this.#remembered.delete(oldest)
    }
    return key
  }
}

interface AuthParts<Key extends HashedKey> {
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
 * Creates an authenticator. It throws 401 for a key that is not accepted, and 429 for an address with too many
 * failures unless its key was good before.
 */
function createAuthenticator<Key extends HashedKey, Given extends KeyCredentials>(
  { keys, limiter, clientAddress }: AuthParts<Key>,
  read: (c: Context) => Given,
  refusalOf: (credentials: Given) => ApiError | Promise<ApiError>,
): (c: Context) => Promise<Authenticated<Key, Given>> {
  const scopeOf = (c: Context) => `address:${clientAddress(c)}`
  const authenticate = async (c: Context) => {
    const credentials = read(c)
    const known = keys.recall(credentials)
    if (known !== undefined) return { key: known, credentials }
    const spent = keys.isKnown(credentials) ? undefined : limiter.exhausted(scopeOf(c))
    if (spent !== undefined) throw limited(c, spent)
    const key = await keys.find(credentials)
    if (key === undefined) throw await refusalOf(credentials)
    return { key, credentials }
  }
  return async (c) => {
    try {
      return await authenticate(c)
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 401) throw error
      const verdict = await limiter.take(scopeOf(c), FAILED_AUTHENTICATION)
      if (!verdict.allowed) throw limited(c, verdict)
      noteRate(c, verdict)
      throw error
    }
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
  return async (c, operation) => {
    const { key, credentials } = await authenticate(c)
    const policy = policyOf(operation)
    const verdict = await limiter.take(`key:${key.id}:${policy.name}`, policy)
    if (!verdict.allowed) throw limited(c, verdict)
    noteRate(c, verdict)
    if (key.accountId !== credentials.accountId) {
      throw new ApiError(403, 'This key has no access to the account')
    }
    if (allows(key.role, operation.action)) return key
    throw new ApiError(403, `The API key role ${key.role} is not permitted to do this`)
  }
}

const REFUSALS: Record<KeyRefusal, string> = {
  unknown: 'No location has this key',
  revoked: 'This key was revoked',
}

/**
 * Creates the middleware of the agents' API. It throws 401 with `attributes.reason`, a KeyRefusal, for a key
 * that is not accepted, and 429 as above and for a key with too many calls.
 */
export function createLocationAuth(
  parts: Omit<AuthParts<KnownLocationKey>, 'keys'> & { database: Database; rates: AgentRates },
): { auth: Auth<KnownLocationKey, DefinedAgentOperation>; keys: KeyRing<KnownLocationKey> } {
  const { database, rates } = parts
  const keys = new KeyRing<KnownLocationKey>(async (hash) => {
    const row = await findLocationKey(database, hash)
    return row?.revoked === false ? row : undefined
  })
  const authenticate = createAuthenticator({ ...parts, keys }, readAgentKey, async ({ hash }) => {
    const row = await findLocationKey(database, Buffer.from(hash, 'base64'))
    const reason = row?.revoked === true ? 'revoked' : 'unknown'
    const error = REFUSALS[reason]
    return new ApiError(401, error, {
      attributes: { error, reason },
      headers: { 'WWW-Authenticate': `Bearer error="invalid_token", error_description="${error}"` },
    })
  })
  const auth: Auth<KnownLocationKey, DefinedAgentOperation> = async (c, { kind }) => {
    const { key } = await authenticate(c)
    rates.take(key, kind)
    return key
  }
  return { auth, keys }
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
  if (account === undefined) throw unauthorized('Missing header X-Service-Account')
  if (!GUID.test(account)) throw unauthorized('Bad account header')
  if (theirs !== undefined && theirs.toLowerCase() !== account) {
    throw unauthorized('The account headers differ')
  }
  return { hash, accountId: account }
}
