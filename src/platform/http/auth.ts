// Credentials of a request: its key and its account.
import { hash as digest } from 'node:crypto'
import type { Context } from 'hono'
import type { Role } from '../../contract/api/account.ts'
import { API_BOUNDS } from '../../contract/api/bounds.ts'
import { ApiError, unauthorized } from './errors.ts'
import type { HashedKey, KeyCredentials } from './key-ring.ts'

/** A key of the public API as the platform knows it. */
export interface KnownKey extends HashedKey {
  name: string
  accountId: string
  role: Role
}

const BEARER = /^bearer +([\x21-\x7e]+) *$/i
const GUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** Credentials of a request, well-formed but not verified. */
export interface Credentials extends KeyCredentials {
  accountId: string
}

/**
 * Reads the key of a request from its Authorization header, RFC 6750. Throws the 401 that a client is
 * to see.
 */
export function readBearer(c: Context): KeyCredentials {
  const secret = BEARER.exec(c.req.header('authorization') ?? '')?.[1]
  if (secret === undefined) throw unauthorized('Missing authentication')
  return credentialsOf(secret)
}

const SENTRY_KEY = /^sentry +(?:.*, *)?sentry_key=([\x21-\x2b\x2d-\x7e]+)/i

/** As `readBearer`; without that header it reads the key where Sentry's protocol has it, X-Sentry-Auth. */
export function readAgentKey(c: Context): KeyCredentials {
  const isBearer = c.req.header('authorization') !== undefined
  const secret = isBearer ? undefined : SENTRY_KEY.exec(c.req.header('x-sentry-auth') ?? '')?.[1]
  return secret === undefined ? readBearer(c) : credentialsOf(secret)
}

function credentialsOf(secret: string): KeyCredentials {
  if (secret.length > API_BOUNDS.keyCharactersMax) throw unauthorized('Bad Token')
  return { hash: digest('sha256', secret, 'base64') }
}

/**
 * Reads the Authorization and account headers. `X-Checkly-Account` is another spelling of
 * `X-Service-Account`; where both stand they must agree. Throws the 401 that a client is to see.
 */
export function readCredentials(c: Context): Credentials {
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

/** Throws 403 unless the key belongs to the account that the request names. */
export function checkAccount(key: KnownKey, credentials: Credentials): void {
  if (key.accountId !== credentials.accountId) {
    throw new ApiError(403, 'This key has no access to the account')
  }
}
