// Plan of a traceroute monitor, computed once for all its runs.
import {
  traceroutePort,
  unknownHopsMax,
  type TracerouteMonitor,
  type TracerouteRequest,
} from './definition.ts'
import type { Family } from '../../network/dial.ts'
import type { CourseSettings } from './course.ts'

/** A definition, ready to be run. */
export interface TracePlan {
  host: string
  family: Family
  protocol: TracerouteRequest['protocol']
  /** Of the target; 0 where the protocol has none. */
  port: number
  /** Bytes of each packet, its headers included; undefined for small ones. */
  packetBytes: number | undefined
  /**
   * The port that packets come from (the identifier of ICMP echoes), and the first of those that stand in
   * for it. It stays the same from run to run: routers with several ways choose by it.
   */
  sourcePort: number
  ptrLookup: boolean
  course: CourseSettings
  timeoutMs: number
}

/** Below the ephemeral port range of Linux. */
const SOURCE_PORTS = { first: 20_000, count: 12_000 } as const
/** Longest total wait for a router that answers one probe a second, as a share of the timeout. */
const PATIENCE_SHARE = 0.5
const PATIENCE_MS_MAX = 1000

/** Makes the plan that all attempts of a monitor share. */
export function makeTracePlan({ id, request }: TracerouteMonitor): TracePlan {
  const { protocol, maxHops, probesPerHop, timeout } = request
  const timeoutMs = timeout * 1000
  return {
    host: request.url,
    family: request.ipFamily,
    protocol,
    port: traceroutePort(request) ?? 0,
    packetBytes: request.packetSize,
    sourcePort: sourcePortOf(id ?? request.url),
    ptrLookup: request.ptrLookup,
    course: {
      maxHops,
      unknownHopsMax: unknownHopsMax(request),
      probesPerHop,
      flows: protocol === 'TCP' ? 'each' : 'one',
      patienceMs: Math.min(PATIENCE_MS_MAX, (timeoutMs * PATIENCE_SHARE) / probesPerHop),
    },
    timeoutMs,
  }
}

/** The same port for the same monitor, on every agent and after every start. */
function sourcePortOf(id: string): number {
  let hash = 0
  for (const byte of Buffer.from(id)) hash = (Math.imul(hash, 31) + byte) >>> 0
  return SOURCE_PORTS.first + (hash % SOURCE_PORTS.count)
}
