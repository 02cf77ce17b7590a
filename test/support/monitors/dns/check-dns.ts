// Runs one DNS monitor for tests of its observation.
import type { DnsObserved } from '../../../../src/monitors/dns/observed.ts'
import { createDns, dns } from '../../../../src/monitors/dns/index.ts'
import { NameServers, type SystemServers } from '../../../../src/network/dns/name-servers.ts'
import { checkMonitor } from '../check-monitor.ts'
import type { ContextOptions } from '../monitor-context.ts'
import { QUICK } from './dns-server.ts'

/** The server of queries that name none. */
export function systemServers(ports: readonly number[], attempts = 2): SystemServers {
  const servers = ports.map((port) => ({ address: '127.0.0.1', port }))
  return { servers, timeoutMs: 5000, attempts }
}

/** The request's fields for a server on this port of loopback. */
export const at = (port: number) => ({ nameServer: '127.0.0.1', port })

/** Runs the check within its deadline; `more` adds to the definition. */
export async function checkDns(
  request: object,
  more: object = {},
  options: ContextOptions & { system?: SystemServers } = {},
) {
  const { system, ...contextOptions } = options
  const type =
    system === undefined ? dns : createDns(() => system, new NameServers(() => system, QUICK))
  const whole = { query: 'www.zone.example', recordType: 'A', ...request }
  // A busy machine does not fail what is about something else.
  const timed = { maxResponseTime: 5000, ...more }
  const observation = await checkMonitor(type, whole, timed, contextOptions)
  return { ...observation, observed: observation.observed as unknown as DnsObserved }
}
