// gRPC monitor: whether a server is healthy, or a method answers as expected, and how fast.
import { roundPhases } from '../../contract/schema/duration.ts'
import { failure, type Failure } from '../../contract/failure.ts'
import {
  GRPC_HEALTH_STATES,
  type GrpcCode,
  grpcDefinition,
  type GrpcMonitor,
} from './definition.ts'
import { evaluateAssertions, type AssertionSources } from '../assertions/assertions.ts'
import { metadataValue } from './metadata.ts'
import { grpcSamples, type GrpcObserved } from './observed.ts'
import { deadlineMsOf, type Plan, prepareGrpc } from './plan.ts'
import { probeGrpc, type Probe } from './probe.ts'
import { STATUS } from './status.ts'
import { isDeadline } from '../../network/deadline.ts'
import { defineMonitor, failing, type Context } from '../monitor.ts'
import type { Observation } from '../../contract/observation.ts'
import { isDegraded, tooSlow } from '../thresholds.ts'

/** The gRPC type of monitor. */
export const grpc = defineMonitor<GrpcMonitor>({
  definition: grpcDefinition,
  prepare(monitor) {
    const prepared = prepareGrpc(monitor)
    return 'plan' in prepared
      ? (context) => runGrpc(monitor, prepared.plan, context)
      : failing(prepared.failure)
  },
  samples: (observed) => grpcSamples(observed),
  deadlineMs: deadlineMsOf,
})

async function runGrpc(monitor: GrpcMonitor, plan: Plan, context: Context): Promise<Observation> {
  const probe = await probeGrpc(plan, context)
  const { observed, failures, answer } = probe
  roundPhases(observed.phases)
  const shown = observed as unknown as Record<string, unknown>
  // Without an answer there is no response time.
  if (answer === undefined || failures.length > 0) return { observed: shown, failures }
  const responseTimeMs = responseTime(observed)
  failures.push(...statusFailures(monitor, plan, observed))
  const slow = tooSlow(responseTimeMs, monitor)
  if (slow !== undefined) failures.push(slow)
  if (plan.assertions.length > 0) {
    const { signal } = context
    const sources = sourcesOf(probe, responseTimeMs)
    failures.push(...(await evaluateAssertions(plan.assertions, sources, signal)))
    if (signal.aborted && !isDeadline(signal)) throw signal.reason
  }
  return {
    observed: shown,
    failures,
    responseTimeMs,
    degraded: isDegraded(responseTimeMs, monitor),
  }
}

/** Reflection is the monitor's own need and does not count as the service's time. */
function responseTime({ phases }: GrpcObserved): number {
  return phases.totalMs - (phases.reflectionMs ?? 0)
}

/** Failures of the status and of the health state, if no assertion is made about them. */
function statusFailures(
  { shouldFail }: GrpcMonitor,
  { assertsStatus, assertsHealth, health }: Plan,
  observed: GrpcObserved,
): Failure[] {
  const { statusCode = STATUS.UNKNOWN, status, statusMessage = '', healthStatus } = observed
  if (shouldFail) return []
  if (statusCode !== STATUS.OK) {
    if (assertsStatus) return []
    const suffix = statusMessage === '' ? '' : `: ${statusMessage}`
    const details = { statusCode, status, statusMessage }
    if (health !== undefined && statusCode === STATUS.NOT_FOUND) {
      const message = `the health service does not know the service ${JSON.stringify(health)}${suffix}`
      return [failure<GrpcCode>('GRPC_SERVICE_NOT_FOUND', message, details)]
    }
    return [failure<GrpcCode>('GRPC_STATUS', `the call ended with ${status}${suffix}`, details)]
  }
  if (health === undefined || assertsHealth || healthStatus === 'SERVING') return []
  const message = `the state of health is ${healthStatus}`
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
    GRPC_METADATA: {
      kind: 'value',
      value: (name) => metadataValue(name, [answer?.headers, answer?.trailers]),
    },
  }
}
