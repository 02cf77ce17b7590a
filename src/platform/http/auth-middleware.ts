// Auth middleware of the public API: authentication, rate limit, authorization.
import type { Context } from 'hono'
import { allows } from '../../contract/api/account.ts'
import type { RatePolicy } from '../../contract/api/rate-policy.ts'
import { createAuthenticator, noteRate, tooMany, type Admitted } from './authenticator.ts'
import { checkAccount, readCredentials, type Credentials, type KnownKey } from './auth.ts'
import type { ClientAddress } from './client-address.ts'
import { ApiError } from './errors.ts'
import type { KeyRing } from './key-ring.ts'
import type { DefinedOperation, AuthMiddleware } from './operation.ts'
import type { RateLimiter, RateVerdict } from './rate-limit/rate-limit.ts'

/** Dependencies of the middleware. */
export interface AuthParts {
  keys: KeyRing<KnownKey>
  limiter: RateLimiter
  clientAddress: ClientAddress
  /** Turns an operation's policy into the one that is counted: configuration may set another limit. */
  policyOf: (operation: DefinedOperation) => RatePolicy
}

/**
 * Creates the middleware. It throws 401 for a key that is not accepted, 429 past a limit (also for an address
 * with too many failures, unless its key was good before), 403 by account and by role.
 */
export function createAuth({ keys, limiter, clientAddress, policyOf }: AuthParts): AuthMiddleware {
  const admit = createAuthenticator({ keys, limiter, clientAddress, readCredentials })
  const count = (
    c: Context,
    { key, credentials }: Admitted<KnownKey, Credentials>,
    operation: DefinedOperation,
  ) => {
    const policy = policyOf(operation)
    const verdict = limiter.take(`key:${key.id}:${policy.name}`, policy)
    const decide = (one: RateVerdict): KnownKey => {
      noteRate(c, one)
      if (!one.allowed) throw tooMany(one)
      checkAccount(key, credentials)
      if (allows(key.role, operation.action)) return key
      throw new ApiError(403, `The role of this key, ${key.role}, does not allow this`)
    }
    return verdict instanceof Promise ? verdict.then(decide) : decide(verdict)
  }
  return (c, operation) => {
    const admitted = admit(c)
    return admitted instanceof Promise
      ? admitted.then((one) => count(c, one, operation))
      : count(c, admitted, operation)
  }
}
