// What URL and API monitors have in common: go the way, evaluate the answer, and say what was seen.
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

/** All of a monitor's definition that a check needs, made ready once. */
export interface HttpPlan extends Route {
  allAddresses: boolean
  assertions: readonly Assertion[]
  /** Status codes from 400 on are as good as others. */
  shouldFail: boolean
  thresholds: Thresholds
  /** Whether the beginning of the body is shown of a check that passed, too. */
  showBody: boolean
  /** Looks at the answer, or at what came instead, before it is evaluated, and may change it. Never rejects. */
  afterwards?(trip: Trip): Promise<Failure[]>
}

/** Runs one check. Rejects with the signal's reason when the run is cancelled. */
export async function checkHttp(plan: HttpPlan, context: Context): Promise<Observation> {
  if (plan.allAddresses) return checkAllAddresses(plan, context)
  const trip = await travel(plan, context)
  return evaluateTrip(plan, trip, context.signal)
}

/** What follows from the way that was gone: failures, degradation, the facts for people. Ends its body. */
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
  // A request that failed says more than what comes of that.
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
      kind: 'header',
      value: (name: string) => {
        const value = response?.headers[name.toLowerCase()]
        return Array.isArray(value) ? value.join(', ') : value
      },
    },
  } as const
}

/** One address's part in a check that probes them all. */
interface AddressOutcome {
  address: string
  statusCode?: number
  totalMs: number
  /** Codes of the failures; empty when all is well. */
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
  const seen = await Promise.all(
    probed.map((address) => probeAddress(plan, context, address, dnsMs)),
  )
  const slowest = Math.max(...seen.map((one) => one.observation.responseTimeMs ?? 0))
  // The one to look at: the first that failed, or else the first.
  const shown = (seen.find((one) => one.observation.failures.length > 0) ?? seen[0]) as Probe
  const result: Observation = {
    observed: {
      ...shown.observation.observed,
      addresses: seen.map((one) => one.outcome),
      addressesLeftOut: addresses.length - probed.length,
    },
    failures: seen.flatMap(({ observation, outcome }) =>
      observation.failures.map((one) => withAddress(one, outcome.address)),
    ),
    degraded: seen.some((one) => one.observation.degraded === true),
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
  // All of them waited for the one look-up.
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
