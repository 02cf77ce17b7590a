// Observation of a gRPC check: plain JSON for results and dashboards.
import { LIMITS } from '../../contract/versions.ts'
import type { Family } from '../../network/dial.ts'
import type { HealthState } from './health.ts'
import type { Metadata } from './metadata.ts'
import type { ReflectionVersion } from './reflection.ts'
import type { PeerFacts } from '../../network/tls/facts.ts'

/** Milliseconds. `firstByteMs` and `downloadMs` are those of the call, without reflection. */
export interface Phases {
  dnsMs?: number
  connectMs?: number
  proxyMs?: number
  tlsMs?: number
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

/** The beginning of the JSON, and whether there is more. */
export function excerpt(json: string): { body: string; bodyTruncated: boolean } {
  const max = LIMITS.bodyExcerptBytesMax
  if (json.length * 3 <= max) return { body: json, bodyTruncated: false }
  const bytes = Buffer.from(json.slice(0, max))
  const bodyTruncated = json.length > max || bytes.length > max
  if (!bodyTruncated) return { body: json, bodyTruncated }
  // Remove a character truncated by the limit.
  return { body: bytes.toString('utf8', 0, max).replace(/\uFFFD$/, ''), bodyTruncated }
}
