// TCP monitor: whether the port answers, with the expected data, and how fast.
import { NOT_CONNECTED } from '../../network/connect-errors.ts'
import type { Failure } from '../../contract/failure.ts'
import { roundPhases } from '../../contract/schema/duration.ts'
import { tcpDefinition, type TcpMonitor } from './definition.ts'
import { LIMITS } from '../../contract/versions.ts'
import { defineMonitor, type Context } from '../monitor.ts'
import type { Observation, Sample } from '../../contract/observation.ts'
import { failureOf } from '../../network/target-failure.ts'
import { makePlan, type Plan } from './plan.ts'
import type { Probe } from './connection.ts'
import { probeTcp } from './probe.ts'
import { isDegraded, tooSlow } from '../thresholds.ts'
import { connectionSamples } from '../metrics/connection-samples.ts'
import { tlsSamples } from '../metrics/tls-samples.ts'

/** Failures that count as a pass with `shouldFail`; not a missing name, which may be a typing error. */
const EXPECTED_BY_SHOULD_FAIL: ReadonlySet<string> = new Set(NOT_CONNECTED)

/** The TCP type of monitor. */
export const tcp = defineMonitor({
  definition: tcpDefinition,
  prepare(monitor: TcpMonitor) {
    const plan = makePlan(monitor)
    return (context) => runTcp(monitor, plan, context)
  },
  samples: tcpSamples,
  deadlineMs: (monitor) => monitor.maxResponseTime,
})

async function runTcp(monitor: TcpMonitor, plan: Plan, context: Context): Promise<Observation> {
  const { host, port, family } = plan
  if (monitor.request.allAddresses) return probeAll(monitor, plan, context)
  const probe = await probeTcp(plan, { host, port, family }, context)
  evaluate(monitor, probe)
  return observationOf(monitor, probe, port)
}

/** Adds the evaluation of the response time, and removes the failures that `shouldFail` expects. */
function evaluate(monitor: TcpMonitor, probe: Probe): void {
  roundPhases(probe.phases)
  if (monitor.shouldFail) {
    probe.failures = probe.failures.filter(({ code }) => !EXPECTED_BY_SHOULD_FAIL.has(code))
  }
  if (probe.failures.length > 0 || probe.phases.connectMs === undefined) return
  const slow = tooSlow(probe.phases.totalMs, monitor)
  if (slow !== undefined) probe.failures.push(slow)
}

function observationOf(monitor: TcpMonitor, probe: Probe, port: number): Observation {
  const { failures, failedDueToRegex, ...facts } = probe
  const observed: Record<string, unknown> = { port, ...facts }
  if (failedDueToRegex) observed['failedDueToRegex'] = true
  // Without a connection there is no response time.
  if (probe.phases.connectMs === undefined) return { observed, failures }
  const responseTimeMs = probe.phases.totalMs
  return { observed, failures, responseTimeMs, degraded: isDegraded(responseTimeMs, monitor) }
}

/** Probes every address of the name. The slowest counts, and each failed one fails the check. */
async function probeAll(monitor: TcpMonitor, plan: Plan, context: Context): Promise<Observation> {
  const { host, port, family } = plan
  const startedAt = performance.now()
  let addresses: string[]
  try {
    addresses = await context.dial.resolve(host, family, context.signal)
  } catch (error) {
    const totalMs = performance.now() - startedAt
    const failures = [failureOf(error, { phase: 'dns' })]
    return { observed: { port, phases: { totalMs } }, failures }
  }
  const dnsMs = performance.now() - startedAt
  const probes = await Promise.all(
    addresses.slice(0, LIMITS.addressesMax).map(async (address) => {
      const probe = await probeTcp(plan, { host, port, family, address }, context, startedAt)
      probe.address ??= address
      probe.phases.dnsMs = dnsMs
      evaluate(monitor, probe)
      return probe
    }),
  )
  return summaryOf(monitor, plan, probes, addresses.length)
}

function summaryOf(monitor: TcpMonitor, plan: Plan, probes: Probe[], found: number): Observation {
  const observation = observationOf(monitor, worstOf(probes), plan.port)
  const { observed } = observation
  observed['addresses'] = probes.map(({ address, phases, failures }) => ({
    address,
    phases,
    failures,
  }))
  if (found > probes.length) observed['addressesLeftOut'] = found - probes.length
  if (probes.some(({ failedDueToRegex }) => failedDueToRegex)) observed['failedDueToRegex'] = true
  const failures = probes.flatMap(({ address, failures: own }): Failure[] =>
    own.map((one) => ({ ...one, details: { ...one.details, address } })),
  )
  const connected = probes.filter(({ phases }) => phases.connectMs !== undefined)
  if (connected.length === 0) return { ...observation, failures }
  const responseTimeMs = Math.max(...connected.map(({ phases }) => phases.totalMs))
  return {
    ...observation,
    failures,
    responseTimeMs,
    degraded: isDegraded(responseTimeMs, monitor),
  }
}

/** The shown probe: the first failed one, else the slowest. */
function worstOf(probes: readonly Probe[]): Probe {
  const failed = probes.find(({ failures }) => failures.length > 0)
  return (
    failed ??
    probes.reduce((one, other) => (other.phases.totalMs > one.phases.totalMs ? other : one))
  )
}

/** The samples of one observation, as `observed` of a TCP monitor has it. */
function tcpSamples(observed: Record<string, unknown>): Sample[] {
  const { phases, family, tls, failedDueToRegex } = observed as Partial<Probe>
  const samples: Sample[] = [
    { name: 'probe_failed_due_to_regex', value: failedDueToRegex === true ? 1 : 0 },
  ]
  samples.push(...connectionSamples('probe_tcp_duration_seconds', { family, phases }, PHASES))
  if (tls !== undefined) samples.push(...tlsSamples(tls))
  return samples
}

const PHASES: Record<string, string> = {
  dnsMs: 'resolve',
  connectMs: 'connect',
  proxyMs: 'proxy',
  tlsMs: 'tls',
  firstByteMs: 'processing',
  downloadMs: 'transfer',
}
