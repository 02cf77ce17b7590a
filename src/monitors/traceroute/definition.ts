// Traceroute monitors in the public wire form. A destination that is not reached has failed; thresholds
// are compared with the average round-trip time of the last hop.
import * as z from 'zod'
import {
  assertionsSchema,
  NUMERIC,
  type Comparison,
  type SourceRules,
  type ValueRule,
} from '../../contract/assertion.ts'
import { hostName } from '../../contract/schema/host-name.ts'
import { monitorSchema, responseTimes } from '../../contract/monitor.ts'
import { defineType } from '../../contract/type/definition.ts'
import { counted } from '../../contract/schema/amounts.ts'
import { ADDRESS_METRICS } from '../../contract/type/metrics.ts'
import { aboutAgent, aboutTarget, type FailureTable } from '../../contract/failure.ts'

const COUNTED: readonly Comparison[] = ['EQUALS', 'GREATER_THAN', 'LESS_THAN']

const time: ValueRule = { comparisons: NUMERIC, numeric: true }

/** Limits of TRACEROUTE monitors alone. */
export const TRACEROUTE_LIMITS = {
  /** Remembered paths, to detect changes. */
  tracePathsMax: 100_000,
  /** Names of addresses that are remembered. */
  reverseNamesMax: 20_000,
  /** Look-ups of names of addresses under way at a time. */
  reverseLookupsMax: 256,
} as const

const TRACEROUTE_SOURCES = {
  /** Round-trip times of the last hop, in milliseconds. */
  RESPONSE_TIME: {
    delay: 'stretched',
    properties: { avg: time, min: time, max: time, stdDev: time },
  },
  HOP_COUNT: { comparisons: COUNTED, property: 'none', numeric: true },
  PACKET_LOSS: { comparisons: COUNTED, property: 'none', numeric: true, range: [0, 100] },
} as const satisfies SourceRules

const UNKNOWN_HOPS = 15

/** Headers of IPv6 and UDP or ICMP, and the mark that identifies a probe. */
const PACKET_BYTES_MIN = 64

/** The request of a traceroute monitor. */
export const TracerouteRequest = z
  .strictObject({
    /** The host alone. */
    url: hostName,
    protocol: z.enum(['TCP', 'UDP', 'ICMP', 'SCTP']).default('TCP'),
    /** See `traceroutePort`; ICMP has none. */
    port: z.int().min(1).max(65_535).optional(),
    ipFamily: z.enum(['IPv4', 'IPv6']).default('IPv4'),
    maxHops: z.int().min(1).max(64).default(30),
    /** Hops in a row without an answer that end the trace; see `unknownHopsMax`. */
    maxUnknownHops: z.int().min(1).max(30).optional(),
    /** Whether the names of the hops are looked up. */
    ptrLookup: z.boolean().default(true),
    /** Seconds for the whole trace. */
    timeout: z.int().min(1).max(30).default(10),
    assertions: assertionsSchema(TRACEROUTE_SOURCES),
    /** Ours: how often each hop is asked. */
    probesPerHop: z.int().min(1).max(10).default(3),
    /**
     * Ours: bytes of each IP packet of UDP and ICMP probes, headers included. They may not be fragmented,
     * so that a large one finds the MTU of the path. Small where it is left out.
     */
    packetSize: z.int().min(PACKET_BYTES_MIN).max(65_535).optional(),
  })
  .superRefine(({ protocol, port, maxHops, maxUnknownHops = 0, packetSize }, context) => {
    const refuse = (field: string, message: string) => {
      context.addIssue({ code: 'custom', path: [field], message })
    }
    if (packetSize !== undefined && protocol !== 'UDP' && protocol !== 'ICMP') {
      refuse('packetSize', `only probes of UDP and ICMP have a size; leave it out with ${protocol}`)
    }
    if (protocol === 'ICMP' && port !== undefined) refuse('port', 'ICMP has no ports; leave it out')
    if (maxUnknownHops > maxHops) {
      refuse('maxUnknownHops', `must be at most maxHops (${maxHops})`)
    }
  })
export type TracerouteRequest = z.infer<typeof TracerouteRequest>

/** The port to trace to; undefined for ICMP. */
export function traceroutePort({ protocol, port }: TracerouteRequest): number | undefined {
  if (protocol === 'ICMP') return undefined
  return port ?? (protocol === 'TCP' ? 443 : 33_434)
}

/** Hops in a row without an answer, at most: 15, or fewer if the trace is shorter. */
export function unknownHopsMax({ maxHops, maxUnknownHops }: TracerouteRequest): number {
  return maxUnknownHops ?? Math.min(UNKNOWN_HOPS, maxHops)
}

export const TracerouteMonitor = monitorSchema(
  'TRACEROUTE',
  { request: TracerouteRequest, ...responseTimes(10_000, 20_000, 30_000) },
  30,
)
export type TracerouteMonitor = z.infer<typeof TracerouteMonitor>

const FAILURES = {
  DESTINATION_UNREACHED: aboutTarget(
    'a trace ended without an answer from the target; the message says where, and why',
    ({ refusal }) => refusal === undefined,
  ),
  TIMEOUT_TRACE: aboutTarget('time ran out before a trace reached the target or ended', true),
  TRACE_UNSUPPORTED: aboutAgent(
    'the agent’s system cannot trace with this protocol; the message says what is missing',
  ),
} as const satisfies FailureTable

/** A failure code of TRACEROUTE monitors alone. */
export type TracerouteCode = keyof typeof FAILURES

export const tracerouteDefinition = defineType({
  checkType: 'TRACEROUTE',
  path: 'traceroute',
  schema: TracerouteMonitor,
  example: { request: { url: 'example.com' } },
  sources: TRACEROUTE_SOURCES,
  failures: FAILURES,
  metrics: {
    ...ADDRESS_METRICS,
    probe_traceroute_duration_seconds: 'Round trips to the target of a trace: statistics of them.',
    probe_traceroute_mtu_bytes: 'Largest packet that every link of the path accepts, as reported.',
    probe_traceroute_packet_loss_percent: 'Share of all probes of a trace without an answer.',
    probe_traceroute_reached: 'Whether the target of a trace answered.',
    probe_traceroute_route_changed: 'Whether the path differs from that of the run before.',
    probe_traceroute_route_hash: 'Hash of the addresses of all hops; another path, another hash.',
    probe_traceroute_target_loss_percent: 'Share of the probes to the target without an answer.',
    probe_traceroute_total_hops: 'Hops to the target, or to the last that answered.',
  },
  limits: TRACEROUTE_LIMITS,
  summary: ({ hopCount }) => (typeof hopCount === 'number' ? [counted(hopCount, 'hop')] : []),
  analytics: {
    paths: ['traceroute', 'traceroute-monitors'],
    time: { name: 'finalHopLatencyAvg', label: 'Latency of the final hop' },
    isLatency: true,
    unmeasured: ['totalHops'],
  },
})
