// WebSocket monitor: whether the target opens a WebSocket, with the expected answer, and how fast.
import { NOT_CONNECTED } from '../../network/connect-errors.ts'
import type { FailureCode } from '../../contract/failure.ts'
import type { Observation, Sample } from '../../contract/observation.ts'
import {
  type AssertionSources,
  evaluateAssertions,
  headerSource,
} from '../assertions/assertions.ts'
import { type Context, defineMonitor } from '../monitor.ts'
import { verdictOn } from '../probe.ts'
import { type WebSocketCode, webSocketDefinition, type WebSocketMonitor } from './definition.ts'
import { makePlan, type Plan, type Probe, probeWebSocket, shownMessage, textOf } from './probe.ts'
import { connectionSamples, tlsSamples } from '../metrics.ts'

/** Failures that `shouldFail` expects: the target does not open a WebSocket. */
const EXPECTED_BY_SHOULD_FAIL: ReadonlySet<string> = new Set<FailureCode | WebSocketCode>([
  'WEBSOCKET_REFUSED',
  ...NOT_CONNECTED,
])

/** The WebSocket type of monitor. */
export const websocket = defineMonitor({
  definition: webSocketDefinition,
  prepare(monitor: WebSocketMonitor) {
    const plan = makePlan(monitor)
    return (context) => runWebSocket(monitor, plan, context)
  },
  samples: webSocketSamples,
  deadlineMs: (monitor) => monitor.maxResponseTime,
})

async function runWebSocket(
  monitor: WebSocketMonitor,
  plan: Plan,
  context: Context,
): Promise<Observation> {
  const probe = await probeWebSocket(plan, context)
  // Without an answer to the handshake there is no time to evaluate.
  const hasAnswered = probe.statusCode !== undefined && probe.failures.length === 0
  if (hasAnswered) {
    const { assertions } = plan.request
    const failures = await evaluateAssertions(assertions, sourcesOf(probe), context.signal)
    probe.failures.push(...failures)
  }
  const { failures: _, message, headers, ...facts } = probe
  return {
    observed: {
      url: plan.shownUrl,
      ...facts,
      ...(headers !== undefined && { response: { headers } }),
      ...(message !== undefined && { message: shownMessage(message) }),
    },
    ...verdictOn(monitor, probe, EXPECTED_BY_SHOULD_FAIL, hasAnswered),
  }
}

function sourcesOf({ statusCode, headers, message, phases, closeCode }: Probe): AssertionSources {
  const text = () => (message === undefined ? '' : textOf(message))
  return {
    STATUS_CODE: { kind: 'value', value: () => statusCode },
    HEADERS: headerSource((name) => headers?.[name]),
    MESSAGE: { kind: 'text', text },
    JSON_MESSAGE: { kind: 'json', text },
    RESPONSE_TIME: { kind: 'value', value: () => phases.totalMs },
    PING_TIME: { kind: 'value', value: () => phases.pingMs },
    CLOSE_CODE: { kind: 'value', value: () => closeCode },
  }
}

/** The samples of one observation, as `observed` of a WebSocket monitor has it. */
function webSocketSamples(observed: Record<string, unknown>): Sample[] {
  const { phases, family, statusCode = 0, messages = 0, tls } = observed as Partial<Probe>
  const samples: Sample[] = [
    { name: 'probe_websocket_status_code', value: statusCode },
    { name: 'probe_websocket_messages', value: messages },
    { name: 'probe_websocket_ssl', value: tls === undefined ? 0 : 1 },
  ]
  samples.push(...connectionSamples({ family, phases }, 'probe_websocket_duration_seconds'))
  return tls === undefined ? samples : [...samples, ...tlsSamples(tls)]
}
