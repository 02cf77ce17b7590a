// The context of a monitor outside the agent: a dialler with the default policy, and no deadline.
import type { ScriptContext } from '../../src/scripts/context.ts'
import { createDialler } from '../../src/network/dialler.ts'
import { createNetworkPolicy } from '../../src/network/network-policy.ts'
import { createResolver } from '../../src/network/dns/resolver.ts'

const dial = createDialler({
  policy: createNetworkPolicy({ blocked: [], allowed: [] }),
  resolver: createResolver({ useOsResolver: false }),
})

/** A context for one run. */
export function plainContext(): ScriptContext {
  return {
    signal: new AbortController().signal,
    dial,
    workFolder: () => Promise.reject(new Error('no work folder in a bench')),
    attach: () => undefined,
  }
}
