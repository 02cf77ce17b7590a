// ICMP monitor: loss and round trips of echoes, and the errors of lost ones.
import { toMicroseconds } from '../../contract/schema/duration.ts'
import { failure, type Failure } from '../../contract/failure.ts'
import {
  icmpRunMs,
  icmpDefinition,
  type IcmpMonitor,
  ICMP_LIMITS,
  type IcmpCode,
} from './definition.ts'
import { LIMITS } from '../../contract/versions.ts'
import { evaluateAssertions, type AssertionSources } from '../assertions/assertions.ts'
import { wasTried, type Echo } from './echo-socket.ts'
import { errorFailure } from './errors.ts'
import { echoExchange } from './exchange.ts'
import {
  countErrors,
  emptyObserved,
  icmpSamples,
  observedOf,
  type IcmpObserved,
} from './observed.ts'
import { EchoRun } from './run.ts'
import { familyOf } from '../../network/ip-address.ts'
import { withDeadline, DeadlineReached } from '../../network/deadline.ts'
import { defineMonitor, type Context } from '../monitor.ts'
import type { Observation } from '../../contract/observation.ts'
import { unmapped } from '../../network/native/socket-address.ts'
import { failureOf } from '../../network/target-failure.ts'

/** The ICMP type of monitor. */
export const icmp = defineMonitor({
  definition: icmpDefinition,
  prepare: (monitor: IcmpMonitor) => (context) => runIcmp(monitor, context),
  samples: icmpSamples,
  deadlineMs: ({ request }) => icmpRunMs(request),
})

async function runIcmp(monitor: IcmpMonitor, context: Context): Promise<Observation> {
  const { request } = monitor
  const startedAt = performance.now()
  const lookedUp = () => {
    const dnsResolutionTime = toMicroseconds(performance.now() - startedAt)
    return { ...emptyObserved(request), dnsResolutionTime }
  }
  let addresses: string[]
  try {
    addresses = await lookUp(monitor, context)
  } catch (error) {
    return { observed: lookedUp(), failures: [failureOf(error, { phase: 'dns' })] }
  }
  const known = lookedUp()
  const asked = addresses.slice(0, request.allAddresses ? LIMITS.addressesMax : 1)
  const probes = await Promise.all(
    // An IPv6 socket cannot send IPv4 echoes.
    asked.map((address) => probe(monitor, { ...known, resolvedIp: unmapped(address) }, context)),
  )
  return request.allAddresses
    ? summaryOf(monitor, probes, addresses.length)
    : observationOf(monitor, probes[0] as Probe)
}

/** Resolves the name within its own timeout, so that a slow name server does not delay the echoes. */
function lookUp({ request }: IcmpMonitor, { dial, signal }: Context): Promise<string[]> {
  const { hostname, ipFamily } = request
  return withDeadline(signal, ICMP_LIMITS.icmpLookupMs, (limited) =>
    dial.resolve(hostname, ipFamily, limited),
  )
}

/** Outcome of the echoes to one address. */
interface Probe {
  observed: IcmpObserved
  failures: Failure[]
  degraded: boolean
}

/** Sends the echoes to the address, and adds what came back to what is known before. */
async function probe(
  monitor: IcmpMonitor,
  known: IcmpObserved & { resolvedIp: string },
  { signal }: Context,
): Promise<Probe> {
  const resolvedAt = performance.now()
  const { request } = monitor
  const { resolvedIp: address } = known
  const failures: Failure[] = []
  let observed: IcmpObserved = known
  try {
    const exchange = await echoExchange(familyOf(address))
    const run = new EchoRun(exchange, exchange.native.address(address, 0), request, signal)
    try {
      await run.done
    } catch (error) {
      // The deadline leaves time for everything: only an agent that is too busy to send reaches it.
      if (!(error instanceof DeadlineReached)) throw error
      failures.push(tooBusy(error.deadlineMs))
    }
    const { echoes } = run
    observed = observedOf(known, address, run)
    if (exchange.mode !== undefined) observed.socket = exchange.mode
    const [first] = echoes
    if (first?.socket !== undefined) {
      observed.setupTime = toMicroseconds(Math.max(0, first.sentAtMs - resolvedAt))
    }
    const own = echoes.find((echo) => !wasTried(echo))?.error?.own
    if (own !== undefined) failures.push(own)
    if (failures.length === 0) return await evaluate(monitor, observed, echoes, signal)
  } catch (error) {
    failures.push(failureOf(error, { phase: 'firstByte' }))
  }
  return { observed, failures, degraded: false }
}

function tooBusy(deadlineMs: number): Failure {
  const message = `the echoes could not all be sent and awaited within ${deadlineMs} ms: this agent is too busy`
  return failure('RESOURCES_EXHAUSTED', message, { deadlineMs })
}

async function evaluate(
  monitor: IcmpMonitor,
  observed: IcmpObserved,
  echoes: readonly Echo[],
  signal: AbortSignal,
): Promise<Probe> {
  const { request, maxPacketLossThreshold, degradedPacketLossThreshold } = monitor
  const loss = observed.packetLoss ?? 0
  const isFailed = loss >= maxPacketLossThreshold
  const degraded = loss >= degradedPacketLossThreshold
  const dropped = echoes.filter((echo) => echo.dropped === true).length
  if (dropped > 0 && (isFailed || degraded)) {
    const message = `${dropped} echoes may have come back and been dropped: this agent’s receive buffers were full (raise net.core.rmem_max)`
    return { observed, failures: [failure('RESOURCES_EXHAUSTED', message)], degraded: false }
  }
  const failures = isFailed && !monitor.shouldFail ? lossFailures(monitor, observed, echoes) : []
  failures.push(...(await evaluateAssertions(request.assertions, sourcesOf(observed), signal)))
  return { observed, failures, degraded }
}

function lossFailures(
  { maxPacketLossThreshold: maxLoss, request: { timeoutMs } }: IcmpMonitor,
  { packetsSent, packetsReceived, packetLoss = 0, resolvedIp = '', corrupted }: IcmpObserved,
  echoes: readonly Echo[],
): Failure[] {
  const lost = packetsSent - packetsReceived
  const silent = echoes.filter(({ state, error }) => state === 'lost' && error === undefined).length
  const reasons = [
    ...(silent > 0 ? [`${silent} without a reply within ${timeoutMs} ms`] : []),
    ...(corrupted > 0 ? [`${corrupted} came back corrupted`] : []),
  ]
  const why = reasons.length === 0 ? '' : `: ${reasons.join(', ')}`
  const percent = `${Math.round(packetLoss * 10) / 10} %`
  const message = `${lost} of ${packetsSent} echoes to ${resolvedIp} are lost (${percent})${why}; the limit is ${maxLoss} %`
  return [
    ...firstOfEachCode(
      countErrors(echoes).map(({ error, count }) =>
        errorFailure(error, resolvedIp, count, packetsSent),
      ),
    ),
    failure<IcmpCode>('ICMP_PACKET_LOSS', message, { address: resolvedIp, packetLoss, maxLoss }),
  ]
}

function firstOfEachCode(failures: readonly Failure[]): Failure[] {
  return failures.filter(({ code }, at) => failures.findIndex((one) => one.code === code) === at)
}

function sourcesOf(observed: IcmpObserved): AssertionSources {
  return {
    LATENCY: {
      kind: 'value',
      value: (name) => observed.latency?.[name as keyof IcmpObserved['latency']],
    },
    JSON_RESPONSE: { kind: 'json', text: () => JSON.stringify(observed) },
  }
}

function observationOf(
  { shouldFail }: IcmpMonitor,
  { observed, failures, degraded }: Probe,
): Observation {
  const observation: Observation = { observed: { ...observed }, failures }
  if (observed.latency !== undefined) observation.responseTimeMs = observed.latency.avg
  if (!shouldFail) observation.degraded = degraded
  return observation
}

/** Combines all addresses: the worst observation, with a list of all. */
function summaryOf(monitor: IcmpMonitor, probes: readonly Probe[], found: number): Observation {
  const worst = probes.reduce((one, other) => (badness(other) > badness(one) ? other : one))
  const observation = observationOf(monitor, {
    observed: worst.observed,
    failures: probes.flatMap(({ observed, failures }) =>
      failures.map((one) => ({
        ...one,
        details: { ...one.details, address: observed.resolvedIp },
      })),
    ),
    degraded: probes.some(({ degraded }) => degraded),
  })
  observation.observed['addresses'] = probes.map(({ observed, failures }) => ({
    address: observed.resolvedIp,
    packetLoss: observed.packetLoss,
    latency: observed.latency,
    failures,
  }))
  if (found > probes.length) observation.observed['addressesLeftOut'] = found - probes.length
  return observation
}

function badness({ observed: { packetLoss = 100, latency }, failures }: Probe): number {
  return failures.length * 1e9 + packetLoss * 1e6 + (latency?.avg ?? 0)
}
