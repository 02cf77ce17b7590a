// Runs one DNS monitor for tests of its observation.
import type { DnsObserved } from '../../../../src/monitors/dns/observed.ts'
import { createDns, dns } from '../../../../src/monitors/dns/index.ts'
import type { SystemServers } from '../../../../src/network/dns/name-servers.ts'
import { deadlineAfter, testContext, type ContextOptions } from '../monitor-context.ts'

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
  const type = system === undefined ? dns : createDns(() => system)
  const monitor = type.schema.parse({
    id: 'm',
    name: 'm',
    checkType: 'DNS',
    request: { query: 'www.zone.example', recordType: 'A', ...request },
    ...more,
  })
  const signal = options.signal ?? deadlineAfter(type.deadlineMs(monitor))
  const observation = await type.prepare(monitor)(testContext({ ...contextOptions, signal }))
  const observed = observation.observed as unknown as DnsObserved
  return { ...observation, observed, codes: observation.failures.map(({ code }) => code) }
}
