// Whether a certificate is revoked: by the OCSP answer that the server staples, the responder that the
// certificate names, or its revocation list, in this order. Whoever cannot be asked says nothing.
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

/** What one source said, or why it said nothing. */
export type Word =
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

/** All that was learnt about one certificate. */
export interface Revocation {
  status: 'good' | 'revoked' | 'unknown' | 'unavailable'
  /** Whose word the status is. */
  source?: 'staple' | 'ocsp' | 'crl'
  /** Why nothing is known, where nobody was asked at all. */
  why?: string
  revokedAt?: string
  reason?: string
  staple?: Word
  ocsp?: Word
  crl?: Word
}

/** Whom to ask, and how. */
export interface Asking {
  subject: Subject
  staple: Buffer | undefined
  settings: SslConfig['revocation']
  /** Nothing is fetched for a certificate whose issuer nobody trusts: it could name any address at all. */
  trusted: boolean
  family: Family
  dial: Dialler
  signal: AbortSignal
}

/** OCSP gets half of the time, so that a list can still be read when the responder is silent. */
const ASK_MS_MAX = SSL_LIMITS.revocationMsMax / 2
const UNTRUSTED: Word = { status: 'unavailable', why: 'the chain leads to no trusted authority' }

/** Whether there is anybody to ask at all. */
export function isAnybodyAsked({ staple, settings, subject }: Asking): boolean {
  const { ocspUrls, crlUrls } = subject.certificate
  if (staple !== undefined) return true
  return (settings.ocsp && ocspUrls.length > 0) || (settings.crl && crlUrls.length > 0)
}

/** Asks one after the other until one knows. Rejects with the signal's reason. */
export async function revocationOf(asking: Asking): Promise<Revocation> {
  const { settings, subject, trusted, staple } = asking
  const { ocspUrls, crlUrls } = subject.certificate
  const found: Revocation = { status: 'unavailable' }
  if (staple !== undefined) {
    const word = await readOcspResponse(staple, subject, Date.now())
    found.staple = wordOf(word)
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

/** Takes over what the source says; an `unknown` may still be bettered by the next one. */
function isSettled(found: Revocation, source: 'staple' | 'ocsp' | 'crl'): boolean {
  const word = found[source] as Word
  if (word.status === 'unavailable') return false
  found.status = word.status
  found.source = source
  if (word.status !== 'revoked') return word.status === 'good'
  if (word.revokedAt !== undefined) found.revokedAt = word.revokedAt
  if (word.reason !== undefined) found.reason = word.reason
  return true
}

function wordOf(answer: OcspAnswer | Problem, url?: string): Word {
  const where = url === undefined ? {} : { url }
  if ('problem' in answer) return { status: 'unavailable', why: answer.problem, ...where }
  return { ...answer, ...where }
}

async function askResponders(asking: Asking, urls: readonly string[]): Promise<Word> {
  const memory = memoryOf<Word>(asking.dial)
  const { subject, signal } = asking
  const { fingerprint256 } = subject.issuer
  let word: Word | undefined
  const used = urls.slice(0, SOURCES_MAX)
  for (const url of used) {
    const key = `ocsp ${fingerprint256} ${subject.certificate.serialHex} ${url}`
    word = memory.answer(key, Date.now())
    if (word === undefined) {
      try {
        word = await memory.asking.get(key, signal, (shared) =>
          askResponder(asking, url, ASK_MS_MAX / used.length, shared),
        )
      } catch (error) {
        word = unavailable(error, url)
      }
      memory.keepAnswer(key, word, Date.now(), holdsUntil(word))
    }
    if (word.status !== 'unavailable') return word
  }
  return word as Word
}

/** Of several addresses no more are tried; an authority names one or two. */
const SOURCES_MAX = 2

async function askResponder(
  { subject, family, dial }: Asking,
  url: string,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Word> {
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
  return wordOf(await readOcspResponse(response, subject, Date.now(), nonce), url)
}

function holdsUntil(word: Word): number | undefined {
  if (word.status === 'unavailable') return undefined
  // An answer without an end holds for now; the memory's own bound is what counts.
  return word.nextUpdate === undefined ? Infinity : Date.parse(word.nextUpdate)
}

async function readLists(asking: Asking, urls: readonly string[]): Promise<Word> {
  const memory = memoryOf<Word>(asking.dial)
  const { subject } = asking
  let word: Word | undefined
  const used = urls.slice(0, SOURCES_MAX)
  for (const url of used) {
    const key = `crl ${subject.issuer.fingerprint256} ${subject.certificate.serialHex} ${url}`
    word = memory.answer(key, Date.now())
    if (word === undefined) {
      try {
        word = await lookUp(asking, url, ASK_MS_MAX / used.length)
      } catch (error) {
        word = unavailable(error, url)
      }
      memory.keepAnswer(key, word, Date.now(), holdsUntil(word))
    }
    if (word.status !== 'unavailable') return word
  }
  return word as Word
}

async function lookUp(
  { subject, family, dial, signal }: Asking,
  url: string,
  timeoutMs: number,
): Promise<Word> {
  const memory = memoryOf(dial)
  const kept = memory.list(url, Date.now())
  const read = (shared: AbortSignal) => readList(url, timeoutMs, family, dial, shared)
  const list = kept ?? (await memory.reading.get(url, signal, read))
  if ('problem' in list) return { status: 'unavailable', why: list.problem, url }
  const problem = await listProblem(list, subject.certificate, subject.issuer, Date.now())
  signal.throwIfAborted()
  if (problem !== undefined) return { status: 'unavailable', why: problem.problem, url }
  // Only now: it came in the clear, and anybody may have sent it.
  if (kept === undefined) memory.keepList(url, list, Date.now())
  const entry = await findRevoked(list, subject.certificate, signal)
  if (entry !== undefined && 'problem' in entry) {
    return { status: 'unavailable', why: entry.problem, url }
  }
  // Taken off a list of changes again; a whole list has no such entry.
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

/** What kept us from an answer; a cancelled run is thrown on. */
function unavailable(error: unknown, url: string): Word {
  if (!(error instanceof TargetFailure)) throw error
  const { failure } = error
  return { status: 'unavailable', why: failure.message, code: failure.code, url }
}
