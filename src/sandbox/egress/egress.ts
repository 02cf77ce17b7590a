// Network egress of one run of user code: direct, checked by the sandbox; or through its own proxy, where the location
// has a proxy that everything must use, or where the system may not let the sandbox check connections. Connections that
// failed are reported in one form.
import type { BlockedConnection, Sandbox, SandboxProxy } from '../request.ts'
import type { Dialler } from '../../network/dial.ts'
import { openRunProxy, type ProxyRefusal, type RunProxy } from './run-proxy.ts'

export interface Egress {
  /** For the order of the run; empty for a direct connection. */
  order: { proxy?: SandboxProxy }
  /** Connections through the proxy that could not be made; the first ones. */
  refusals: readonly ProxyRefusal[]
  close(): Promise<void>
}

const STRAIGHT: Egress = { order: {}, refusals: [], close: () => Promise.resolve() }

/** Opens it; `variablesOf` names what leads the run's programs to the proxy. */
export async function openEgress(
  sandbox: Sandbox,
  dial: Dialler,
  variablesOf: (proxy: RunProxy) => Record<string, string> = ({ environment }) => environment,
): Promise<Egress> {
  if (sandbox.alwaysEnforcesNetwork && !dial.isProxied) return STRAIGHT
  const proxy = await openRunProxy(dial)
  const when = dial.isProxied ? 'always' : 'unenforced'
  return {
    order: {
      proxy: { port: Number(new URL(proxy.server).port), environment: variablesOf(proxy), when },
    },
    refusals: proxy.refusals,
    close: () => proxy.close(),
  }
}

/** A connection that could not be made. */
export interface RefusedConnection {
  /** The name where it is known, else the address. */
  host: string
  port: number
  /** A failure's code. */
  code: string
  /** Of a name, what it led to. */
  address?: string
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
