// Traceroute monitor: the path of packets to the target, the answers of its hops, and whether the target is
// reached.
import { toMicroseconds } from '../../contract/schema/duration.ts'
import { failure, type Failure } from '../../contract/failure.ts'
import { type TracerouteCode, tracerouteDefinition, type TracerouteMonitor } from './definition.ts'
import { connectFailure, placeOf } from '../../network/connect-errors.ts'
import { familyOf } from '../../network/ip-address.ts'
import { SystemCallError } from '../../network/native/libc.ts'
import { DeadlineReached, isDeadline } from '../../network/deadline.ts'
import { defineMonitor, type Context } from '../monitor.ts'
import type { Observation, Sample } from '../../contract/observation.ts'
import { createReverseNames } from './reverse-names.ts'
import { failureOf } from '../../network/target-failure.ts'
import {
  reportHops,
  type Hop,
  type HopReport,
  observationOf,
  type TraceObserved,
  createPathMemory,
  type PathChange,
} from './report.ts'
import { openerOf, runTrace, type Traced } from './trace.ts'
import { makeTracePlan, type TracePlan } from './plan.ts'
import { evaluateTrace } from './verdict.ts'

/** Longest wait for names at the end of a trace. */
const NAMES_WAIT_MS = 200

const paths = createPathMemory()
const names = createReverseNames()

/** The traceroute type of monitor. */
export const traceroute = defineMonitor({
  definition: tracerouteDefinition,
  prepare(monitor: TracerouteMonitor) {
    const plan = makeTracePlan(monitor)
    return (context) => runTraceroute(monitor, plan, context)
  },
  samples: tracerouteSamples,
  deadlineMs: ({ request }) => request.timeout * 1000,
})

async function runTraceroute(
  monitor: TracerouteMonitor,
  plan: TracePlan,
  context: Context,
): Promise<Observation> {
  const { signal } = context
  const startedAt = performance.now()
  const { protocol, port } = plan
  const start = port === 0 ? { protocol } : { protocol, port }
  let address: string
  try {
    address = (await context.dial.resolve(plan.host, plan.family, signal))[0] as string
  } catch (error) {
    return { observed: start, failures: [failureOf(error, { phase: 'dns' })] }
  }
  const dnsMs = performance.now() - startedAt
  const where = { ...start, address, family: familyOf(address) }
  const key = `${monitor.id} ${address} ${protocol}`
  let traced: Traced
  try {
    traced = await trace(plan, address, signal)
  } catch (error) {
    return { observed: { ...where }, failures: [traceFailure(error, where)] }
  }
  const traceMs = performance.now() - startedAt - dnsMs
  const report = reportHops(traced.course)
  if (traced.failure !== undefined && report.hops.length === 0) {
    return { observed: { ...where }, failures: [traced.failure] }
  }
  if (plan.ptrLookup) await nameHops(report.hops, signal)
  if (signal.aborted && !isDeadline(signal)) throw signal.reason as Error
  const observed: TraceObserved = {
    ...where,
    ...observationOf(traced, report),
    ...comparePaths(key, traced, report),
    phases: {
      dnsMs: toMicroseconds(dnsMs),
      traceMs: toMicroseconds(traceMs),
      totalMs: toMicroseconds(dnsMs + traceMs),
    },
  }
  return evaluateTrace(monitor, observed, { report, failure: traced.failure }, signal)
}

async function trace(plan: TracePlan, address: string, signal: AbortSignal): Promise<Traced> {
  const onHop = (hop: string) => {
    if (plan.ptrLookup) names.ask(hop)
  }
  return runTrace({ plan, address, open: await openerOf(plan, address), onHop }, signal)
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
    const { deadlineMs } = error
    return failure<TracerouteCode>(
      'TIMEOUT_TRACE',
      `the trace could not begin within ${deadlineMs} ms`,
      {
        address,
      },
    )
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

function comparePaths(
  key: string,
  { end, course }: Traced,
  { path }: HopReport,
): PathChange | undefined {
  if (end === 'not-sent') return undefined
  return paths.compare(key, path, course.isReached)
}

/** Prometheus samples, under the names of Grafana's synthetic monitoring agent where it has them. */
function tracerouteSamples(observed: Record<string, unknown>): Sample[] {
  const facts = observed as Partial<TraceObserved>
  const samples: Sample[] = []
  if (facts.phases?.dnsMs !== undefined) {
    samples.push({ name: 'probe_dns_lookup_time_seconds', value: facts.phases.dnsMs / 1000 })
  }
  if (facts.family !== undefined) {
    samples.push({ name: 'probe_ip_protocol', value: facts.family === 'IPv6' ? 6 : 4 })
  }
  if (facts.hops === undefined) return samples
  samples.push(
    { name: 'probe_traceroute_total_hops', value: facts.hopCount ?? 0 },
    { name: 'probe_traceroute_route_hash', value: Number.parseInt(facts.pathHash ?? '0', 16) },
    { name: 'probe_traceroute_packet_loss_percent', value: facts.lossPercent ?? 100 },
    { name: 'probe_traceroute_target_loss_percent', value: facts.targetLossPercent ?? 100 },
    { name: 'probe_traceroute_reached', value: facts.reached === true ? 1 : 0 },
    { name: 'probe_traceroute_route_changed', value: facts.pathChanged === true ? 1 : 0 },
  )
  for (const [statistic, ms] of Object.entries(facts.responseTime ?? {})) {
    const labels = { statistic: STATISTICS[statistic] ?? statistic }
    samples.push({ name: 'probe_traceroute_duration_seconds', value: ms / 1000, labels })
  }
  if (facts.mtu !== undefined) {
    samples.push({ name: 'probe_traceroute_mtu_bytes', value: facts.mtu.bytes })
  }
  return samples
}

const STATISTICS: Record<string, string> = { stdDev: 'stddev' }
