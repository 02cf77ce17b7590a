// Traceroute monitor: the path of packets to the target, the answers of its hops, and whether the target is
// reached.
import { toMicroseconds } from '../../contract/schema/duration.ts'
import { failure, type Failure } from '../../contract/failure.ts'
import {
  tracerouteDefinition,
  traceroutePort,
  unknownHopsMax,
  type TracerouteCode,
  type TracerouteMonitor,
} from './definition.ts'
import { connectFailure, placeOf } from '../../network/connect-errors.ts'
import { familyOf } from '../../network/ip-address.ts'
import { SystemCallError } from '../../network/native/system-call-error.ts'
import { DeadlineReached, isDeadline } from '../../network/deadline.ts'
import { connectionSamples } from '../metrics.ts'
import { defineMonitor, type Context } from '../monitor.ts'
import type { Observation, Sample } from '../../contract/observation.ts'
import { PathMemory } from './path.ts'
import { reportOf, type Hop, type TraceObserved } from './report.ts'
import { ReverseNames } from './reverse-names.ts'
import { failureOf } from '../../network/target-failure.ts'
import { runTrace, type Traced, type TraceSettings } from './trace.ts'
import { evaluateTrace } from './verdict.ts'

/** Longest wait for names at the end of a trace. */
const NAMES_WAIT_MS = 200
/** Source ports of monitors, below the ephemeral port range of Linux. */
const SOURCE_PORTS = { first: 20_000, count: 12_000 } as const
/** Longest total wait for a router that answers one probe a second, as a share of the timeout. */
const PATIENCE_SHARE = 0.5
const PATIENCE_MS_MAX = 1000

const paths = new PathMemory()
const names = new ReverseNames()

/** The traceroute type of monitor. */
export const traceroute = defineMonitor({
  definition: tracerouteDefinition,
  prepare: (monitor: TracerouteMonitor) => (context) => runTraceroute(monitor, context),
  samples: tracerouteSamples,
  deadlineMs: ({ request }) => request.timeout * 1000,
})

async function runTraceroute(
  monitor: TracerouteMonitor,
  { dial, signal }: Context,
): Promise<Observation> {
  const startedAt = performance.now()
  const { url, ipFamily, protocol, ptrLookup } = monitor.request
  const port = traceroutePort(monitor.request)
  const start = port === undefined ? { protocol } : { protocol, port }
  let address: string
  try {
    address = (await dial.resolve(url, ipFamily, signal))[0] as string
  } catch (error) {
    return { observed: start, failures: [failureOf(error, { phase: 'dns' })] }
  }
  const dnsMs = performance.now() - startedAt
  const where = { ...start, address, family: familyOf(address) }
  let traced: Traced
  try {
    traced = await runTrace(settingsOf(monitor, address), signal)
  } catch (error) {
    return { observed: where, failures: [traceFailure(error, where)] }
  }
  const totalMs = performance.now() - startedAt
  const { course, end, sourcePort, mtus, failure: failed } = traced
  const { facts, path, refuser } = reportOf(course, mtus)
  if (failed !== undefined && facts.hops.length === 0) {
    return { observed: where, failures: [failed] }
  }
  if (ptrLookup) await nameHops(facts.hops, signal)
  if (signal.aborted && !isDeadline(signal)) throw signal.reason as Error
  const key = `${monitor.id} ${address} ${protocol}`
  const observed: TraceObserved = {
    ...where,
    sourcePort,
    end,
    ...facts,
    ...(end !== 'not-sent' && paths.compare(key, path, course.isReached)),
    phases: {
      dnsMs: toMicroseconds(dnsMs),
      traceMs: toMicroseconds(totalMs - dnsMs),
      totalMs: toMicroseconds(totalMs),
    },
  }
  return evaluateTrace(monitor, observed, { refuser, failed }, signal)
}

function settingsOf({ id, request }: TracerouteMonitor, address: string): TraceSettings {
  const { protocol, maxHops, probesPerHop, timeout, ptrLookup, packetSize } = request
  return {
    probes: {
      protocol,
      family: familyOf(address),
      address,
      port: traceroutePort(request) ?? 0,
      sourcePort: sourcePortOf(id ?? request.url),
      packetBytes: packetSize,
    },
    course: {
      maxHops,
      unknownHopsMax: unknownHopsMax(request),
      probesPerHop,
      flows: protocol === 'TCP' ? 'each' : 'one',
      patienceMs: Math.min(PATIENCE_MS_MAX, (timeout * 1000 * PATIENCE_SHARE) / probesPerHop),
    },
    onHop(hop) {
      if (ptrLookup) names.ask(hop)
    },
  }
}

/**
 * The same port for the same monitor, on every agent and after every start: routers with several ways choose
 * by it.
 */
function sourcePortOf(id: string): number {
  let hash = 0
  for (const byte of Buffer.from(id)) hash = (Math.imul(hash, 31) + byte) >>> 0
  return SOURCE_PORTS.first + (hash % SOURCE_PORTS.count)
}

/** Failure of a trace that could not start: the agent's system, the deadline, or a network error. */
function traceFailure(
  error: unknown,
  { address, port }: { address: string; port?: number },
): Failure {
  if (error instanceof SystemCallError) {
    return connectFailure(error, port === undefined ? address : placeOf(address, port))
  }
  if (error instanceof DeadlineReached) {
    const message = `the trace could not begin within ${error.deadlineMs} ms`
    return failure<TracerouteCode>('TIMEOUT_TRACE', message, { address })
  }
  return failureOf(error, { phase: 'connect' })
}

async function nameHops(hops: readonly Hop[], signal: AbortSignal): Promise<void> {
  const known = hops.flatMap(({ address }) => address ?? [])
  await names.settle(known, NAMES_WAIT_MS, signal)
  for (const hop of hops) {
    const name = hop.address === null ? undefined : names.name(hop.address)
    if (name !== undefined) hop.name = name
  }
}

/** Prometheus samples, under the names of Grafana's synthetic monitoring agent where it has them. */
function tracerouteSamples(observed: Record<string, unknown>): Sample[] {
  const facts = observed as Partial<TraceObserved>
  const { family, phases, hops } = facts
  if (hops === undefined || phases === undefined) return connectionSamples({ family })
  const samples = connectionSamples({ family, phases })
  const numbers = {
    probe_traceroute_total_hops: facts.hopCount,
    probe_traceroute_route_hash: Number.parseInt(facts.pathHash ?? '0', 16),
    probe_traceroute_packet_loss_percent: facts.lossPercent,
    probe_traceroute_target_loss_percent: facts.targetLossPercent,
    probe_traceroute_reached: facts.reached === true ? 1 : 0,
    probe_traceroute_route_changed: facts.pathChanged === true ? 1 : 0,
    probe_traceroute_mtu_bytes: facts.mtu?.bytes,
  }
  for (const [name, value] of Object.entries(numbers)) {
    if (value !== undefined) samples.push({ name, value })
  }
  for (const [statistic, ms] of Object.entries(facts.responseTime ?? {})) {
    const labels = { statistic: statistic.toLowerCase() }
    samples.push({ name: 'probe_traceroute_duration_seconds', value: ms / 1000, labels })
  }
  return samples
}
