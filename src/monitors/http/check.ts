// Common part of URL and API monitors: makes the request, evaluates the response, builds the observation.
import { failure, type Failure } from '../../contract/failure.ts'
import type { Assertion } from '../../contract/assertion.ts'
import type { ApiMonitor, UrlMonitor } from '../../contract/http-monitor.ts'
import { LIMITS } from '../../contract/versions.ts'
import { evaluateAssertions, headerSource } from '../assertions/assertions.ts'
import type { Context } from '../monitor.ts'
import type { Observation } from '../../contract/observation.ts'
import { isDeadline } from '../../network/deadline.ts'
import { releaseBody } from '../../network/http/body.ts'
import type { HttpTarget } from '../../network/http/target.ts'
import { checkAddresses, isDegraded, type Probed, tooSlow } from '../probe.ts'
import { bodyText, observedOf, type HttpObserved } from './observed.ts'
import { type Hop, type HttpPlan, notBegun, travel, type Trip } from './trip.ts'

/** The plan of a definition whose first request is `first`. */
export function httpPlan(
  monitor: UrlMonitor | ApiMonitor,
  first: HttpTarget,
  showBody: boolean,
): HttpPlan {
  const assertions: readonly Assertion[] = monitor.request.assertions
  const looksIntoBody = assertions.some(
    ({ source }) => source === 'JSON_BODY' || source === 'TEXT_BODY',
  )
  const bufferBytes = looksIntoBody ? LIMITS.unpackedBytesMax : LIMITS.bodyExcerptBytesMax
  return { monitor, first, bufferBytes, showBody }
}

/** Runs one check. Rejects with the signal's reason when the run is cancelled. */
export async function checkHttp(plan: HttpPlan, context: Context): Promise<Observation> {
  if (plan.monitor.request.allAddresses) return checkAllAddresses(plan, context)
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
    const undisclosed = undisclosedOf(trip, plan.monitor.request.allAddresses)
    const observation = { observed, failures, ...(undisclosed && { undisclosed }) }
    if (!whole) return observation
    const degraded = isDegraded(trip.totalMs, plan.monitor)
    return { ...observation, responseTimeMs: trip.totalMs, degraded }
  } finally {
    releaseBody(trip.answer.body)
  }
}

/** What was received and may not be shown, which any part of an answer may repeat. */
function undisclosedOf({ answer, locations, received }: Trip, isOneOfSeveral: boolean) {
  const shown = Object.keys(answer.response?.headers ?? {}).length
  if (!isOneOfSeveral && locations === undefined && received.length === 2 * shown) return undefined
  return { locations: locations ?? [], received: listed(received) }
}

/** Different headers: a server may send one any number of times. */
function listed(received: readonly string[]) {
  const headers = new Map<string, { header: string; value: string }>()
  for (let at = 0; at + 1 < received.length; at += 2) {
    const [header, value] = received.slice(at, at + 2) as [string, string]
    headers.set(`${header}:${value}`, { header, value })
  }
  return [...headers.values()]
}

async function evaluateAnswer(
  { monitor }: HttpPlan,
  trip: Trip,
  signal: AbortSignal,
): Promise<Failure[]> {
  const failures: Failure[] = []
  const statusCode = trip.answer.response?.statusCode as number
  // With `shouldFail` a status of 400 and above is no failure.
  if (statusCode >= 400 && !monitor.shouldFail) {
    failures.push(failure('HTTP_STATUS', `the status code is ${statusCode}`, { statusCode }))
  }
  failures.push(...tooSlow(trip.totalMs, monitor))
  const { assertions } = monitor.request
  if (assertions.length === 0) return failures
  failures.push(...(await evaluateAssertions(assertions, sourcesOf(trip), signal)))
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
    HEADERS: headerSource((name) => response?.headers[name]),
  } as const
}

interface AddressProbe extends Probed {
  trip: Trip
}

/** Probes every address at once. The check fails when one does, and is as slow as the slowest. */
async function checkAllAddresses(plan: HttpPlan, context: Context): Promise<Observation> {
  const { host, port } = plan.first
  const endpoint = { host, port, family: plan.monitor.request.ipFamily }
  return checkAddresses<AddressProbe>(endpoint, context, {
    async probe({ address }) {
      const trip = await travel(plan, context, address)
      return { address, phases: (trip.hops[0] as Hop).phases, failures: [], trip }
    },
    observe(probed) {
      if (!('trip' in probed)) return evaluateTrip(plan, notBegun(plan, probed), context.signal)
      const { trip, phases } = probed
      // All of them waited for the same lookup.
      phases.totalMs += phases.dnsMs ?? 0
      trip.totalMs += phases.dnsMs ?? 0
      return evaluateTrip(plan, trip, context.signal)
    },
    facts(_, { observed, failures }) {
      const { statusCode, phases } = observed as unknown as HttpObserved
      return {
        phases,
        totalMs: phases.totalMs,
        failures: failures.map(({ code }) => code),
        ...(statusCode !== undefined && { statusCode }),
      }
    },
  })
}
