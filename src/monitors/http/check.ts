// Common part of URL and API monitors: makes the request, evaluates the response, builds the observation.
import { failure, type Failure } from '../../contract/failure.ts'
import type { Assertion } from '../../contract/assertion.ts'
import type { ApiMonitor, UrlMonitor } from '../../contract/http-monitor.ts'
import { LIMITS } from '../../contract/versions.ts'
import { evaluateAssertions } from '../assertions/assertions.ts'
import type { Context } from '../monitor.ts'
import type { Observation } from '../../contract/observation.ts'
import { isDeadline } from '../../network/deadline.ts'
import { releaseBody } from '../../network/http/body.ts'
import type { HttpTarget } from '../../network/http/target.ts'
import { bodyText, observedOf, type HttpObserved } from './observed.ts'
import { failureOf } from '../../network/target-failure.ts'
import { isDegraded, tooSlow, type Thresholds } from '../thresholds.ts'
import { notBegun, travel, type Route, type Trip } from './trip.ts'

/** Prepared form of a definition. */
export interface HttpPlan extends Route {
  allAddresses: boolean
  assertions: readonly Assertion[]
  /** Status codes from 400 on are no failure. */
  shouldFail: boolean
  thresholds: Thresholds
  /** Whether passed checks also show the beginning of the body. */
  showBody: boolean
}

/** The plan of a definition whose first request is `first`. */
export function httpPlan(
  monitor: UrlMonitor | ApiMonitor,
  first: HttpTarget,
  showBody: boolean,
): HttpPlan {
  const { request, shouldFail } = monitor
  const { ipFamily: family, followRedirects, skipSSL, tls, allAddresses, assertions } = request
  const looksIntoBody = assertions.some(
    ({ source }) => source === 'JSON_BODY' || source === 'TEXT_BODY',
  )
  return {
    first,
    family,
    followRedirects,
    skipSSL,
    tls,
    allAddresses,
    bufferBytes: looksIntoBody ? LIMITS.unpackedBytesMax : LIMITS.bodyExcerptBytesMax,
    assertions,
    shouldFail,
    thresholds: monitor,
    showBody,
  }
}

/** Runs one check. Rejects with the signal's reason when the run is cancelled. */
export async function checkHttp(plan: HttpPlan, context: Context): Promise<Observation> {
  if (plan.allAddresses) return checkAllAddresses(plan, context)
  const trip = await travel(plan, context)
  return evaluateTrip(plan, trip, context.signal)
}

/**
 * Evaluates the trip: failures, degradation, observation. Ends its body. Before that `afterwards` may change the
 * answer; a failed request takes precedence over the failures that it returns.
 */
export async function evaluateTrip(
  plan: HttpPlan,
  trip: Trip,
  signal: AbortSignal,
  afterwards?: () => Promise<Failure[]>,
): Promise<Observation> {
  try {
    const after = (await afterwards?.()) ?? []
    const whole = trip.failed === undefined
    const failures = whole
      ? [...(await evaluateAnswer(plan, trip, signal)), ...after]
      : [trip.failed as Failure]
    const observed = { ...observedOf(plan, trip, plan.showBody || failures.length > 0) }
    if (!whole) return { observed, failures }
    const degraded = isDegraded(trip.totalMs, plan.thresholds)
    return { observed, failures, responseTimeMs: trip.totalMs, degraded }
  } finally {
    releaseBody(trip.answer.body)
  }
}

async function evaluateAnswer(plan: HttpPlan, trip: Trip, signal: AbortSignal): Promise<Failure[]> {
  const failures: Failure[] = []
  const statusCode = trip.answer.response?.statusCode as number
  if (statusCode >= 400 && !plan.shouldFail) {
    failures.push(failure('HTTP_STATUS', `the status code is ${statusCode}`, { statusCode }))
  }
  const slow = tooSlow(trip.totalMs, plan.thresholds)
  if (slow !== undefined) failures.push(slow)
  if (plan.assertions.length === 0) return failures
  failures.push(...(await evaluateAssertions(plan.assertions, sourcesOf(trip), signal)))
  if (signal.aborted && !isDeadline(signal)) throw signal.reason
  return failures
}

function sourcesOf(trip: Trip) {
  const { response } = trip.answer
  const text = () => bodyText(trip)
  return {
    STATUS_CODE: { kind: 'value', value: () => response?.statusCode },
    RESPONSE_TIME: { kind: 'value', value: () => trip.totalMs },
    JSON_BODY: { kind: 'json', text },
    TEXT_BODY: { kind: 'text', text },
    HEADERS: {
      kind: 'value',
      value: (name: string) => {
        const value = response?.headers[name.toLowerCase()]
        return Array.isArray(value) ? value.join(', ') : value
      },
    },
  } as const
}

/** Probes every address at once. The check fails when one does, and is as slow as the slowest. */
async function checkAllAddresses(plan: HttpPlan, context: Context): Promise<Observation> {
  const { host } = plan.first
  const startedAt = performance.now()
  let addresses: string[]
  try {
    addresses = await context.dial.resolve(host, plan.family, context.signal)
  } catch (error) {
    const failed = failureOf(error, { phase: 'dns' })
    return evaluateTrip(plan, notBegun(plan, failed, performance.now() - startedAt), context.signal)
  }
  const dnsMs = performance.now() - startedAt
  const probed = addresses.slice(0, LIMITS.addressesMax)
  const probes = await Promise.all(
    probed.map((address) => probeAddress(plan, context, address, dnsMs)),
  )
  const slowest = Math.max(...probes.map(({ responseTimeMs }) => responseTimeMs ?? 0))
  // The shown probe: the first failed one, or else the first.
  const shown = (probes.find(({ failures }) => failures.length > 0) ?? probes[0]) as AddressProbe
  return {
    observed: {
      ...shown.observed,
      addresses: probes.map(outcomeOf),
      addressesLeftOut: addresses.length - probed.length,
    },
    failures: probes.flatMap(({ failures, address }) =>
      failures.map((one) => withAddress(one, address)),
    ),
    degraded: probes.some(({ degraded }) => degraded === true),
    ...(slowest > 0 && { responseTimeMs: slowest }),
  }
}

type AddressProbe = Observation & { address: string }

async function probeAddress(
  plan: HttpPlan,
  context: Context,
  address: string,
  dnsMs: number,
): Promise<AddressProbe> {
  const trip = await travel(plan, context, address)
  const first = trip.hops[0]
  // All of them waited for the same lookup.
  if (first?.phases.dnsMs !== undefined) first.phases.dnsMs = dnsMs
  if (first !== undefined) first.phases.totalMs += dnsMs
  trip.totalMs += dnsMs
  return { address, ...(await evaluateTrip(plan, trip, context.signal)) }
}

/** The probe of one address, in the result of all. */
function outcomeOf({ address, observed, failures }: AddressProbe) {
  const { statusCode, phases } = observed as unknown as HttpObserved
  return {
    address,
    totalMs: phases.totalMs,
    failures: failures.map(({ code }) => code),
    ...(statusCode !== undefined && { statusCode }),
  }
}

function withAddress(failed: Failure, address: string): Failure {
  const message = `${address}: ${failed.message}`
  return { ...failed, message, details: { ...failed.details, address } }
}
