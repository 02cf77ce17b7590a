// Whether this machine has a network at all. Where it has none, nothing can be said about any target.
import { networkInterfaces } from 'node:os'
import { failure, type Failure } from '../contract/failure.ts'

/** Addresses that a machine gives itself, and that no router forwards (RFC 3927, RFC 4291). */
const LINK_LOCAL = /^(?:169\.254\.|fe[89ab][\da-f]:)/i

/** Whether no interface but the loopback is up with an address; link-local addresses do not count. */
export function isCutOff(): boolean {
  return !Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .some(({ internal, address }) => !internal && !LINK_LOCAL.test(address))
}

/** The failure of whatever needs the network of a machine that has none. */
export function cutOffFailure(details?: Record<string, unknown>): Failure {
  const message = 'this agent’s machine has no network: only its loopback has an address'
  return failure('NETWORK_UNREACHABLE', message, details)
}
