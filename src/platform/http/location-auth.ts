// Auth middleware of the agents' API: authenticates an agent by the key of its location.
import type { Context } from 'hono'
import type { KeyRefusal } from '../../contract/protocol/agent-protocol.ts'
import type { Database } from '../../database/database.ts'
import { findLocationKey } from '../../database/known-location-keys.ts'
import { createAuthenticator } from './authenticator.ts'
import { readAgentKey } from './auth.ts'
import type { ClientAddress } from './client-address.ts'
import { ApiError } from './errors.ts'
import type { HashedKey, KeyRing } from './key-ring.ts'
import type { RateLimiter } from './rate-limit/rate-limit.ts'

/** A key of a location as the platform knows it. */
export interface KnownLocationKey extends HashedKey {
  locationId: string
  accountId: string
  slugName: string
  /** Live agents of the location, as of when the key was looked up. */
  agents: number
}

/** Asks for the key of a call's location. */
export type LocationAuth = (c: Context) => KnownLocationKey | Promise<KnownLocationKey>

/** Dependencies of the middleware. */
export interface LocationAuthParts {
  database: Database
  keys: KeyRing<KnownLocationKey>
  limiter: RateLimiter
  clientAddress: ClientAddress
}

const MESSAGES: Record<KeyRefusal, string> = {
  unknown: 'No location has this key',
  revoked: 'This key was revoked',
}

/**
 * Creates the middleware. It throws 401 with `attributes.reason`, one of KEY_REFUSALS, for a key that is not
 * accepted, and 429 for an address with too many failures unless its key was good before.
 */
export function createLocationAuth(parts: LocationAuthParts): LocationAuth {
  const { database, keys, limiter, clientAddress } = parts
  const admit = createAuthenticator({
    keys,
    limiter,
    clientAddress,
    readCredentials: readAgentKey,
    async refusal({ hash }) {
      const row = await findLocationKey(database, Buffer.from(hash, 'base64'))
      return refusalOf(row?.revoked === true ? 'revoked' : 'unknown')
    },
  })
  return (c) => {
    const admitted = admit(c)
    return admitted instanceof Promise ? admitted.then(({ key }) => key) : admitted.key
  }
}

function refusalOf(reason: KeyRefusal): ApiError {
  const message = MESSAGES[reason]
  return new ApiError(401, message, {
    attributes: { error: message, reason },
    headers: { 'WWW-Authenticate': `Bearer error="invalid_token", error_description="${message}"` },
  })
}
