// Observation of the echoes to one address: the public result of an ICMP monitor, with additions of ours.
import { toMicroseconds } from '../../contract/schema/duration.ts'
import type { IcmpRequest } from './definition.ts'
import type { Family } from '../../network/dial.ts'
import type { IcmpError } from './errors.ts'
import { wasTried, type Echo } from './echo-socket.ts'
import { ICMP_HEADER_BYTES } from '../../network/native/icmp-echo.ts'
import type { EchoRun } from './run.ts'
import { jitterOf, latencyOf, type Latency } from '../../network/native/round-trips.ts'
import { familyOf } from '../../network/ip-address.ts'
import type { Sample } from '../../contract/observation.ts'

/** One echo in the result. `type` and `code` are those of the ICMP message that came for it. */
export interface PingResult {
  sequence: number
  success: boolean
  type: number | undefined
  code: number | undefined
  /** Milliseconds. */
  rtt?: number | undefined
  /** Of the reply. */
  ttl?: number | undefined
  /** Bytes of the reply, where it is not what was sent. */
  corruptedBytes?: number | undefined
  error?: string | undefined
  from?: string | undefined
}

/** The observation; without echoes only the facts known before the first one. */
export interface IcmpObserved {
  hostname: string
  resolvedIp?: string
  ipFamily: Family
  pingCount: number
  /** Bytes of an echo, ICMP header included. */
  packetSize: number
  dnsResolutionTime?: number
  packetsSent: number
  packetsReceived: number
  /** Percentage of the echoes sent that did not come back as they were, in time. */
  packetLoss?: number | undefined
  latency?: Latency | undefined
  /** See `jitterOf`. */
  jitter?: number | undefined
  duplicates: number
  outOfOrder: number
  corrupted: number
  late: number
  /** Equal errors, counted. */
  errors: { error: string; count: number; from?: string | undefined; mtu?: number | undefined }[]
  /** From the resolved name to the first echo. */
  setupTime?: number
  /** Kind of socket. */
  socket?: 'datagram' | 'raw'
  pingResults: PingResult[]
}

/** The result before anything has been sent. */
export function emptyObserved(request: IcmpRequest): IcmpObserved {
  const { hostname, ipFamily, pingCount, payloadBytes } = request
  return {
    hostname,
    ipFamily,
    pingCount,
    packetSize: payloadBytes + ICMP_HEADER_BYTES,
    packetsSent: 0,
    packetsReceived: 0,
    duplicates: 0,
    outOfOrder: 0,
    corrupted: 0,
    late: 0,
    errors: [],
    pingResults: [],
  }
}

/** The result of the echoes to `address`, added to what was known before them. */
export function observedOf(known: IcmpObserved, address: string, run: EchoRun): IcmpObserved {
  const { duplicates, outOfOrder, late } = run
  const ipFamily = familyOf(address)
  // Outstanding echoes of an aborted run are left out.
  const settled = run.echoes.filter(({ state }) => state !== 'unsent' && state !== 'waiting')
  const tried = settled.filter(wasTried)
  const rttsMs = tried.filter(isBack).flatMap(({ rttMs }) => rttMs ?? [])
  const lost = tried.length - rttsMs.length
  return {
    ...known,
    ipFamily,
    packetsSent: tried.length,
    packetsReceived: rttsMs.length,
    packetLoss: tried.length === 0 ? undefined : toMicroseconds((lost / tried.length) * 100),
    latency: latencyOf(rttsMs),
    jitter: jitterOf(rttsMs),
    duplicates,
    outOfOrder,
    late,
    corrupted: tried.filter(({ corrupted }) => corrupted === true).length,
    errors: countErrors(tried).map(({ error: { name, from, mtu }, count }) => {
      return { error: name, count, from, mtu }
    }),
    pingResults: settled.map((echo) => pingResult(echo, REPLY_TYPES[ipFamily])),
  }
}

const REPLY_TYPES = { IPv4: 0, IPv6: 129 } as const

function isBack({ state, corrupted }: Echo): boolean {
  return state === 'answered' && corrupted !== true
}

function pingResult(echo: Echo, replyType: number): PingResult {
  const { index: sequence, state, error, rttMs, ttl, corrupted, bytes } = echo
  if (state !== 'answered') {
    const { name = 'no reply in time', type, icmpCode, from } = error ?? {}
    return { sequence, success: false, error: name, type, code: icmpCode, from }
  }
  return {
    sequence,
    success: isBack(echo),
    type: replyType,
    code: 0,
    rtt: rttMs === undefined ? undefined : toMicroseconds(rttMs),
    ttl,
    ...(corrupted === true && { corruptedBytes: bytes, error: 'the reply is not what was sent' }),
  }
}

/** Each error with the number of echoes lost to it: the same objection, said by the same. */
export function countErrors(echoes: readonly Echo[]): { error: IcmpError; count: number }[] {
  const errors = echoes.flatMap(({ error, state }) =>
    error === undefined || state === 'answered' ? [] : error,
  )
  const groups = Map.groupBy(errors, ({ name, from, mtu }) => `${name} ${from} ${mtu}`)
  return [...groups.values()].map((group) => ({
    error: group[0] as IcmpError,
    count: group.length,
  }))
}

/** The samples of one observation, as `observed` of an ICMP monitor has it. */
export function icmpSamples(observed: Record<string, unknown>): Sample[] {
  const facts = observed as Partial<IcmpObserved>
  const { dnsResolutionTime, setupTime, latency, packetsSent = 0, packetsReceived = 0 } = facts
  const phases = { resolve: dnsResolutionTime, setup: setupTime, rtt: latency?.avg }
  const times = {
    probe_dns_lookup_time_seconds: dnsResolutionTime,
    probe_icmp_rtt_min_seconds: latency?.min,
    probe_icmp_rtt_max_seconds: latency?.max,
    probe_icmp_rtt_stddev_seconds: latency?.stdDev,
    probe_icmp_jitter_seconds: facts.jitter,
  }
  const numbers = {
    probe_ip_protocol:
      facts.resolvedIp === undefined ? undefined : IP_VERSIONS[facts.ipFamily ?? 'IPv4'],
    probe_icmp_packets_sent_count: packetsSent,
    probe_icmp_packets_received_count: packetsReceived,
    probe_icmp_packet_loss_ratio: packetsSent > 0 ? 1 - packetsReceived / packetsSent : undefined,
    probe_icmp_duplicates_count: facts.duplicates,
    probe_icmp_out_of_order_count: facts.outOfOrder,
    probe_icmp_corrupted_count: facts.corrupted,
    probe_icmp_reply_hop_limit: facts.pingResults?.findLast(({ success }) => success)?.ttl,
  }
  return [
    ...Object.entries(numbers).flatMap(([name, value]) => sample(name, value)),
    ...Object.entries(times).flatMap(([name, ms]) => sample(name, ms, 1000)),
    ...Object.entries(phases).flatMap(([phase, ms]) =>
      sample('probe_icmp_duration_seconds', ms, 1000, { phase }),
    ),
  ]
}

const IP_VERSIONS = { IPv4: 4, IPv6: 6 } as const

/** One sample, or none for a value that is not known. */
function sample(
  name: string,
  value: number | undefined,
  divisor = 1,
  labels?: Record<string, string>,
): Sample[] {
  if (value === undefined) return []
  return [{ name, value: value / divisor, ...(labels !== undefined && { labels }) }]
}
