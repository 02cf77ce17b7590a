// How a run of user code reaches the network: straight, evaluated by the sandbox, or through a proxy of its own,
// where the location has one that all must go through, or where the system may not let the sandbox evaluate.
import type { Sandbox, SandboxProxy } from '../run.ts'
import type { Dialler } from '../../network/dial.ts'
import { openRunProxy, type ProxyRefusal, type RunProxy } from './run-proxy.ts'

/** The way out of one run. */
export interface Egress {
  /** For the order of the run; empty where it goes straight. */
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
  const when = dial.isProxied ? 'always' : 'unheld'
  return {
    order: {
      proxy: { port: Number(new URL(proxy.server).port), environment: variablesOf(proxy), when },
    },
    refusals: proxy.refusals,
    close: () => proxy.close(),
  }
}
