// Common part of URL and API monitors: makes the request, evaluates the response, builds the observation.
import { failure, type Failure } from '../../contract/failure.ts'
import type { Assertion } from '../../contract/assertion.ts'
import { LIMITS } from '../../contract/versions.ts'
import { evaluateAssertions } from '../assertions/assertions.ts'
import type { Context } from '../monitor.ts'
import type { Observation } from '../../contract/observation.ts'
import { isDeadline } from '../../network/deadline.ts'
import { releaseBody } from '../../network/http/body.ts'
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
  /** Called before the evaluation with the answer or its failure, and may change the answer. Never rejects. */
  afterwards?(trip: Trip): Promise<Failure[]>
}

/** Runs one check. Rejects with the signal's reason when the run is cancelled. */
export async function checkHttp(plan: HttpPlan, context: Context): Promise<Observation> {
  if (plan.allAddresses) return checkAllAddresses(plan, context)
  const trip = await travel(plan, context)
  return evaluateTrip(plan, trip, context.signal)
}

/** Evaluates the trip: failures, degradation, observation. Ends its body. */
async function evaluateTrip(plan: HttpPlan, trip: Trip, signal: AbortSignal): Promise<Observation> {
  try {
    return await observationOf(plan, trip, signal)
  } finally {
    releaseBody(trip.answer.body)
  }
}

async function observationOf(
  plan: HttpPlan,
  trip: Trip,
  signal: AbortSignal,
): Promise<Observation> {
  const whole = trip.failed === undefined
  const after = plan.afterwards === undefined ? [] : await plan.afterwards(trip)
  const failures = whole ? await evaluateAnswer(plan, trip, signal) : [trip.failed as Failure]
  // A failed request takes precedence over its consequences.
  if (whole) failures.push(...after)
  const showBody = plan.showBody || failures.length > 0
  const observation: Observation = {
    observed: observedOf(plan, trip, showBody) as unknown as Record<string, unknown>,
    failures,
  }
  if (whole) {
    observation.responseTimeMs = trip.totalMs
    observation.degraded = isDegraded(trip.totalMs, plan.thresholds)
  }
  return observation
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

/** Outcome of one address in a check that probes all. */
interface AddressOutcome {
  address: string
  statusCode?: number
  totalMs: number
  /** Codes of the failures. */
  failures: string[]
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
  const slowest = Math.max(...probes.map((one) => one.observation.responseTimeMs ?? 0))
  // The shown probe: the first failed one, or else the first.
  const shown = (probes.find((one) => one.observation.failures.length > 0) ?? probes[0]) as Probe
  const result: Observation = {
    observed: {
      ...shown.observation.observed,
      addresses: probes.map((one) => one.outcome),
      addressesLeftOut: addresses.length - probed.length,
    },
    failures: probes.flatMap(({ observation, outcome }) =>
      observation.failures.map((one) => withAddress(one, outcome.address)),
    ),
    degraded: probes.some((one) => one.observation.degraded === true),
  }
  if (slowest > 0) result.responseTimeMs = slowest
  return result
}

interface Probe {
  observation: Observation
  outcome: AddressOutcome
}

async function probeAddress(
  plan: HttpPlan,
  context: Context,
  address: string,
  dnsMs: number,
): Promise<Probe> {
  const trip = await travel(plan, context, address)
  const first = trip.hops[0]
  // All of them waited for the same lookup.
  if (first?.phases.dnsMs !== undefined) first.phases.dnsMs = dnsMs
  if (first !== undefined) first.phases.totalMs += dnsMs
  trip.totalMs += dnsMs
  const observation = await evaluateTrip(plan, trip, context.signal)
  const { statusCode, phases } = observation.observed as unknown as HttpObserved
  const outcome: AddressOutcome = {
    address,
    totalMs: phases.totalMs,
    failures: observation.failures.map((one) => one.code),
  }
  if (statusCode !== undefined) outcome.statusCode = statusCode
  return { observation, outcome }
}

function withAddress(failed: Failure, address: string): Failure {
  const message = `${address}: ${failed.message}`
  return { ...failed, message, details: { ...failed.details, address } }
}
