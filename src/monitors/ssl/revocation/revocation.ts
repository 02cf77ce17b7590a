// Revocation status of a certificate from its stapled OCSP answer, its OCSP responder or its revocation list,
// in this order.
import { SSL_LIMITS } from '../definition.ts'
import { randomBytes } from 'node:crypto'
import type { SslConfig } from '../definition.ts'
import type { Dialler, Family } from '../../../network/dial.ts'
import {
  type OcspAnswer,
  ocspRequest,
  type Problem,
  readOcspResponse,
  type Subject,
} from './ocsp-message.ts'
import { plainFetch } from '../../../network/http/plain-fetch.ts'
import { findRevoked, listProblem, readRevocationList, type RevocationList } from './list.ts'
import { memoryOf } from './memory.ts'
import { TargetFailure } from '../../../network/target-failure.ts'

/** Answer of one source, or why there is none. */
export type SourceAnswer =
  | (OcspAnswer & { url?: string })
  | {
      status: 'good' | 'revoked'
      url: string
      thisUpdate: string
      nextUpdate?: string
      revokedAt?: string
      reason?: string
    }
  | { status: 'unavailable'; why: string; code?: string; url?: string }

/** Revocation status of one certificate, with the answers of all sources. */
export interface Revocation {
  status: 'good' | 'revoked' | 'unknown' | 'unavailable'
  /** Source of the status. */
  source?: 'staple' | 'ocsp' | 'crl'
  /** Why the status is unknown, if no source was asked. */
  why?: string
  revokedAt?: string
  reason?: string
  staple?: SourceAnswer
  ocsp?: SourceAnswer
  crl?: SourceAnswer
}

/** Certificate and sources of a lookup. */
export interface RevocationQuery {
  subject: Subject
  staple: Buffer | undefined
  settings: SslConfig['revocation']
  /** Nothing is fetched for a certificate without a trusted issuer: it could name any address. */
  trusted: boolean
  family: Family
  dial: Dialler
  signal: AbortSignal
}

/** OCSP gets half of the time, so that a list can still be read when the responder does not answer. */
const ASK_MS_MAX = SSL_LIMITS.revocationMsMax / 2
const UNTRUSTED: SourceAnswer = {
  status: 'unavailable',
  why: 'the chain leads to no trusted authority',
}

/** Whether there is any source to ask. */
export function hasRevocationSource({ staple, settings, subject }: RevocationQuery): boolean {
  const { ocspUrls, crlUrls } = subject.certificate
  if (staple !== undefined) return true
  return (settings.ocsp && ocspUrls.length > 0) || (settings.crl && crlUrls.length > 0)
}

/** Asks the sources in order until one has an answer. Rejects with the signal's reason. */
export async function revocationOf(asking: RevocationQuery): Promise<Revocation> {
  const { settings, subject, trusted, staple } = asking
  const { ocspUrls, crlUrls } = subject.certificate
  const found: Revocation = { status: 'unavailable' }
  if (staple !== undefined) {
    const answer = await readOcspResponse(staple, subject, Date.now())
    found.staple = sourceAnswerOf(answer)
    if (isSettled(found, 'staple')) return found
  }
  if (settings.ocsp && ocspUrls.length > 0) {
    found.ocsp = trusted ? await askResponders(asking, ocspUrls) : UNTRUSTED
    if (isSettled(found, 'ocsp')) return found
  }
  if (settings.crl && crlUrls.length > 0) {
    found.crl = trusted ? await readLists(asking, crlUrls) : UNTRUSTED
    isSettled(found, 'crl')
  }
  return found
}

/** Applies the answer of the source; true if it is final. The next source may replace an `unknown`. */
function isSettled(found: Revocation, source: 'staple' | 'ocsp' | 'crl'): boolean {
  const answer = found[source] as SourceAnswer
  if (answer.status === 'unavailable') return false
  found.status = answer.status
  found.source = source
  if (answer.status !== 'revoked') return answer.status === 'good'
  if (answer.revokedAt !== undefined) found.revokedAt = answer.revokedAt
  if (answer.reason !== undefined) found.reason = answer.reason
  return true
}

function sourceAnswerOf(answer: OcspAnswer | Problem, url?: string): SourceAnswer {
  const where = url === undefined ? {} : { url }
  if ('problem' in answer) return { status: 'unavailable', why: answer.problem, ...where }
  return { ...answer, ...where }
}

async function askResponders(
  asking: RevocationQuery,
  urls: readonly string[],
): Promise<SourceAnswer> {
  const memory = memoryOf<SourceAnswer>(asking.dial)
  const { subject, signal } = asking
  const { fingerprint256 } = subject.issuer
  let answer: SourceAnswer | undefined
  const used = urls.slice(0, SOURCES_MAX)
  for (const url of used) {
    const key = `ocsp ${fingerprint256} ${subject.certificate.serialHex} ${url}`
    answer = memory.answer(key, Date.now())
    if (answer === undefined) {
      try {
        answer = await memory.asking.get(key, signal, (shared) =>
          askResponder(asking, url, ASK_MS_MAX / used.length, shared),
        )
      } catch (error) {
        answer = unavailable(error, url)
      }
      memory.cacheAnswer(key, answer, Date.now(), holdsUntil(answer))
    }
    if (answer.status !== 'unavailable') return answer
  }
  return answer as SourceAnswer
}

/** Addresses tried of a certificate; an authority names one or two. */
const SOURCES_MAX = 2

async function askResponder(
  { subject, family, dial }: RevocationQuery,
  url: string,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<SourceAnswer> {
  const nonce = randomBytes(16)
  const response = await plainFetch(
    {
      url,
      body: { bytes: ocspRequest(subject, nonce), type: 'application/ocsp-request' },
      bytesMax: SSL_LIMITS.ocspBytesMax,
      timeoutMs,
      family,
    },
    dial,
    signal,
  )
  return sourceAnswerOf(await readOcspResponse(response, subject, Date.now(), nonce), url)
}

function holdsUntil(answer: SourceAnswer): number | undefined {
  if (answer.status === 'unavailable') return undefined
  // An answer without an end is valid for now; the cache has its own bound.
  return answer.nextUpdate === undefined ? Infinity : Date.parse(answer.nextUpdate)
}

async function readLists(asking: RevocationQuery, urls: readonly string[]): Promise<SourceAnswer> {
  const memory = memoryOf<SourceAnswer>(asking.dial)
  const { subject } = asking
  let answer: SourceAnswer | undefined
  const used = urls.slice(0, SOURCES_MAX)
  for (const url of used) {
    const key = `crl ${subject.issuer.fingerprint256} ${subject.certificate.serialHex} ${url}`
    answer = memory.answer(key, Date.now())
    if (answer === undefined) {
      try {
        answer = await lookUp(asking, url, ASK_MS_MAX / used.length)
      } catch (error) {
        answer = unavailable(error, url)
      }
      memory.cacheAnswer(key, answer, Date.now(), holdsUntil(answer))
    }
    if (answer.status !== 'unavailable') return answer
  }
  return answer as SourceAnswer
}

async function lookUp(
  { subject, family, dial, signal }: RevocationQuery,
  url: string,
  timeoutMs: number,
): Promise<SourceAnswer> {
  const memory = memoryOf(dial)
  const cached = memory.list(url, Date.now())
  const read = (shared: AbortSignal) => readList(url, timeoutMs, family, dial, shared)
  const list = cached ?? (await memory.reading.get(url, signal, read))
  if ('problem' in list) return { status: 'unavailable', why: list.problem, url }
  const problem = await listProblem(list, subject.certificate, subject.issuer, Date.now())
  signal.throwIfAborted()
  if (problem !== undefined) return { status: 'unavailable', why: problem.problem, url }
  // Only after validation: it was fetched over plain HTTP.
  if (cached === undefined) memory.cacheList(url, list, Date.now())
  const entry = await findRevoked(list, subject.certificate, signal)
  if (entry !== undefined && 'problem' in entry) {
    return { status: 'unavailable', why: entry.problem, url }
  }
  // An entry that a delta list removes; complete lists have no such entry.
  const revoked = entry !== undefined && entry.reason !== 'removeFromCRL'
  return {
    status: revoked ? 'revoked' : 'good',
    url,
    thisUpdate: new Date(list.thisUpdate).toISOString(),
    ...(list.nextUpdate === undefined
      ? {}
      : { nextUpdate: new Date(list.nextUpdate).toISOString() }),
    ...entry,
  }
}

async function readList(
  url: string,
  timeoutMs: number,
  family: Family,
  dial: Dialler,
  signal: AbortSignal,
): Promise<RevocationList | Problem> {
  const bytes = await plainFetch(
    { url, bytesMax: SSL_LIMITS.crlBytesMax, timeoutMs, family },
    dial,
    signal,
  )
  return readRevocationList(bytes)
}

/** Turns a fetch error into an answer; rethrows the reason of a cancelled run. */
function unavailable(error: unknown, url: string): SourceAnswer {
  if (!(error instanceof TargetFailure)) throw error
  const { failure } = error
  return { status: 'unavailable', why: failure.message, code: failure.code, url }
}
