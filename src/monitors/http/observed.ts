// Observation of an HTTP check: plain JSON for results and dashboards, and its metrics.
import { roundPhases } from '../../contract/schema/duration.ts'
import type { Sample } from '../../contract/observation.ts'
import type { IncomingHttpHeaders } from 'node:http'
import { LIMITS } from '../../contract/versions.ts'
import type { Family } from '../../network/dial.ts'
import type { ResponseHead } from '../../network/http/exchange.ts'
import type { Hop, HttpPlan, Phases, Trip } from './trip.ts'
import type { PeerFacts } from '../../network/tls/facts.ts'
import { connectionSamples, tlsSamples } from '../metrics.ts'

/** The observation of a URL or API monitor. Milliseconds to the microsecond. */
export interface HttpObserved {
  url: string
  method: string
  /** Of the last hop. */
  address?: string
  family?: Family
  statusCode?: number
  /** Absent from HTTP/2. */
  statusMessage?: string
  /** `1.0`, `1.1` or `2`. */
  httpVersion?: string
  /** The sums over all hops, and the time from start to end. */
  phases: Phases
  redirects: number
  hops: Hop[]
  tls?: PeerFacts
  response?: {
    headers: IncomingHttpHeaders
    /** Value of Content-Length, if present. */
    contentLength?: number
    /** Body bytes as received. */
    bytes: number
    unpackedBytes: number
    encodings?: string[]
    /** The beginning of a text-like body. */
    body?: string
    bodyTruncated?: boolean
  }
}

/** Builds the observation. */
export function observedOf({ first }: HttpPlan, trip: Trip, showBody: boolean): HttpObserved {
  const { hops, answer, peer } = trip
  const last = hops.at(-1) as Hop
  const phases = phasesOf(trip)
  roundPhases(phases)
  for (const hop of hops) roundPhases(hop.phases)
  const observed: HttpObserved = {
    url: first.shownUrl,
    method: first.method,
    phases,
    redirects: hops.length - 1,
    hops,
  }
  if (last.address !== undefined) observed.address = last.address
  if (last.family !== undefined) observed.family = last.family
  if (peer !== undefined) observed.tls = peer
  const { response } = answer
  if (response === undefined) return observed
  observed.statusCode = response.statusCode as number
  if (response.statusMessage) observed.statusMessage = response.statusMessage
  observed.httpVersion = response.httpVersion
  observed.response = responseOf(response, trip, showBody)
  return observed
}

function responseOf(response: ResponseHead, trip: Trip, showBody: boolean) {
  const { body } = trip.answer
  const { headers } = response
  const shown: NonNullable<HttpObserved['response']> = {
    headers,
    bytes: body.bytes,
    unpackedBytes: body.unpackedBytes,
  }
  const length = headers['content-length']
  if (length !== undefined) shown.contentLength = Number(length)
  if (body.encodings.length > 0) shown.encodings = body.encodings
  const { changedText } = trip.answer
  const hasText =
    (changedText ?? '') !== '' || (changedText === undefined && body.bufferedBytes > 0)
  if (showBody && hasText && isText(headers['content-type'])) {
    const whole = changedText === undefined ? body.unpackedBytes : changedText.length
    shown.bodyTruncated = whole > LIMITS.bodyExcerptBytesMax
    const text = bodyText(trip, LIMITS.bodyExcerptBytesMax)
    // Remove a character truncated by the limit.
    shown.body = shown.bodyTruncated ? text.replace(/\uFFFD$/, '') : text
  }
  return shown
}

/** The sums of all hops' phases, and the time from start to end. */
export function phasesOf({ hops, totalMs }: Trip): Phases {
  const phases: Phases = { totalMs: 0 }
  for (const hop of hops) {
    for (const [phase, ms] of Object.entries(hop.phases) as [keyof Phases, number][]) {
      phases[phase] = (phases[phase] ?? 0) + ms
    }
  }
  return { ...phases, totalMs }
}

const TEXT =
  /^(text\/|application\/([\w.-]+\+)?(json|xml|javascript|ecmascript|yaml|x-yaml|graphql|problem|toml|sql|x-www-form-urlencoded|x-ndjson)\b|image\/svg)/i

/** Whether a body of this type is text; one without a type usually is. */
function isText(contentType: string | undefined): boolean {
  return contentType === undefined || TEXT.test(contentType)
}

/** The buffered body, or its beginning, as text in the charset that it names, UTF-8 otherwise. */
export function bodyText(trip: Trip, bytesMax = Infinity): string {
  const { body, changedText } = trip.answer
  if (changedText !== undefined) return changedText.slice(0, bytesMax)
  const { chunks } = body
  const whole = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)
  const bytes = whole.length > bytesMax ? whole.subarray(0, bytesMax) : whole
  const contentType = trip.answer.response?.headers['content-type'] ?? ''
  const charset = /charset="?([\w-]+)/i.exec(contentType)?.[1]?.toLowerCase() ?? 'utf-8'
  if (charset !== 'utf-8' && charset !== 'utf8' && charset !== 'us-ascii') {
    try {
      return new TextDecoder(charset).decode(bytes)
    } catch {
      // Unknown charset: decode as UTF-8.
    }
  }
  const text = bytes.toString()
  return text.startsWith('\uFEFF') ? text.slice(1) : text
}

/** Metrics of one observation under blackbox_exporter's names; none for a run without a request. */
export function httpSamples(facts: Record<string, unknown>): Sample[] {
  const observed = facts as unknown as Partial<HttpObserved>
  const { hops, phases, statusCode, redirects = 0, response, tls } = observed
  if (hops === undefined || phases === undefined) return []
  const isSecure = hops.at(-1)?.url.startsWith('https:') === true
  const { dnsMs = 0, connectMs = 0, proxyMs = 0, tlsMs = 0 } = phases
  const { sendMs = 0, firstByteMs = 0, downloadMs = 0 } = phases
  const times = {
    dnsMs,
    connectMs: connectMs + proxyMs,
    tlsMs,
    firstByteMs: sendMs + firstByteMs,
    downloadMs,
  }
  const connection = { family: observed.family, phases: times }
  const samples: Sample[] = [
    { name: 'probe_http_status_code', value: statusCode ?? 0 },
    { name: 'probe_http_redirects', value: redirects },
    { name: 'probe_http_ssl', value: tls !== undefined && isSecure ? 1 : 0 },
    ...connectionSamples(connection, 'probe_http_duration_seconds'),
  ]
  if (observed.httpVersion !== undefined) {
    samples.push({ name: 'probe_http_version', value: Number(observed.httpVersion) })
  }
  if (response !== undefined) {
    // The exporter says -1 where the length is not known.
    samples.push(
      { name: 'probe_http_content_length', value: response.contentLength ?? -1 },
      { name: 'probe_http_uncompressed_body_length', value: response.unpackedBytes },
    )
  }
  if (tls !== undefined) samples.push(...tlsSamples(tls))
  return samples
}
