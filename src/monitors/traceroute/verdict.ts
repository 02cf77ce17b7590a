// Verdict of a trace: an unreached target fails; thresholds apply to the average round trip.
import { failure, type Failure, type FailureCode } from '../../contract/failure.ts'
import type { TracerouteMonitor, TracerouteCode } from './definition.ts'
import { evaluateAssertions, type AssertionSources } from '../assertions/assertions.ts'
import type { Latency } from '../../network/native/round-trips.ts'
import type { Observation } from '../../contract/observation.ts'
import { isDegraded, tooSlow } from '../probe.ts'
import type { Hop, Refuser, TraceObserved } from './report.ts'

/** Failures that count as a pass with `shouldFail`. */
const EXPECTED_BY_SHOULD_FAIL: ReadonlySet<string> = new Set<FailureCode | TracerouteCode>([
  'DESTINATION_UNREACHED',
  'CONNECT_UNREACHABLE',
  'TIMEOUT_TRACE',
])

/** Evaluates the trace for the monitor; `failed` is set when the agent's own system refused to send. Never rejects. */
export async function evaluateTrace(
  monitor: TracerouteMonitor,
  observed: TraceObserved,
  { refuser, failed }: { refuser?: Refuser | undefined; failed?: Failure | undefined },
  signal: AbortSignal,
): Promise<Observation> {
  const ending = failed ?? endFailure(monitor, observed, refuser)
  const failures = [
    ...(ending === undefined ? [] : [ending]),
    ...(await failedAssertions(monitor, observed, signal)),
  ].filter(({ code }) => !monitor.shouldFail || !EXPECTED_BY_SHOULD_FAIL.has(code))
  const observation: Observation = { observed: { ...observed }, failures }
  const responseTimeMs = observed.responseTime?.avg
  if (responseTimeMs === undefined) return observation
  failures.push(...tooSlow(responseTimeMs, monitor))
  return { ...observation, responseTimeMs, degraded: isDegraded(responseTimeMs, monitor) }
}

/** Evaluates the assertions; those on round trips only when the target has answered. */
async function failedAssertions(
  { request }: TracerouteMonitor,
  observed: TraceObserved,
  signal: AbortSignal,
): Promise<Failure[]> {
  if (observed.end === 'not-sent') return []
  const { responseTime } = observed
  const assertions = request.assertions.filter(
    ({ source }) => source !== 'RESPONSE_TIME' || responseTime !== undefined,
  )
  const sources: AssertionSources = {
    RESPONSE_TIME: {
      kind: 'value',
      value: (name) => responseTime?.[name as keyof Latency],
    },
    HOP_COUNT: { kind: 'value', value: () => observed.hopCount },
    PACKET_LOSS: { kind: 'value', value: () => observed.targetLossPercent },
  }
  return evaluateAssertions(assertions, sources, signal)
}

/** Failure of an unreached target; undefined for a reached one. */
function endFailure(
  monitor: TracerouteMonitor,
  observed: TraceObserved,
  refuser: Refuser | undefined,
): Failure | undefined {
  const { address, end, hops, reached } = observed
  if (reached) return undefined
  const target = targetOf(monitor, observed)
  const last = hops.findLast((hop) => hop.address !== null)
  const details: Record<string, unknown> = { address, end }
  if (last !== undefined) details['lastHop'] = { hop: last.hop, address: last.address }
  if (refuser !== undefined) {
    const { from, name, mark } = refuser
    details['refusal'] = { from, refusal: { name, mark } }
  }
  const answered = last === undefined ? 'no hop answered' : `hop ${placeOf(last)} answered last`
  if (end === 'timeout') {
    const { timeout } = monitor.request
    const message = `the trace to ${target} did not end within ${timeout} s; ${answered}`
    return failure<TracerouteCode>('TIMEOUT_TRACE', message, details)
  }
  const why =
    refuser === undefined
      ? `${unansweredReason(monitor, observed)}; ${answered}`
      : refusalReason(observed, refuser)
  return failure<TracerouteCode>(
    'DESTINATION_UNREACHED',
    `${target} was not reached: ${why}`,
    details,
  )
}

function placeOf({ hop, address }: Hop): string {
  return `${hop} (${address})`
}

/** Names the refusing host and its ICMP error. */
function refusalReason({ address, hops }: TraceObserved, { from, name, mark }: Refuser): string {
  const known = hops.find((hop) => hop.address === from)
  const before = hops.findLast((hop) => hop.address !== null)
  const behind = before === undefined ? from : `${from}, behind hop ${placeOf(before)},`
  const at = known === undefined ? behind : `hop ${placeOf(known)}`
  const who = from === address ? 'the target itself' : at
  return `${who} says “${name}” (${mark})`
}

/** Names why the trace ended without a refusal. */
function unansweredReason({ request }: TracerouteMonitor, { end, hops }: TraceObserved): string {
  if (end === 'circle') return 'routing loop'
  if (end === 'max-hops') return `it is not among the first ${request.maxHops} hops (maxHops)`
  const unanswered = hops.length - 1 - hops.findLastIndex(({ address }) => address !== null)
  return `${unanswered} hops in a row are silent (maxUnknownHops)`
}

function targetOf({ request }: TracerouteMonitor, { address, port }: TraceObserved): string {
  const host = request.url === address ? address : `${request.url} (${address})`
  return port === undefined ? host : `${host}, ${request.protocol} port ${port},`
}
