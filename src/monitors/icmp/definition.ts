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

const latency: ValueRule = { comparisons: WITHOUT_KEYS, numeric: true }

export const ICMP_SOURCES = {
  /** Round-trip times of the echoes that came back, in milliseconds. */
  LATENCY: { properties: { avg: latency, min: latency, max: latency, stdDev: latency } },
  JSON_RESPONSE: { comparisons: WITHOUT_KEYS, property: 'json-path' },
} as const satisfies SourceRules

interface Echoes {
  pingCount: number
  intervalMs: number
  timeoutMs: number
}

/** How long a run of echoes may take, looking up the name included. Milliseconds. */
export function icmpRunMs({ pingCount, intervalMs, timeoutMs }: Echoes): number {
  return LIMITS.icmpLookupMs + pingCount * intervalMs + timeoutMs
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
    /** Ours: bytes behind the ICMP header; the first eight tell whose reply it is. */
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
    const message = `the echoes would take up to ${runMs} ms (pingCount × intervalMs + timeoutMs, and ${LIMITS.icmpLookupMs} for the name); at most ${LIMITS.attemptMsMax} are allowed`
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
