// The context of a monitor in tests: a real dialler, and a signal of the test.
import type { Dialler } from '../../../src/network/dial.ts'
import { createDialler } from '../../../src/network/dialler.ts'
import { DeadlineReached } from '../../../src/network/deadline.ts'
import type { ScriptContext } from '../../../src/scripts/context.ts'
import { createNetworkPolicy } from '../../../src/network/network-policy.ts'
import { createResolver, type Resolver } from '../../../src/network/dns/resolver.ts'

export interface ContextOptions {
  blocked?: string[]
  allowed?: string[]
  resolver?: Resolver
  proxyUrl?: string
  signal?: AbortSignal
  /** Instead of a new one. */
  dial?: Dialler
}

/** Makes a context; without a signal it is never aborted. */
export function testContext(options: ContextOptions = {}): ScriptContext {
  return {
    signal: options.signal ?? new AbortController().signal,
    dial:
      options.dial ??
      createDialler({
        policy: createNetworkPolicy({
          blocked: options.blocked ?? [],
          allowed: options.allowed ?? [],
        }),
        resolver: options.resolver ?? createResolver({ useOsResolver: false }),
        proxyUrl: options.proxyUrl,
      }),
    workFolder: () => Promise.reject(new Error('no work folder in this test')),
    attach: () => {},
  }
}

/** A signal that aborts after so many milliseconds like the runner's deadline. */
export function deadlineAfter(deadlineMs: number): AbortSignal {
  const controller = new AbortController()
  setTimeout(() => controller.abort(new DeadlineReached(deadlineMs)), deadlineMs).unref()
  return controller.signal
}

/** A resolver that knows only these names; an unknown one stays pending until aborted. */
export function fixedResolver(names: Record<string, string[]>): Resolver {
  return {
    resolve(host, _family, signal) {
      if (signal.aborted) return Promise.reject(signal.reason as Error)
      const found = names[host]
      if (found !== undefined) return Promise.resolve(found as [string, ...string[]])
      return new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
      })
    },
  }
}
