// One run of a gRPC monitor: the call, and its failures.
import { roundPhases } from '../../contract/schema/duration.ts'
import { failure, type Failure } from '../../contract/failure.ts'
import type { Observation } from '../../contract/observation.ts'
import {
  evaluateAssertions,
  headerSource,
  type AssertionSources,
} from '../assertions/assertions.ts'
import type { Context } from '../monitor.ts'
import { isDegraded, tooSlow } from '../probe.ts'
import { STATUS } from './answer.ts'
import { GRPC_HEALTH_STATES, type GrpcCode, type GrpcMonitor } from './definition.ts'
import type { GrpcObserved } from './observed.ts'
import type { Plan } from './plan.ts'
import { probeGrpc, type Probe } from './probe.ts'

/** Makes one call and evaluates its answer. Rejects with the signal's reason when the run is cancelled. */
export async function runGrpc(
  monitor: GrpcMonitor,
  plan: Plan,
  context: Context,
): Promise<Observation> {
  const probe = await probeGrpc(plan, context)
  const { observed, failures, answer } = probe
  roundPhases(observed.phases)
  const shown = observed as unknown as Record<string, unknown>
  // Without an answer there is no response time.
  if (answer === undefined || failures.length > 0) return { observed: shown, failures }
  const responseTimeMs = responseTime(observed)
  failures.push(...statusFailures(monitor, plan, observed))
  failures.push(...tooSlow(responseTimeMs, monitor))
  const { assertions } = plan.request
  const sources = sourcesOf(probe, responseTimeMs)
  failures.push(...(await evaluateAssertions(assertions, sources, context.signal)))
  const degraded = isDegraded(responseTimeMs, monitor)
  return { observed: shown, failures, responseTimeMs, degraded }
}

/** Reflection is the monitor's own need and does not count as the service's time. */
function responseTime({ phases }: GrpcObserved): number {
  return phases.totalMs - (phases.reflectionMs ?? 0)
}

/** Failures of the status and of the health state, if no assertion is made about them. */
function statusFailures(
  { shouldFail, request }: GrpcMonitor,
  { health }: Plan,
  observed: GrpcObserved,
): Failure[] {
  const { statusCode = STATUS.UNKNOWN, status, statusMessage = '', healthStatus } = observed
  if (shouldFail) return []
  const asserts = (source: string) => request.assertions.some((one) => one.source === source)
  if (statusCode !== STATUS.OK) {
    if (asserts('GRPC_STATUS_CODE')) return []
    const suffix = statusMessage === '' ? '' : `: ${statusMessage}`
    const details = { statusCode, status, statusMessage }
    if (health !== undefined && statusCode === STATUS.NOT_FOUND) {
      const message = `the health service does not know the service ${JSON.stringify(health)}${suffix}`
      return [failure<GrpcCode>('GRPC_SERVICE_NOT_FOUND', message, details)]
    }
    return [failure<GrpcCode>('GRPC_STATUS', `the call ended with ${status}${suffix}`, details)]
  }
  if (health === undefined || healthStatus === 'SERVING') return []
  if (asserts('GRPC_HEALTHCHECK_STATUS')) return []
  const message = `the health status is ${healthStatus}`
  return [failure<GrpcCode>('GRPC_NOT_SERVING', message, { healthStatus })]
}

function sourcesOf({ observed, answer, json }: Probe, responseTimeMs: number): AssertionSources {
  const { statusCode, healthStatus } = observed
  const text = () => json
  return {
    RESPONSE_TIME: { kind: 'value', value: () => responseTimeMs },
    GRPC_STATUS_CODE: { kind: 'value', value: () => statusCode },
    GRPC_HEALTHCHECK_STATUS: {
      kind: 'value',
      value: () =>
        healthStatus === undefined ? undefined : GRPC_HEALTH_STATES.indexOf(healthStatus),
    },
    GRPC_RESPONSE: { kind: 'json', text },
    TEXT_BODY: { kind: 'text', text },
    GRPC_METADATA: headerSource((name) => answer?.headers?.[name] ?? answer?.trailers?.[name]),
  }
}
