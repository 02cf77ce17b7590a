// Network egress of one run of user code: direct, checked by the sandbox; or through its own proxy, where the location
// has a proxy that everything must use, or where the system may not let the sandbox check connections.
import type { Sandbox, SandboxProxy } from '../run.ts'
import type { Dialler } from '../../network/dial.ts'
import { openRunProxy, type ProxyRefusal, type RunProxy } from './run-proxy.ts'

/** Egress of one run. */
export interface Egress {
  /** For the order of the run; empty for a direct connection. */
  order: { proxy?: SandboxProxy }
  /** Connections through the proxy that could not be made; the first ones. */
  refusals: readonly ProxyRefusal[]
  close(): Promise<void>
}

const STRAIGHT: Egress = { order: {}, refusals: [], close: () => Promise.resolve() }

/**
 * Opens it. `variablesOf` names what leads the run's programs to the proxy. Rejects when no port of loopback
 * is free for it.
 */
export async function openEgress(
  sandbox: Sandbox,
  dial: Dialler,
  variablesOf: (proxy: RunProxy) => Record<string, string> = ({ environment }) => environment,
): Promise<Egress> {
  if (sandbox.alwaysHoldsNetwork && !dial.isProxied) return STRAIGHT
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
