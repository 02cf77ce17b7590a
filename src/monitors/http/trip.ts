// Trip of one HTTP check: from its URL over all redirects to the final answer, with phases and target of each
// hop.
import type { Failure } from '../../contract/failure.ts'
import type { ApiMonitor, UrlMonitor } from '../../contract/http-monitor.ts'
import { LIMITS } from '../../contract/versions.ts'
import type { Family, Progress } from '../../network/dial.ts'
import { emptyBody, releaseBody } from '../../network/http/body.ts'
import type { Answer, ResponseHead } from '../../network/http/exchange.ts'
import { exchangeBy } from '../../network/http/http2-exchange.ts'
import { HTTP1_ALPN, outgoingOf, type HttpTarget } from '../../network/http/target.ts'
import type { Context } from '../monitor.ts'
import { type ConnectionFacts, type ConnectionPhases, type Probed, reach } from '../probe.ts'
import { Cookies, isRedirect, locationOf, redirectTarget } from '../../network/http/redirects.ts'
import { failureOf, isFailure, TargetFailure, targetFailure } from '../../network/target-failure.ts'
import type { PeerFacts } from '../../network/tls/facts.ts'

/** Milliseconds; incomplete phases are left out. */
export interface Phases extends ConnectionPhases {
  /** Sending the request; only where it has a body. */
  sendMs?: number
  firstByteMs?: number
  downloadMs?: number
  /** The sum of the phases; where the request failed, the time until then. */
  totalMs: number
}

/** One request of a trip. */
export interface Hop {
  url: string
  method: string
  /** The address that was dialled; the proxy's where there is one. */
  address?: string
  family?: Family
  statusCode?: number
  location?: string
  /** OpenSSL's reason when the certificate does not verify. */
  tlsError?: string
  /** The redirect led from https to http. */
  downgraded?: true
  phases: Phases
}

/** Prepared form of a definition. */
export interface HttpPlan {
  monitor: UrlMonitor | ApiMonitor
  /** The first request. */
  first: HttpTarget
  /** Bytes of the last body to buffer. */
  bufferBytes: number
  /** Whether passed checks also show the beginning of the body. */
  showBody: boolean
}

/** Facts of the request and its response. */
export interface Trip {
  hops: Hop[]
  /** Answer of the last hop; without `response` if none was received. */
  answer: Answer
  /** Headers and trailers of all answers, as they came: names and values in turn. */
  received: string[]
  /** URLs of the headers `Location` as they came: with credentials, which are sent as Basic authentication. */
  locations?: string[]
  /** TLS of the last hop with TLS. */
  peer?: PeerFacts
  /** Failure that ended the trip early; undefined after a complete last answer. */
  failed?: Failure
  totalMs: number
}

/**
 * Makes the trip. Faults of targets do not reject; rejects with the signal's reason when the run is
 * cancelled. `address` holds the first hop's origin to one of its addresses. The body of the answer is the
 * caller's to release.
 */
export async function travel(plan: HttpPlan, context: Context, address?: string): Promise<Trip> {
  const trip: Trip = { hops: [], answer: { body: emptyBody() }, received: [], totalMs: 0 }
  const progress: Progress = { phase: 'dns' }
  const startedAt = performance.now()
  const cookies = new Cookies()
  try {
    let target: HttpTarget | undefined = plan.first
    while (target !== undefined) {
      const pinned = target.url.origin === plan.first.url.origin ? address : undefined
      const step = { plan, trip, target, cookies, address: pinned }
      await goHop(step, context, progress)
      target = await following(step)
    }
  } catch (error) {
    if (!isFailure(error)) releaseBody(trip.answer.body)
    trip.failed = located(failureOf(error, progress), trip)
  }
  // A complete trip counts only the time of target and network, without our own work between the phases.
  trip.totalMs =
    trip.failed === undefined
      ? trip.hops.reduce((sum, { phases }) => sum + phases.totalMs, 0)
      : performance.now() - startedAt
  return trip
}

/** A trip that failed before its first connection. */
export function notBegun({ first }: HttpPlan, { phases, failures: [failed] }: Probed): Trip {
  const hop: Hop = { url: first.shownUrl, method: first.method, phases }
  const answer = { body: emptyBody() }
  const trip: Trip = { hops: [hop], answer, received: [], totalMs: phases.totalMs }
  trip.failed = located(failed as Failure, trip)
  return trip
}

interface Step {
  plan: HttpPlan
  trip: Trip
  target: HttpTarget
  cookies: Cookies
  address: string | undefined
}

async function goHop(step: Step, context: Context, progress: Progress): Promise<void> {
  const { trip, target } = step
  const startedAt = performance.now()
  const hop: Hop = { url: target.shownUrl, method: target.method, phases: { totalMs: 0 } }
  const before = trip.hops.at(-1)
  if (before?.url.startsWith('https:') === true && !target.secure) hop.downgraded = true
  trip.hops.push(hop)
  const facts: ConnectionFacts = { phases: hop.phases }
  try {
    try {
      await ask(step, context, progress, facts, target.alpn)
    } catch (error) {
      if (!requiresHttp1(error)) throw error
      // The phases are those of the connection that answers.
      await ask(step, context, progress, facts, HTTP1_ALPN)
    }
  } finally {
    noteFacts(trip, hop, facts)
    const { response, interim = [], sendMs, firstByteMs, downloadMs } = trip.answer
    const { rawHeaders = [], rawTrailers = [] } = response ?? {}
    trip.received = [...trip.received, ...interim, ...rawHeaders, ...rawTrailers]
    const location = response === undefined ? null : locationOf(target, response)
    if (location !== null) trip.locations = [...(trip.locations ?? []), location.href]
    if (response?.statusCode !== undefined) hop.statusCode = response.statusCode
    if (sendMs !== undefined) hop.phases.sendMs = sendMs
    if (firstByteMs !== undefined) hop.phases.firstByteMs = firstByteMs
    if (downloadMs !== undefined) hop.phases.downloadMs = downloadMs
    const whole = downloadMs !== undefined
    hop.phases.totalMs = whole ? sumOf(hop.phases) : performance.now() - startedAt
  }
}

/** Makes the request on a connection of its own, in the protocol that the server selects. */
async function ask(
  { plan, trip, target, cookies, address }: Step,
  context: Context,
  progress: Progress,
  facts: ConnectionFacts,
  alpn: string[],
): Promise<void> {
  trip.answer = { body: emptyBody() }
  const { answer } = trip
  const { host, port, secure } = target
  const { ipFamily: family, skipSSL, tls: settings, followRedirects } = plan.monitor.request
  const tls = secure ? { settings, skipSSL, alpn } : undefined
  const endpoint = { host, port, family, address, forward: !secure }
  const { socket, where, forward } = await reach(endpoint, tls, context, progress, facts)
  const options = {
    where,
    bufferBytes: plan.bufferBytes,
    isEnough: (response: ResponseHead) =>
      followRedirects && isRedirect(response.statusCode as number),
  }
  const outgoing = outgoingOf(target, forward, cookies.headerFor(target.url.href))
  const parts = { socket, outgoing, answer, options, progress, signal: context.signal }
  await exchangeBy(secure ? facts.tls?.alpn : undefined)(parts)
  if (forward !== undefined && answer.response?.statusCode === 407) {
    throw targetFailure('PROXY_AUTHENTICATION', 'the proxy rejected the credentials (407)')
  }
}

/** The server refused the request over HTTP/2, unprocessed (RFC 9113, 6.8 and 7): it may need TLS to be renegotiated. */
function requiresHttp1(error: unknown): boolean {
  if (!(error instanceof TargetFailure)) return false
  const { code, details } = error.failure
  if (details?.['errorCode'] !== 'HTTP_1_1_REQUIRED') return false
  return code === 'HTTP2_STREAM_RESET' || (code === 'HTTP2_GOAWAY' && details['lastStreamId'] === 0)
}

function sumOf(phases: Phases): number {
  return Object.values(phases).reduce((sum, ms) => sum + ms, -phases.totalMs)
}

function noteFacts(trip: Trip, hop: Hop, { address, family, tls }: ConnectionFacts): void {
  if (address !== undefined) hop.address = address
  if (family !== undefined) hop.family = family
  if (tls === undefined) return
  trip.peer = tls
  if (tls.error !== undefined) hop.tlsError = tls.error
}

/** The next target, or undefined if the last answer is the final one. */
async function following({ plan, trip, target, cookies }: Step): Promise<HttpTarget | undefined> {
  const { response } = trip.answer
  if (!plan.monitor.request.followRedirects || response === undefined) return undefined
  if (!isRedirect(response.statusCode as number)) return undefined
  const next = redirectTarget(target, response)
  const hop = trip.hops.at(-1) as Hop
  hop.location = next.shownUrl
  if (trip.hops.length > LIMITS.redirectsMax) {
    const message = `more than ${LIMITS.redirectsMax} redirects, the last one to ${next.shownUrl}`
    throw targetFailure('HTTP_REDIRECT_LIMIT', message, { redirectsMax: LIMITS.redirectsMax })
  }
  const setCookie = response.headers['set-cookie']
  if (setCookie !== undefined) await cookies.store(setCookie, target.url.href)
  return next
}

function located(failed: Failure, trip: Trip): Failure {
  const { url } = trip.hops.at(-1) as Hop
  const hop = trip.hops.length - 1
  return { ...failed, details: { ...failed.details, url, hop } }
}
