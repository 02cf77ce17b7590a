// A chain of networks with a process on its client that traces, and one on its server that listens.
import type { TraceObserved } from '../../../src/monitors/traceroute/report.ts'
import { createHopChain, SERVER, type Family, type HopChain, type Host } from './hop-chain.ts'
import {
  startMonitorProcess,
  type MonitorProcess,
  type Ran,
  type RunOptions,
} from './monitor-process.ts'
import { missing } from '../needs.ts'

/** The missing requirement of such a chain here, or undefined. */
export const chainNeeds =
  missing('ip', 'nft', 'setpriv', 'dnsmasq') ??
  (process.getuid?.() === 0 ? undefined : 'needs root')

export const FAMILIES = ['IPv4', 'IPv6'] as const
export const PROTOCOLS = ['TCP', 'UDP', 'ICMP'] as const
export type Protocol = (typeof PROTOCOLS)[number]

/** Every protocol over every family. */
export const CASES = FAMILIES.flatMap((family) =>
  PROTOCOLS.map((protocol) => ({ family, protocol })),
)

/** The outcome of a trace. */
export interface TraceRan extends Ran {
  facts: TraceObserved
  codes: string[]
  /** Of the first failure. */
  message: string
}

export interface TracedChain extends AsyncDisposable {
  chain: HopChain
  client: MonitorProcess
  /** Traces to the server, as a monitor that has never run before where `id` is not given. */
  trace(
    family: Family,
    protocol: Protocol | 'SCTP',
    request?: Record<string, unknown>,
    settings?: Record<string, unknown>,
    options?: RunOptions,
  ): Promise<TraceRan>
  /** Like `HopChain.firewall`, until `restore`. */
  firewall(host: Host, hook: 'input' | 'output' | 'forward', ...rules: string[]): void
  /** `ip route` with `args` on the host, undone by `restore` with `back`. */
  route(host: Host, family: Family, args: string, back: string): void
  /** Drops what goes to the target on the last router, until `restore`. */
  blackhole(family: Family): void
  /** Undoes all changes. */
  restore(): void
}

/** Makes the chain; the server listens on the TCP port 443 and echoes on the UDP port 7. */
export async function createTracedChain(): Promise<TracedChain> {
  const chain = createHopChain()
  const client = await startMonitorProcess(chain.prefix('client'))
  const server = await startMonitorProcess(chain.prefix('server'))
  await server.listen('tcp', '::', 443)
  await server.listen('udp', '::', 7)
  const undo: (() => void)[] = []
  let traces = 0
  const traced: TracedChain = {
    chain,
    client,
    async trace(family, protocol, request = {}, settings = {}, options = {}) {
      const definition = {
        id: `trace-${traces++}`,
        checkType: 'TRACEROUTE',
        ...settings,
        request: { url: SERVER[family], protocol, ipFamily: family, ptrLookup: false, ...request },
      }
      const ran = await client.run(definition, options)
      const failures = ran.observation?.failures ?? []
      return {
        ...ran,
        facts: ran.observation?.observed as unknown as TraceObserved,
        codes: failures.map(({ code }) => code),
        message: failures[0]?.message ?? '',
      }
    },
    firewall(host, hook, ...rules) {
      undo.push(() => chain.firewall(host, 'output'))
      chain.firewall(host, hook, ...rules)
    },
    route(host, family, args, back) {
      chain.route(host, family, ...args.split(' '))
      undo.push(() => chain.route(host, family, ...back.split(' ')))
    },
    blackhole(family) {
      const route = `blackhole ${SERVER[family]}`
      traced.route('r3', family, `add ${route}`, `delete ${route}`)
    },
    restore() {
      for (const back of undo.splice(0).toReversed()) back()
    },
    async [Symbol.asyncDispose]() {
      await client[Symbol.asyncDispose]()
      await server[Symbol.asyncDispose]()
      chain[Symbol.dispose]()
    },
  }
  // Neighbour discovery happens once; otherwise the first probes would wait for it.
  for (const { family, protocol } of CASES) await traced.trace(family, protocol)
  return traced
}

/** The addresses of the hops; null for one without an answer. */
export function addressesOf({ hops }: TraceObserved): (string | null)[] {
  return hops.map(({ address }) => address)
}
