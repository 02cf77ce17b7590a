// Observation of the echoes to one address: the public result of an ICMP monitor, with additions of ours.
import { toMicroseconds } from '../../contract/schema/duration.ts'
import type { IcmpRequest } from './definition.ts'
import type { Family } from '../../network/dial.ts'
import { sameError, type IcmpError } from './errors.ts'
import type { Echo } from './echo-socket.ts'
import { ICMP_HEADER_BYTES } from './packet.ts'
import type { EchoTally } from './run.ts'
import {
  jitterOf,
  latencyOf,
  roundedLatency,
  type Latency,
} from '../../network/native/round-trips.ts'
import { familyOf } from '../../network/ip-address.ts'
import type { Sample } from '../../contract/observation.ts'

/** One echo in the result. `type` and `code` are those of the ICMP message that came for it. */
export interface PingResult {
  sequence: number
  success: boolean
  type?: number
  code?: number
  /** Milliseconds. */
  rtt?: number
  /** Of the reply. */
  ttl?: number
  /** Bytes of the reply, where it is not what was sent. */
  corruptedBytes?: number
  error?: string
  from?: string
}

/** Number of equal errors. */
export interface CountedError {
  error: string
  count: number
  from?: string
  mtu?: number
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
  packetLoss?: number
  latency?: Latency
  /** See `jitterOf`. */
  jitter?: number
  duplicates: number
  outOfOrder: number
  corrupted: number
  late: number
  errors: CountedError[]
  /** From the resolved name to the first echo. */
  setupTime?: number
  /** Kind of socket. */
  socket?: 'datagram' | 'raw'
  pingResults: PingResult[]
}

/** An error and the number of echoes lost to it. */
export interface ErrorCount {
  error: IcmpError
  count: number
}

/** Outcome of the echoes to one address, with the data that the evaluation needs. */
export interface PingObservation {
  observed: IcmpObserved
  errors: ErrorCount[]
  /** Echoes missing because the agent's socket buffer was full. */
  dropped: number
}

/** The result before anything has been sent. */
export function emptyObservation({
  hostname,
  ipFamily,
  pingCount,
  payloadBytes,
}: IcmpRequest): PingObservation {
  const observed: IcmpObserved = {
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
  return { observed, errors: [], dropped: 0 }
}

/** The result of the echoes to `address`. */
export function pingObservationOf(
  request: IcmpRequest,
  address: string,
  tally: EchoTally,
): PingObservation {
  const ping = emptyObservation(request)
  const { observed } = ping
  observed.resolvedIp = address
  observed.ipFamily = familyOf(address)
  observed.duplicates = tally.duplicates
  observed.outOfOrder = tally.outOfOrder
  observed.late = tally.late
  const type = observed.ipFamily === 'IPv6' ? REPLY_IPV6 : REPLY_IPV4
  const rttsMs: number[] = []
  for (const echo of tally.echoes) {
    if (!isSettled(echo)) continue
    observed.pingResults.push(pingResult(echo, type))
    // An echo that the agent's own system did not send proves nothing about the target.
    if (!wasTried(echo)) continue
    observed.packetsSent++
    if (isBack(echo) && echo.rttMs !== undefined) rttsMs.push(echo.rttMs)
    if (echo.corrupted === true) observed.corrupted++
    if (echo.dropped === true) ping.dropped++
    if (echo.error !== undefined && echo.state !== 'answered') countError(ping.errors, echo.error)
  }
  observed.packetsReceived = rttsMs.length
  if (observed.packetsSent > 0) {
    const lost = observed.packetsSent - observed.packetsReceived
    observed.packetLoss = toMicroseconds((lost / observed.packetsSent) * 100)
  }
  addFigures(observed, rttsMs)
  observed.errors = ping.errors.map(({ error, count }) => countedError(error, count))
  return ping
}

const REPLY_IPV4 = 0
const REPLY_IPV6 = 129

/** Outstanding echoes of an aborted run are left out. */
function isSettled({ state }: Echo): boolean {
  return state !== 'unsent' && state !== 'waiting'
}

function wasTried({ error }: Echo): boolean {
  return error?.own === undefined || error.own.code === 'CONNECT_UNREACHABLE'
}

function isBack({ state, corrupted }: Echo): boolean {
  return state === 'answered' && corrupted !== true
}

function pingResult(echo: Echo, replyType: number): PingResult {
  const { index, error, ttl } = echo
  const result: PingResult = { sequence: index, success: isBack(echo) }
  if (echo.state === 'answered') {
    result.type = replyType
    result.code = 0
    if (echo.rttMs !== undefined) result.rtt = toMicroseconds(echo.rttMs)
    if (ttl !== undefined) result.ttl = ttl
    if (echo.corrupted === true && echo.bytes !== undefined) result.corruptedBytes = echo.bytes
  } else if (error !== undefined) {
    result.error = error.name
    if (error.type !== undefined) result.type = error.type
    if (error.icmpCode !== undefined) result.code = error.icmpCode
    if (error.from !== undefined) result.from = error.from
  }
  return result
}

function countError(errors: ErrorCount[], error: IcmpError): void {
  const known = errors.find((one) => sameError(one.error, error))
  if (known === undefined) errors.push({ error, count: 1 })
  else known.count++
}

function countedError({ name, from, mtu }: IcmpError, count: number): CountedError {
  const counted: CountedError = { error: name, count }
  if (from !== undefined) counted.from = from
  if (mtu !== undefined) counted.mtu = mtu
  return counted
}

function addFigures(observed: IcmpObserved, rttsMs: readonly number[]): void {
  const latency = latencyOf(rttsMs)
  if (latency === undefined) return
  observed.latency = roundedLatency(latency)
  const jitter = jitterOf(rttsMs)
  if (jitter !== undefined) observed.jitter = toMicroseconds(jitter)
}

/** The samples of one observation, as `observed` of an ICMP monitor has it. */
export function icmpSamples(observed: Record<string, unknown>): Sample[] {
  const facts = observed as Partial<IcmpObserved>
  const samples: Sample[] = []
  const add = (name: string, value: number | undefined, labels?: Record<string, string>) => {
    if (value === undefined) return
    samples.push(labels === undefined ? { name, value } : { name, value, labels })
  }
  const { dnsResolutionTime, setupTime, latency, packetsSent = 0, packetsReceived = 0 } = facts
  if (facts.resolvedIp !== undefined) add('probe_ip_protocol', facts.ipFamily === 'IPv6' ? 6 : 4)
  add('probe_dns_lookup_time_seconds', seconds(dnsResolutionTime))
  const phases = { resolve: dnsResolutionTime, setup: setupTime, rtt: latency?.avg }
  for (const [phase, ms] of Object.entries(phases)) {
    add('probe_icmp_duration_seconds', seconds(ms), { phase })
  }
  add('probe_icmp_packets_sent_count', packetsSent)
  add('probe_icmp_packets_received_count', packetsReceived)
  if (packetsSent > 0) add('probe_icmp_packet_loss_ratio', 1 - packetsReceived / packetsSent)
  add('probe_icmp_rtt_min_seconds', seconds(latency?.min))
  add('probe_icmp_rtt_max_seconds', seconds(latency?.max))
  add('probe_icmp_rtt_stddev_seconds', seconds(latency?.stdDev))
  add('probe_icmp_jitter_seconds', seconds(facts.jitter))
  add('probe_icmp_duplicates_count', facts.duplicates)
  add('probe_icmp_out_of_order_count', facts.outOfOrder)
  add('probe_icmp_corrupted_count', facts.corrupted)
  const newest = facts.pingResults?.findLast(({ success }) => success)
  add('probe_icmp_reply_hop_limit', newest?.ttl)
  return samples
}

function seconds(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : ms / 1000
}
