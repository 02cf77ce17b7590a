// Traceroute monitor: the path of packets to the target, the answers of its hops, and whether the target is
// reached.
import { toMicroseconds } from '../../contract/schema/duration.ts'
import { failure, type Failure } from '../../contract/failure.ts'
import { type TracerouteCode, tracerouteDefinition, type TracerouteMonitor } from './definition.ts'
import { createAnswerBudget } from './answer-budget.ts'
import { connectFailure, placeOf } from '../../network/connect-errors.ts'
import { familyOf } from '../../network/ip-address.ts'
import { SystemCallError } from '../../network/native/libc.ts'
import { DeadlineReached, isDeadline } from '../../network/deadline.ts'
import { defineMonitor, type Context } from '../monitor.ts'
import type { Observation } from '../../contract/observation.ts'
import { createReverseNames } from './reverse-names.ts'
import { failureOf } from '../../network/target-failure.ts'
import { reportHops, type Hop, type HopReport } from './hops.ts'
import { observationOf, type TraceObserved } from './observed.ts'
import { openerOf } from './open.ts'
import { createPathMemory, type PathChange } from './path.ts'
import { makeTracePlan, type TracePlan } from './plan.ts'
import { tracerouteSamples } from './samples.ts'
import { runTrace, type Traced, type TraceSettings } from './trace.ts'
import { evaluateTrace } from './verdict.ts'

/** Longest wait for names at the end of a trace. */
const NAMES_WAIT_MS = 200

const budget = createAnswerBudget()
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
    traced = await trace(plan, address, key, signal)
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

async function trace(
  plan: TracePlan,
  address: string,
  key: string,
  signal: AbortSignal,
): Promise<Traced> {
  const open = await openerOf(plan, address)
  const before = paths.last(key)
  const settings: TraceSettings = {
    plan,
    address,
    open,
    onHop: (hop) => {
      if (plan.ptrLookup) names.ask(hop)
    },
    routerAt: (ttl) =>
      before?.reached === true && ttl >= before.path.length ? address : before?.path[ttl - 1],
    budget,
  }
  const traced = await runTrace(settings, signal)
  if (!isTargetOverBudget(traced)) return traced
  // The target's answer budget was used up by other traces.
  const isTime = await pause(
    budget.waitMs(address, plan.course.probesPerHop, performance.now()),
    signal,
  )
  // A missing answer proves nothing yet: without time for a second trace this one timed out.
  return isTime ? runTrace(settings, signal) : { ...traced, end: 'timeout' }
}

/** Whether the target did not answer while its answer budget was used up. */
function isTargetOverBudget({ course, end }: Traced): boolean {
  const isSilent = end === 'unknown-hops' || end === 'max-hops'
  return isSilent && course.probes.some(({ round, isOverBudget }) => round < 0 && isOverBudget)
}

/** Waits; false when the deadline came first. Rejects with the signal's reason when it is aborted otherwise. */
function pause(waitMs: number, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      clearTimeout(timer)
      if (isDeadline(signal)) resolve(false)
      else reject(signal.reason as Error)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', onAbort)
      resolve(true)
    }, waitMs)
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
  })
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
  return paths.compare(key, { path, reached: course.isReached })
}
