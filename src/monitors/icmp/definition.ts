// ICMP monitors in the public wire form: echoes, evaluated by how many of them are lost.
import * as z from 'zod'
import {
  assertionsSchema,
  WITHOUT_KEYS,
  type SourceRules,
  type ValueRule,
} from '../../contract/assertion.ts'
import { hostName } from '../../contract/schema/host-name.ts'
import { monitorSchema } from '../../contract/monitor.ts'
import { LIMITS } from '../../contract/versions.ts'
import { defineType } from '../../contract/type/definition.ts'
import { ADDRESS_METRICS } from '../../contract/type/metrics.ts'
import { aboutTarget, type FailureTable } from '../../contract/failure.ts'

const latency: ValueRule = { comparisons: WITHOUT_KEYS, numeric: true }

/** Limits of ICMP monitors alone. */
export const ICMP_LIMITS = {
  /** Looking up the name before echoes are sent. */
  icmpLookupMs: 3000,
  /** Sockets that echoes of one family share; each holds as many as its receive buffer has room for. */
  icmpSocketsMax: 64,
} as const

const ICMP_SOURCES = {
  /** Round-trip times of the echoes that came back, in milliseconds. */
  LATENCY: {
    delay: 'stretched',
    properties: { avg: latency, min: latency, max: latency, stdDev: latency },
  },
  JSON_RESPONSE: { comparisons: WITHOUT_KEYS, property: 'json-path' },
} as const satisfies SourceRules

interface Echoes {
  pingCount: number
  intervalMs: number
  timeoutMs: number
}

/** How long a run of echoes may take, looking up the name included. Milliseconds. */
export function icmpRunMs({ pingCount, intervalMs, timeoutMs }: Echoes): number {
  return ICMP_LIMITS.icmpLookupMs + pingCount * intervalMs + timeoutMs
}

/** The request of an ICMP monitor. */
export const IcmpRequest = z
  .strictObject({
    hostname: hostName,
    ipFamily: z.enum(['IPv4', 'IPv6']).default('IPv4'),
    pingCount: z.int().min(1).max(50).default(10),
    assertions: assertionsSchema(ICMP_SOURCES),
    /** Ours: time from one echo to the next. */
    intervalMs: z.int().min(10).max(10_000).default(500),
    /** Ours: an echo that has not come back after this time is lost. */
    timeoutMs: z.int().min(10).max(30_000).default(2000),
    /** Ours: bytes behind the ICMP header; the first eight identify the echo. */
    payloadBytes: z.int().min(8).max(65_507).default(56),
    /** Ours: hops that an echo may make (TTL, hop limit); without it what the system takes, usually 64. */
    ttl: z.int().min(1).max(255).optional(),
    /** Ours: forbid fragments, so that the path's MTU is tested. */
    dontFragment: z.boolean().default(false),
    /** Ours: send to every address that the name resolves to. */
    allAddresses: z.boolean().default(false),
  })
  .superRefine((request, context) => {
    const runMs = icmpRunMs(request)
    if (runMs <= LIMITS.attemptMsMax) return
    const message = `the echoes would take up to ${runMs} ms (pingCount × intervalMs + timeoutMs, and ${ICMP_LIMITS.icmpLookupMs} for the name); at most ${LIMITS.attemptMsMax} are allowed`
    context.addIssue({ code: 'custom', path: ['pingCount'], message })
  })
export type IcmpRequest = z.infer<typeof IcmpRequest>

/** Above 0, at most 100. */
const percentage = z.number().gt(0).max(100)

export const IcmpMonitor = monitorSchema('ICMP', {
  request: IcmpRequest,
  /** Percentage of lost echoes from which on the run is degraded. */
  degradedPacketLossThreshold: percentage.default(10),
  /** Percentage of lost echoes from which on the run has failed. */
  maxPacketLossThreshold: percentage.default(20),
})
export type IcmpMonitor = z.infer<typeof IcmpMonitor>

const FAILURES = {
  ICMP_PACKET_LOSS: aboutTarget('the packet loss has reached maxPacketLossThreshold'),
  ICMP_UNREACHABLE: aboutTarget(
    'a router, or the target, reports the network, host, protocol or port as unreachable',
  ),
  ICMP_PROHIBITED: aboutTarget(
    'a router, or the target, reports that access to the target is prohibited',
  ),
  ICMP_TTL_EXCEEDED: aboutTarget('a router reports that the TTL was exceeded in transit'),
  ICMP_TOO_LARGE: aboutTarget(
    'the packet is larger than the path’s MTU and must not be fragmented',
  ),
  ICMP_REJECTED: aboutTarget('a router rejects the packet for another reason'),
} as const satisfies FailureTable

/** A failure code of ICMP monitors alone. */
export type IcmpCode = keyof typeof FAILURES

export const icmpDefinition = defineType({
  checkType: 'ICMP',
  path: 'icmp',
  schema: IcmpMonitor,
  example: { request: { hostname: 'example.com' } },
  sources: ICMP_SOURCES,
  failures: FAILURES,
  metrics: {
    ...ADDRESS_METRICS,
    probe_icmp_corrupted_count: 'Replies whose payload was not what was sent.',
    probe_icmp_duplicates_count: 'Replies beyond the first one to an echo.',
    probe_icmp_duration_seconds: 'Time of each phase of an ICMP check; rtt is the mean.',
    probe_icmp_jitter_seconds: 'Mean difference between the round-trip times of neighbours.',
    probe_icmp_out_of_order_count: 'Replies that came after the reply to a later echo.',
    probe_icmp_packet_loss_ratio: 'Share of the echoes that did not come back, 0 to 1.',
    probe_icmp_packets_received_count: 'Echoes that came back.',
    probe_icmp_packets_sent_count: 'Echoes that were sent.',
    probe_icmp_reply_hop_limit: 'TTL or hop limit of the last reply.',
    probe_icmp_rtt_max_seconds: 'The longest round-trip time.',
    probe_icmp_rtt_min_seconds: 'The shortest round-trip time.',
    probe_icmp_rtt_stddev_seconds: 'Standard deviation of the round-trip times.',
  },
  limits: ICMP_LIMITS,
  summary: ({ packetLoss }) => (typeof packetLoss === 'number' ? [`${packetLoss} % lost`] : []),
  analytics: {
    paths: ['icmp', 'icmp-monitors'],
    time: { name: 'latencyAvg', label: 'Latency' },
    isLatency: true,
    unmeasured: ['packetLoss', 'latencyMin', 'latencyMax', 'latencyStdDev'],
  },
})
