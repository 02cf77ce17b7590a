// Definitions of every type of monitor: the least that each needs, and more over it.

export type Fields = Record<string, unknown>

/** The least that each type needs. */
export const LEAST: Record<string, Fields> = {
  URL: { request: { url: 'https://a.test/' } },
  API: { request: { url: 'https://a.test/', method: 'GET' } },
  TCP: { request: { hostname: 'a.test', port: 22 } },
  DNS: { request: { query: 'a.test', recordType: 'A' } },
  ICMP: { request: { hostname: 'a.test' } },
  GRPC: { request: { url: 'a.test', port: 443, grpcConfig: { method: 'a.B/C' } } },
  TRACEROUTE: { request: { url: 'a.test' } },
  SSL: { request: { sslConfig: { hostname: 'a.test' } } },
  BROWSER: { script: '1' },
  MULTI_STEP: { script: '1' },
  PLAYWRIGHT: { codeBundlePath: 'b.tar.gz' },
  HEARTBEAT: { heartbeat: { period: 1, periodUnit: 'hours', grace: 0, graceUnit: 'days' } },
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** `more` over `least`, mappings within mappings merged. */
export function merged(least: Fields, more: Fields): Fields {
  const entries = Object.entries(more).map(([key, value]) => {
    const under = least[key]
    return [key, isFields(value) && isFields(under) ? merged(under, value) : value]
  })
  return { ...least, ...Object.fromEntries(entries) }
}

/** The least definition of a type, with more over it. */
export const definitionOf = (checkType: string, more: Fields = {}) =>
  merged({ id: 'a', name: 'A', checkType, ...LEAST[checkType] }, more)
