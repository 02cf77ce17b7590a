// ICMP monitor: loss and round trips of echoes, and the errors of lost ones.
import { toMicroseconds } from '../../contract/schema/duration.ts'
import {
  aboutIn,
  failure,
  type Failure,
  type FailureCode,
  FAILURES,
} from '../../contract/failure.ts'
import {
  icmpRunMs,
  icmpDefinition,
  type IcmpMonitor,
  ICMP_LIMITS,
  type IcmpCode,
} from './definition.ts'
import { LIMITS } from '../../contract/versions.ts'
import { evaluateAssertions, type AssertionSources } from '../assertions/assertions.ts'
import type { Progress } from '../../network/dial.ts'
import { errorFailure } from './errors.ts'
import { echoExchange, type EchoExchange } from './exchange.ts'
import {
  emptyObservation,
  pingObservationOf,
  type IcmpObserved,
  type PingObservation,
  icmpSamples,
} from './observed.ts'
import { EchoRun } from './run.ts'
import { familyOf, literalOf } from '../../network/ip-address.ts'
import { LibcUnavailable } from '../../network/native/libc.ts'
import { withDeadline, DeadlineReached } from '../../network/deadline.ts'
import { defineMonitor, type Context } from '../monitor.ts'
import type { Observation } from '../../contract/observation.ts'
import { unmapped } from '../../network/native/socket-address.ts'
import { failureOf, targetFailure } from '../../network/target-failure.ts'

/** Failures that count as a pass with `shouldFail`; not a missing name, which may be a typing error. */
const EXPECTED_BY_SHOULD_FAIL: ReadonlySet<string> = new Set<FailureCode | IcmpCode>([
  'ICMP_PACKET_LOSS',
  'ICMP_UNREACHABLE',
  'ICMP_PROHIBITED',
  'ICMP_TTL_EXCEEDED',
  'ICMP_TOO_LARGE',
  'ICMP_REJECTED',
  'CONNECT_UNREACHABLE',
])

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
  let addresses: string[]
  try {
    addresses = await lookUp(monitor, context)
  } catch (error) {
    const failed = failureOf(error, { phase: 'dns' })
    const { observed } = emptyObservation(request)
    observed.dnsResolutionTime = toMicroseconds(performance.now() - startedAt)
    return { observed: { ...observed }, failures: [failed] }
  }
  const resolvedAt = performance.now()
  const asked = request.allAddresses
    ? addresses.slice(0, LIMITS.addressesMax)
    : addresses.slice(0, 1)
  const lookedUp = { resolvedAt, dnsMs: resolvedAt - startedAt }
  const evaluated = await Promise.all(
    // An IPv6 socket cannot send IPv4 echoes.
    asked.map((address) => probe(monitor, unmapped(address), context, lookedUp)),
  )
  return request.allAddresses
    ? summaryOf(monitor, evaluated, addresses.length)
    : observationOf(monitor, evaluated[0] as Evaluated)
}

/** Resolves the name within its own timeout, so that a slow name server does not delay the echoes. */
async function lookUp({ request }: IcmpMonitor, context: Context): Promise<string[]> {
  const { hostname, ipFamily } = request
  const { dial, signal } = context
  if (literalOf(hostname) !== undefined) return dial.resolve(hostname, ipFamily, signal)
  return withDeadline(signal, ICMP_LIMITS.icmpLookupMs, (limited) =>
    dial.resolve(hostname, ipFamily, limited),
  )
}

/** Outcome of the echoes to one address. */
interface Evaluated {
  ping: PingObservation
  failures: Failure[]
  degraded: boolean
}

async function probe(
  monitor: IcmpMonitor,
  address: string,
  context: Context,
  { resolvedAt, dnsMs }: { resolvedAt: number; dnsMs: number },
): Promise<Evaluated> {
  const { request } = monitor
  const cut: Failure[] = []
  let ping: PingObservation = emptyObservation(request)
  try {
    const exchange = await exchangeFor(address)
    const run = startRun(monitor, address, exchange, context)
    try {
      await run.done
    } catch (error) {
      // The deadline leaves time for everything: only an agent that is too busy to send reaches it.
      if (!(error instanceof DeadlineReached)) throw error
      cut.push(tooBusy(error.deadlineMs))
    }
    const { tally } = run
    ping = pingObservationOf(request, address, tally)
    const mode = exchange.mode()
    if (mode !== undefined) ping.observed.socket = mode
    if (tally.firstSentAtMs !== undefined) {
      ping.observed.setupTime = toMicroseconds(Math.max(0, tally.firstSentAtMs - resolvedAt))
    }
    cut.push(...agentFailures(tally.echoes))
  } catch (error) {
    cut.push(failureOf(error, PROGRESS))
  }
  ping.observed.resolvedIp = address
  ping.observed.dnsResolutionTime = toMicroseconds(dnsMs)
  if (cut.length > 0) return { ping, failures: cut, degraded: false }
  return evaluate(monitor, ping, context.signal)
}

const PROGRESS: Progress = { phase: 'firstByte' }

async function exchangeFor(address: string): Promise<EchoExchange> {
  try {
    return await echoExchange(familyOf(address))
  } catch (error) {
    if (!(error instanceof LibcUnavailable)) throw error
    throw targetFailure(
      'CHECK_TYPE_UNSUPPORTED',
      `this agent cannot run ICMP monitors: ${error.message}`,
    )
  }
}

function startRun(
  { request }: IcmpMonitor,
  address: string,
  exchange: EchoExchange,
  { signal }: Context,
): EchoRun {
  const { pingCount, intervalMs, timeoutMs, payloadBytes, ttl, dontFragment } = request
  const order = {
    to: exchange.native.address(address, 0),
    count: pingCount,
    intervalMs,
    timeoutMs,
    settings: { payloadBytes, ttl, dontFragment },
  }
  return new EchoRun(exchange, order, signal)
}

function tooBusy(deadlineMs: number): Failure {
  const message = `the echoes could not all be sent and awaited within ${deadlineMs} ms: this agent is too busy`
  return failure('RESOURCES_EXHAUSTED', message, { deadlineMs })
}

/** Failures of the agent itself that prevented sending, each once. */
function agentFailures(echoes: readonly { error?: { own?: Failure } }[]): Failure[] {
  const own = echoes
    .map(({ error }) => error?.own)
    .find((one) => one !== undefined && aboutIn(FAILURES, one) === 'agent')
  return own === undefined ? [] : [own]
}

async function evaluate(
  monitor: IcmpMonitor,
  ping: PingObservation,
  signal: AbortSignal,
): Promise<Evaluated> {
  const { request, maxPacketLossThreshold, degradedPacketLossThreshold } = monitor
  const { observed, dropped } = ping
  const loss = observed.packetLoss ?? 0
  const isFailed = loss >= maxPacketLossThreshold
  const degraded = loss >= degradedPacketLossThreshold
  if (dropped > 0 && (isFailed || degraded)) {
    const message = `${dropped} echoes may have come back and been dropped: this agent’s receive buffers were full; net.core.rmem_max says how large they may be`
    return { ping, failures: [failure('RESOURCES_EXHAUSTED', message)], degraded: false }
  }
  const failures = isFailed ? lossFailures(monitor, ping) : []
  if (request.assertions.length > 0) {
    failures.push(...(await evaluateAssertions(request.assertions, sourcesOf(observed), signal)))
  }
  return { ping, failures, degraded }
}

function lossFailures(monitor: IcmpMonitor, { observed, errors }: PingObservation): Failure[] {
  if (monitor.shouldFail) return []
  const { packetsSent, packetsReceived, packetLoss = 0, resolvedIp = '', corrupted } = observed
  const lost = packetsSent - packetsReceived
  const damaged = corrupted === 0 ? '' : `, of which ${corrupted} came back changed`
  const percent = `${Math.round(packetLoss * 10) / 10} %`
  const maxLoss = monitor.maxPacketLossThreshold
  const message = `${lost} of ${packetsSent} echoes to ${resolvedIp} are lost (${percent})${damaged}; the limit is ${maxLoss} %`
  return [
    ...firstOfEachCode(
      errors.map(({ error, count }) => errorFailure(error, resolvedIp, count, packetsSent)),
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

function observationOf(monitor: IcmpMonitor, { ping, failures, degraded }: Evaluated): Observation {
  const { observed } = ping
  const counted = monitor.shouldFail
    ? failures.filter(({ code }) => !EXPECTED_BY_SHOULD_FAIL.has(code))
    : failures
  const observation: Observation = { observed: { ...observed }, failures: counted }
  if (observed.latency !== undefined) observation.responseTimeMs = observed.latency.avg
  if (!monitor.shouldFail) observation.degraded = degraded
  return observation
}

/** Combines all addresses: the worst observation, with a list of all. */
function summaryOf(
  monitor: IcmpMonitor,
  evaluated: readonly Evaluated[],
  found: number,
): Observation {
  const worst = evaluated.reduce((one, other) => (badness(other) > badness(one) ? other : one))
  const observation = observationOf(monitor, worst)
  const failures = evaluated.flatMap(({ ping, failures: own }) =>
    own.map((one) => ({ ...one, details: { ...one.details, address: ping.observed.resolvedIp } })),
  )
  const all = observationOf(monitor, { ...worst, failures })
  observation.failures = all.failures
  observation.degraded = !monitor.shouldFail && evaluated.some(({ degraded }) => degraded)
  observation.observed['addresses'] = evaluated.map(({ ping, failures: own }) => ({
    address: ping.observed.resolvedIp,
    packetLoss: ping.observed.packetLoss,
    latency: ping.observed.latency,
    failures: own,
  }))
  if (found > evaluated.length) observation.observed['addressesLeftOut'] = found - evaluated.length
  return observation
}

function badness({ ping, failures }: Evaluated): number {
  const { packetLoss = 100, latency } = ping.observed
  return failures.length * 1e9 + packetLoss * 1e6 + (latency?.avg ?? 0)
}
