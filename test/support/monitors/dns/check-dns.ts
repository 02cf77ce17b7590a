// Runs one DNS monitor as its definition says, for tests that look at what comes of it.
import type { DnsObserved } from '../../../../src/monitors/dns/run.ts'
import { createDns, dns } from '../../../../src/monitors/dns/index.ts'
import type { SystemServers } from '../../../../src/network/dns/name-servers.ts'
import { deadlineAfter, testContext, type ContextOptions } from '../monitor-context.ts'

/** Where a query goes when it names no server. */
export function systemServers(ports: readonly number[], attempts = 2): SystemServers {
  const servers = ports.map((port) => ({ address: '127.0.0.1', port }))
  return { servers, timeoutMs: 5000, attempts }
}

/** Asks; `more` adds to the definition. Its deadline holds. */
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
  const seen = await type.prepare(monitor)(testContext({ ...contextOptions, signal }))
  const observed = seen.observed as unknown as DnsObserved
  return { ...seen, observed, codes: seen.failures.map(({ code }) => code) }
}
