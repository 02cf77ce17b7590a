// ICMP monitors in the public wire form: echoes, judged by how many of them are lost.
import * as z from 'zod'
import { assertionsSchema, WITHOUT_KEYS, type SourceRules, type ValueRule } from './assertion.ts'
import { hostName } from './host-name.ts'
import { monitorSchema } from './monitor.ts'

const latency: ValueRule = { comparisons: WITHOUT_KEYS, numeric: true }

export const ICMP_SOURCES = {
  /** Round-trip times of the echoes that came back, in milliseconds. */
  LATENCY: { properties: { avg: latency, min: latency, max: latency, stdDev: latency } },
  JSON_RESPONSE: { comparisons: WITHOUT_KEYS, property: 'json-path' },
} as const satisfies SourceRules

/** The request of an ICMP monitor. */
export const IcmpRequest = z.strictObject({
  hostname: hostName,
  ipFamily: z.enum(['IPv4', 'IPv6']).default('IPv4'),
  pingCount: z.int().min(1).max(50).default(10),
  assertions: assertionsSchema(ICMP_SOURCES),
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
