// Connections of user code that failed, as results report them: refused by the sandbox under the network policy,
// or failed in the run's proxy.
import type { BlockedConnection } from '../request.ts'
import type { ProxyRefusal } from './run-proxy.ts'

/** A connection that could not be made. */
export interface RefusedConnection {
  /** The name where it is known, else the address. */
  host: string
  port: number
  /** A failure's code. */
  code: string
  /** Of a name, what it led to. */
  address?: string
  /** The network of the policy that the address is in. */
  network?: string
}

const REFUSED_MAX = 50
const NAMED_MAX = 5

/** The first ones of both kinds. */
export function refusedConnections(
  refusals: readonly ProxyRefusal[],
  blocked: readonly BlockedConnection[],
): RefusedConnection[] {
  return [
    ...refusals.map(({ host, port, failure }) => ({ host, port, code: failure.code })),
    ...blocked.map(({ address, port, network, name }) => ({
      host: name ?? address,
      port,
      code: 'ADDRESS_BLOCKED',
      ...(name === undefined ? {} : { address }),
      network,
    })),
  ].slice(0, REFUSED_MAX)
}

/** Says what the policy refused and why, each target once; no note where it refused nothing. */
export function blockedNotes(blocked: readonly BlockedConnection[]): string[] {
  const each = new Set(
    blocked.map(({ address, port, network, name }) => {
      const target = address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
      return `${target}${name === undefined ? '' : ` (${name})`}, which is in ${network}`
    }),
  )
  return [...each].slice(0, NAMED_MAX).map((one) => `the network policy forbids ${one}`)
}
