// Dialler, the only egress: resolves a name, checks its addresses against the network policy, connects (through the
// location's proxy, if any), and performs TLS handshakes.
import type { Dialler } from './dial.ts'
import { literalOf } from './ip-address.ts'
import { permit, type NetworkPolicy } from './network-policy.ts'
import { connectTo } from './open-socket.ts'
import { createProxy } from './proxy/proxy.ts'
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
      if (proxy !== undefined) return proxy(endpoint, progress, signal)
      const { host, port, family } = endpoint
      const destination = {
        literal: endpoint.address ?? literalOf(host),
        lookUp: async () => (await resolver.resolve(host, family, signal))[0],
        check: (address: string) => permit(policy, address, host),
        port,
      }
      return connectTo(destination, progress, signal)
    },
    secure: shakeHands,
  }
}
