// Observation of a gRPC check: plain JSON for results and dashboards.
import { LIMITS } from '../../contract/versions.ts'
import type { Family } from '../../network/dial.ts'
import type { HealthState } from './answer.ts'
import type { IncomingHttpHeaders } from 'node:http2'
import type { ReflectionVersion } from './reflection.ts'
import type { PeerFacts } from '../../network/tls/facts.ts'
import { GRPC_HEALTH_STATES } from './definition.ts'
import type { Sample } from '../../contract/observation.ts'
import { connectionSamples, tlsSamples } from '../metrics.ts'
import type { ConnectionPhases } from '../probe.ts'

/** Milliseconds. `firstByteMs` and `downloadMs` are those of the call, without reflection. */
export interface Phases extends ConnectionPhases {
  /** Duration of reflection; not part of the response time. */
  reflectionMs?: number
  /** From sending the request until the first headers of the answer. */
  firstByteMs?: number
  /** From then until the status. */
  downloadMs?: number
  totalMs: number
}

/** The observation of a gRPC monitor. */
export interface GrpcObserved {
  port: number
  mode: 'BEHAVIOR' | 'HEALTH'
  /** `package.Service/Method`; not with HEALTH. */
  method?: string
  /** With HEALTH: the requested service, empty for the whole server. */
  service?: string
  address?: string
  family?: Family
  phases: Phases
  tls?: PeerFacts
  reflection?: { version: ReflectionVersion; files: number; bytes: number }
  httpStatus?: number
  /** Number and name of the status. */
  statusCode?: number
  status?: string
  /** Message from the server. */
  statusMessage?: string
  /** `client`: derived, since the server sent no status. */
  statusOrigin?: 'server' | 'client'
  healthStatus?: HealthState
  response?: {
    metadata: Metadata
    trailers: Metadata
    messages: number
    /** Bytes of the messages as received, with their heads. */
    bytes: number
    encoding?: string
    /** The beginning of the answer as JSON; of a stream, the list of its messages. */
    body?: string
    bodyTruncated?: boolean
  }
}

/** Metadata of an answer: a list if a name occurs more than once. Values of names that end in -bin are base64. */
type Metadata = Record<string, string | string[]>

/** Headers that belong to the call itself rather than to its metadata. */
const OF_THE_CALL: ReadonlySet<string> = new Set([
  ':status',
  'grpc-status',
  'grpc-message',
  'grpc-encoding',
  'grpc-accept-encoding',
  'accept-encoding',
])

/** Metadata of a section of headers or trailers, without the protocol's own fields. */
export function metadataOf(headers: IncomingHttpHeaders = {}): Metadata {
  const metadata = Object.create(null) as Metadata
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && !OF_THE_CALL.has(name)) metadata[name] = value
  }
  return metadata
}

/** The beginning of the JSON, and whether there is more. */
export function excerpt(json: string): { body: string; bodyTruncated: boolean } {
  const max = LIMITS.bodyExcerptBytesMax
  const bytes = Buffer.from(json.slice(0, max))
  if (json.length <= max && bytes.length <= max) return { body: json, bodyTruncated: false }
  // Remove a character truncated by the limit.
  return { body: bytes.toString('utf8', 0, max).replace(/\uFFFD$/, ''), bodyTruncated: true }
}

/** The samples of one observation. */
export function grpcSamples(observed: Partial<GrpcObserved>): Sample[] {
  const { family, tls, statusCode, healthStatus } = observed
  if (observed.phases === undefined) return []
  const { dnsMs = 0, proxyMs = 0, tlsMs = 0, reflectionMs = 0, ...times } = observed.phases
  const { firstByteMs = 0, downloadMs = 0 } = times
  const connectMs = (times.connectMs ?? 0) + proxyMs
  // The exporter's only phase after `resolve`.
  const checkMs = connectMs + tlsMs + firstByteMs + downloadMs
  const phases = { dnsMs, connectMs, tlsMs, reflectionMs, firstByteMs, downloadMs, checkMs }
  const samples: Sample[] = [
    { name: 'probe_grpc_ssl', value: tls === undefined ? 0 : 1 },
    ...connectionSamples({ family, phases }, 'probe_grpc_duration_seconds'),
    ...(tls === undefined ? [] : tlsSamples(tls)),
  ]
  if (statusCode !== undefined) samples.push({ name: 'probe_grpc_status_code', value: statusCode })
  if (observed.mode !== 'HEALTH') return samples
  for (const state of GRPC_HEALTH_STATES) {
    samples.push({
      name: 'probe_grpc_healthcheck_response',
      value: state === healthStatus ? 1 : 0,
      labels: { serving_status: state },
    })
  }
  return samples
}
