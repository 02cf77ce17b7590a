// Revocation status of a certificate from its stapled OCSP answer, its OCSP responder or its revocation list,
// in this order.
import { SSL_LIMITS } from '../definition.ts'
import { randomBytes } from 'node:crypto'
import type { SslConfig } from '../definition.ts'
import type { Dialler, Family } from '../../../network/dial.ts'
import { type OcspAnswer, ocspRequest, readOcspResponse, type Subject } from './ocsp-message.ts'
import { plainFetch } from '../../../network/http/plain-fetch.ts'
import {
  checkScope,
  findRevoked,
  readRevocationList,
  type RevocationList,
  verifyList,
} from './list.ts'
import { SharedResults } from './shared-results.ts'
import { Unusable } from './signed-bytes.ts'
import { DerFault } from '../../../network/tls/der.ts'
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
  /** Whether the chain leads to a trusted authority. */
  trusted: boolean
  family: Family
  dial: Dialler
  signal: AbortSignal
}

/** OCSP gets half of the time, so that a list can still be read when the responder does not answer. */
const ASK_MS_MAX = SSL_LIMITS.revocationMsMax / 2
/** Nothing is fetched for a certificate without a trusted issuer: it could name any address. */
const UNTRUSTED: SourceAnswer = {
  status: 'unavailable',
  why: 'the chain leads to no trusted authority',
}

/** The answer about most certificates of internal networks, which name no source. */
export const NO_SOURCE: Revocation & { why: string } = {
  status: 'unavailable',
  why: 'the certificate names no revocation source that may be asked',
}

/** Asks the sources in order until one has an answer. Rejects with the signal's reason. */
export async function revocationOf(asking: RevocationQuery): Promise<Revocation> {
  const { settings, subject, staple } = asking
  const ocspUrls = settings.ocsp ? subject.certificate.ocspUrls : []
  const crlUrls = settings.crl ? subject.certificate.crlUrls : []
  if (staple === undefined && ocspUrls.length + crlUrls.length === 0) return NO_SOURCE
  const found: Revocation = { status: 'unavailable' }
  if (staple !== undefined) {
    found.staple = await readOcspResponse(staple, subject, Date.now()).catch(unavailable)
    if (isSettled(found, 'staple')) return found
  }
  if (ocspUrls.length > 0) {
    found.ocsp = await askInOrder(asking, ocspUrls, askResponder)
    if (isSettled(found, 'ocsp')) return found
  }
  if (crlUrls.length > 0) {
    found.crl = await askInOrder(asking, crlUrls, lookUp)
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

/** Addresses tried of a certificate; an authority names one or two. */
const SOURCES_MAX = 2
/** Cached answers, some hundred bytes each. */
const ANSWERS_MAX = 5000
/** Time after which a failed source is asked again. */
const PROBLEM_AGE_MS_MAX = 60_000

interface Caches {
  answers: SharedResults<SourceAnswer>
  lists: SharedResults<RevocationList>
}

/** By dialler: another egress may lead to other answers. */
const caches = new WeakMap<Dialler, Caches>()

function cachesOf(dial: Dialler): Caches {
  const known = caches.get(dial)
  if (known !== undefined) return known
  const made: Caches = {
    answers: new SharedResults(ANSWERS_MAX, (answer) => ({ until: endOf(answer) })),
    lists: new SharedResults(SSL_LIMITS.crlsBytesMax, ({ bytes, nextUpdate = Infinity }) => ({
      until: Math.min(nextUpdate, Date.now() + SSL_LIMITS.revocationAgeMsMax),
      weight: bytes.length,
    })),
  }
  caches.set(dial, made)
  return made
}

/** When the source is to be asked again. Milliseconds since 1970. */
function endOf(answer: SourceAnswer): number {
  if (answer.status === 'unavailable') return Date.now() + PROBLEM_AGE_MS_MAX
  const end = answer.nextUpdate === undefined ? Infinity : Date.parse(answer.nextUpdate)
  return Math.min(end, Date.now() + SSL_LIMITS.revocationAgeMsMax)
}

/** Asks one source. Rejects with what `unavailable` takes, or the signal's reason. */
type Ask = (
  asking: RevocationQuery,
  fetched: { url: string; timeoutMs: number; family: Family },
  signal: AbortSignal,
) => Promise<SourceAnswer>

/** The first answer of the sources at the addresses, else the last problem. */
async function askInOrder(
  asking: RevocationQuery,
  urls: readonly string[],
  ask: Ask,
): Promise<SourceAnswer> {
  if (!asking.trusted) return UNTRUSTED
  const { subject, dial, signal, family } = asking
  const used = urls.slice(0, SOURCES_MAX)
  const timeoutMs = ASK_MS_MAX / used.length
  let answer = UNTRUSTED
  for (const url of used) {
    const key = `${subject.issuer.fingerprint256} ${subject.certificate.serialHex} ${url}`
    answer = await cachesOf(dial).answers.get(key, signal, (shared) =>
      ask(asking, { url, timeoutMs, family }, shared).catch((error: unknown) => ({
        ...unavailable(error),
        url,
      })),
    )
    if (answer.status !== 'unavailable') break
  }
  return answer
}

const askResponder: Ask = async ({ subject, dial }, fetched, signal) => {
  const nonce = randomBytes(16)
  const body = { bytes: ocspRequest(subject, nonce), type: 'application/ocsp-request' }
  const order = { ...fetched, body, bytesMax: SSL_LIMITS.ocspBytesMax }
  const response = await plainFetch(order, dial, signal)
  const answer = await readOcspResponse(response, subject, Date.now(), nonce)
  return { ...answer, url: fetched.url }
}

const lookUp: Ask = async ({ subject, dial }, fetched, signal) => {
  const { url } = fetched
  const key = `${subject.issuer.fingerprint256} ${url}`
  const list = await cachesOf(dial).lists.get(key, signal, async (shared) => {
    const order = { ...fetched, bytesMax: SSL_LIMITS.crlBytesMax }
    const read = readRevocationList(await plainFetch(order, dial, shared))
    // Before it is cached: it was fetched over plain HTTP.
    await verifyList(read, subject, Date.now())
    return read
  })
  checkScope(list, subject.certificate)
  const entry = await findRevoked(list, subject.certificate, signal)
  // An entry that a delta list removes; complete lists have no such entry.
  const revoked = entry !== undefined && entry.reason !== 'removeFromCRL'
  const { thisUpdate, nextUpdate } = list
  return {
    status: revoked ? 'revoked' : 'good',
    url,
    thisUpdate: new Date(thisUpdate).toISOString(),
    ...(nextUpdate !== undefined && { nextUpdate: new Date(nextUpdate).toISOString() }),
    ...entry,
  }
}

/** Turns the error of a source into an answer; rethrows the reason of a cancelled run. */
function unavailable(error: unknown): SourceAnswer & { status: 'unavailable' } {
  if (error instanceof TargetFailure) {
    return { status: 'unavailable', why: error.failure.message, code: error.failure.code }
  }
  if (!(error instanceof Unusable || error instanceof DerFault)) throw error
  return { status: 'unavailable', why: error.message }
}
