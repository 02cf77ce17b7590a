// WebSocket monitor: whether the target opens a WebSocket, with the expected answer, and how fast.
import { NOT_CONNECTED } from '../../network/connect-errors.ts'
import type { Failure, FailureCode } from '../../contract/failure.ts'
import type { Observation, Sample } from '../../contract/observation.ts'
import { roundPhases } from '../../contract/schema/duration.ts'
import { type AssertionSources, evaluateAssertions } from '../assertions/assertions.ts'
import { type Context, defineMonitor, failing } from '../monitor.ts'
import { isDegraded, tooSlow } from '../thresholds.ts'
import { type WebSocketCode, webSocketDefinition, type WebSocketMonitor } from './definition.ts'
import { makePlan, type Plan } from './plan.ts'
import { type Probe, probeWebSocket, shownMessage, textOf, throwIfCancelled } from './probe.ts'
import { connectionSamples } from '../metrics/connection-samples.ts'
import { tlsSamples } from '../metrics/tls-samples.ts'

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
    return 'code' in plan ? failing(plan) : (context) => runWebSocket(monitor, plan, context)
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
  const responseTimeMs = probe.phases.totalMs
  const failures = [...probe.failures]
  if (probe.statusCode !== undefined && failures.length === 0) {
    failures.push(...(await assertionFailures(plan, probe, context.signal)))
    throwIfCancelled(context.signal)
    const slow = tooSlow(responseTimeMs, monitor)
    if (slow !== undefined) failures.push(slow)
  }
  const left = monitor.shouldFail
    ? failures.filter(({ code }) => !EXPECTED_BY_SHOULD_FAIL.has(code))
    : failures
  const observed = observedOf(plan, probe)
  // Without an answer to the handshake there is no time to evaluate.
  if (probe.statusCode === undefined || probe.failures.length > 0) {
    return { observed, failures: left }
  }
  return {
    observed,
    failures: left,
    responseTimeMs,
    degraded: isDegraded(responseTimeMs, monitor),
  }
}

function assertionFailures(
  { assertions }: Plan,
  { statusCode, headers, message, phases, closeCode }: Probe,
  signal: AbortSignal,
): Promise<Failure[]> {
  const text = () => (message === undefined ? '' : textOf(message))
  const sources: AssertionSources = {
    STATUS_CODE: { kind: 'value', value: () => statusCode },
    HEADERS: {
      kind: 'value',
      value: (name) => {
        const value = headers?.[name.toLowerCase()]
        return Array.isArray(value) ? value.join(', ') : value
      },
    },
    MESSAGE: { kind: 'text', text },
    JSON_MESSAGE: { kind: 'json', text },
    RESPONSE_TIME: { kind: 'value', value: () => phases.totalMs },
    PING_TIME: { kind: 'value', value: () => phases.pingMs },
    CLOSE_CODE: { kind: 'value', value: () => closeCode },
  }
  return evaluateAssertions(assertions, sources, signal)
}

function observedOf({ shownUrl }: Plan, probe: Probe): Record<string, unknown> {
  const { failures: _, message, headers, ...facts } = probe
  roundPhases(facts.phases)
  return {
    url: shownUrl,
    ...facts,
    ...(headers !== undefined && { response: { headers } }),
    ...(message !== undefined && { message: shownMessage(message) }),
  }
}

const PHASES: Readonly<Record<string, string>> = {
  dnsMs: 'resolve',
  connectMs: 'connect',
  proxyMs: 'proxy',
  tlsMs: 'tls',
  handshakeMs: 'handshake',
  messageMs: 'message',
  pingMs: 'ping',
}

/** The samples of one observation, as `observed` of a WebSocket monitor has it. */
function webSocketSamples(observed: Record<string, unknown>): Sample[] {
  const { phases, family, statusCode = 0, messages = 0, tls } = observed as Partial<Probe>
  const samples: Sample[] = [
    { name: 'probe_websocket_status_code', value: statusCode },
    { name: 'probe_websocket_messages', value: messages },
    { name: 'probe_websocket_ssl', value: tls === undefined ? 0 : 1 },
  ]
  samples.push(...connectionSamples('probe_websocket_duration_seconds', { family, phases }, PHASES))
  return tls === undefined ? samples : [...samples, ...tlsSamples(tls)]
}
