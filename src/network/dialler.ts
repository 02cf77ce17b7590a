// Dialler, the only egress: resolves a name, checks its addresses against the network policy, connects (through the
// location's proxy, if any), and performs TLS handshakes.
import type { Connection, Dialler, Endpoint, Progress } from './dial.ts'
import { familyOf, literalOf } from './ip-address.ts'
import { permit, type NetworkPolicy } from './network-policy.ts'
import { openSocket } from './open-socket.ts'
import { createProxy, type Proxy } from './proxy/proxy.ts'
import type { Resolver } from './dns/resolver.ts'
import { shakeHands } from './tls/handshake.ts'

export interface DiallerSettings {
  policy: NetworkPolicy
  resolver: Resolver
  /** The location's proxy, `http://` or `https://`, with `user:password@` if needed. */
  proxyUrl?: string | undefined
}

/** Creates the dialler. Throws a TypeError if `proxyUrl` is invalid; check it with `proxyProblem` before. */
export function createDialler(settings: DiallerSettings): Dialler {
  const { policy, resolver } = settings
  const proxy =
    settings.proxyUrl === undefined
      ? undefined
      : createProxy(settings.proxyUrl, { policy, resolver })
  return {
    isProxied: proxy !== undefined,
    async resolve(host, family, signal) {
      const addresses = await resolver.resolve(host, family, signal)
      for (const address of addresses) permit(policy, address, host)
      return addresses
    },
    connect(endpoint, progress, signal) {
      return proxy === undefined
        ? connectDirectly(settings, endpoint, progress, signal)
        : connectThrough(proxy, endpoint, progress, signal)
    },
    secure: shakeHands,
  }
}

async function connectDirectly(
  { policy, resolver }: DiallerSettings,
  endpoint: Endpoint,
  progress: Progress,
  signal: AbortSignal,
): Promise<Connection> {
  const { host, port, family } = endpoint
  progress.phase = 'dns'
  const startedAt = performance.now()
  const literal = endpoint.address ?? literalOf(host)
  const address = literal ?? (await resolver.resolve(host, family, signal))[0]
  permit(policy, address, host)
  const resolvedAt = performance.now()
  progress.phase = 'connect'
  const socket = await openSocket(address, port, signal)
  return {
    socket,
    address,
    family: familyOf(address),
    dnsMs: literal === undefined ? resolvedAt - startedAt : 0,
    connectMs: performance.now() - resolvedAt,
  }
}

function connectThrough(
  proxy: Proxy,
  endpoint: Endpoint,
  progress: Progress,
  signal: AbortSignal,
): Promise<Connection> {
  // A forward proxy resolves the name itself; a fixed address needs a tunnel.
  return endpoint.forward === true && endpoint.address === undefined
    ? proxy.forward(endpoint, progress, signal)
    : proxy.tunnel(endpoint, progress, signal)
}
