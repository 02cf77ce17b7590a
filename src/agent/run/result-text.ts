// Labels of a result for people: the same in the log of an agent and in the table of `vedette check`.
import { counted } from '../../contract/schema/amounts.ts'
import type { Result, Verdict } from '../../contract/result.ts'
import { paint } from '../../process/pretty-line.ts'

const COLOURS = {
  passed: 'green',
  degraded: 'yellow',
  failed: 'red',
  errored: 'magenta',
  cancelled: 'cyan',
  missed: 'cyan',
} as const

/** A verdict, padded to a column and coloured where asked. */
export function verdictLabel(verdict: Verdict, colour: boolean, width = 9): string {
  return paint(colour, COLOURS[verdict], verdict.padEnd(width))
}

/** How long it took, like `7.3 ms` or `0.019 ms`: the response time where there was one. */
export function timeText({ responseTimeMs, durationMs }: Result): string {
  const timeMs = responseTimeMs ?? durationMs
  const decimals = timeMs < 0.1 ? 3 : timeMs < 1 ? 2 : timeMs < 10 ? 1 : 0
  return `${timeMs.toFixed(decimals)} ms`
}

type Observed = Result['observed']

/** The main facts of the observation, by type of monitor, and the number of attempts. */
export function observationLabels({ checkType, observed, attempts }: Result): string[] {
  const labels = LABELS_OF[checkType]?.(observed) ?? []
  if (attempts.length > 1) labels.push(`${attempts.length} attempts`)
  return labels
}

const LABELS_OF: Partial<Record<Result['checkType'], (observed: Observed) => string[]>> = {
  URL: httpLabels,
  API: httpLabels,
  DNS: dnsLabels,
  ICMP: ({ packetLoss }) => (typeof packetLoss === 'number' ? [`${packetLoss} % lost`] : []),
  GRPC: grpcLabels,
  TRACEROUTE: ({ hopCount }) => (typeof hopCount === 'number' ? [counted(hopCount, 'hop')] : []),
  SSL: sslLabels,
}

function httpLabels({ statusCode, hops }: Observed): string[] {
  const labels = typeof statusCode === 'number' ? [`HTTP ${statusCode}`] : []
  const redirects = Array.isArray(hops) ? hops.length - 1 : 0
  return redirects > 0 ? [...labels, counted(redirects, 'redirect')] : labels
}

function dnsLabels({ responseCode, counts }: Observed): string[] {
  if (typeof responseCode !== 'string') return []
  const answers = partOf(counts, 'answers')
  return typeof answers === 'number' ? [responseCode, counted(answers, 'answer')] : [responseCode]
}

/** A status that the server did not send is ours, and the failure says more. */
function grpcLabels({ status, statusOrigin, healthStatus }: Observed): string[] {
  if (typeof healthStatus === 'string') return [healthStatus]
  return typeof status === 'string' && statusOrigin === 'server' ? [status] : []
}

/** The reason for degraded stands nowhere else, as there are no failures. */
function sslLabels({ connection, certificate, securityBaseline, degradedBy }: Observed): string[] {
  const version = partOf(connection, 'tlsVersion')
  const days = partOf(certificate, 'daysUntilExpiry')
  const grade = partOf(securityBaseline, 'grade')
  return [
    ...(typeof version === 'string' ? [version] : []),
    ...(typeof days === 'number' && days >= 0 ? [`${counted(days, 'day')} left`] : []),
    ...(typeof grade === 'string' ? [`grade ${grade}`] : []),
    ...(Array.isArray(degradedBy) ? degradedBy.map((one) => printable(String(one))) : []),
  ]
}

/** What was observed may come from an agent of another version. */
function partOf(whole: unknown, name: string): unknown {
  return typeof whole === 'object' && whole !== null
    ? (whole as Record<string, unknown>)[name]
    : undefined
}

/** One line without control characters: names and messages come from outside. */
export function printable(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replaceAll(/[\u0000-\u001F\u007F-\u009F]+/g, ' ')
}
