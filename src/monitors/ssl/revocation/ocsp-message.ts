// OCSP (RFC 6960): the request for one certificate, and the validation of its response: signature, signer and
// times.
import { hash, type KeyObject, X509Certificate } from 'node:crypto'
import {
  type CertificateStructure,
  extensionsOf,
  type SignedTimestamp,
  signedTimestamps,
} from '../../../network/tls/certificate-structure.ts'
import {
  bitsOf,
  childrenOf,
  contentOf,
  contextTag,
  derElement,
  type Element,
  Elements,
  encodingOf,
  integerHex,
  oidOf,
  smallInteger,
  TAG,
  timeOf,
  wholeElement,
} from '../../../network/tls/der.ts'
import { HASHES, isSignedBy, Unusable } from './signed-bytes.ts'

/** The certificate and its issuer. */
export interface Subject {
  certificate: CertificateStructure
  issuer: X509Certificate
  issuerStructure: CertificateStructure
}

/** A checked answer. Times are ISO 8601 in UTC. */
export interface OcspAnswer {
  status: 'good' | 'revoked' | 'unknown'
  thisUpdate: string
  nextUpdate?: string
  producedAt: string
  revokedAt?: string
  /** Of a revocation, as RFC 5280 names it: `keyCompromise`… */
  reason?: string
  /** Signer: the issuer itself, or a responder that it has authorised. */
  signer: 'issuer' | 'delegated'
  /** Whether the answer repeats the nonce of the request. */
  nonce?: 'repeated' | 'absent'
  /** Signed certificate timestamps of the answer. */
  timestamps?: SignedTimestamp[]
}

const BASIC = '1.3.6.1.5.5.7.48.1.1'
const NONCE = '1.3.6.1.5.5.7.48.1.2'
const TIMESTAMPS = '1.3.6.1.4.1.11129.2.4.5'
/** AlgorithmIdentifier of SHA-1, and the object identifier of a nonce, in DER. */
const SHA1_DER = Buffer.from('300906052b0e03021a0500', 'hex')
const NONCE_DER = Buffer.from('06092b0601050507300102', 'hex')
const OCSP_SIGNING = '1.3.6.1.5.5.7.3.9'
/** Certificates of an answer that are tried as its signer's. */
const SIGNERS_MAX = 10
/** Tolerance for the difference of clocks. */
const SKEW_MS = 300_000
/** Validity of an answer without an end. */
const AGE_MS_MAX = 7 * 86_400_000

/** Reasons of a revocation by their number (RFC 5280, 5.3.1). */
const REVOCATION_REASONS = [
  'unspecified',
  'keyCompromise',
  'cACompromise',
  'affiliationChanged',
  'superseded',
  'cessationOfOperation',
  'certificateHold',
  'reason 7',
  'removeFromCRL',
  'privilegeWithdrawn',
  'aACompromise',
] as const

/** The request about one certificate, with a nonce (RFC 9654) where one is given. */
export function ocspRequest(subject: Subject, nonce?: Buffer): Buffer {
  const { certificate, issuerStructure } = subject
  const id = derElement(
    TAG.SEQUENCE,
    SHA1_DER,
    derElement(TAG.OCTET_STRING, hash('sha1', issuerStructure.subjectName, 'buffer')),
    derElement(TAG.OCTET_STRING, hash('sha1', issuerStructure.publicKey, 'buffer')),
    derElement(TAG.INTEGER, certificate.serial),
  )
  const parts = [derElement(TAG.SEQUENCE, derElement(TAG.SEQUENCE, id))]
  if (nonce !== undefined) {
    const value = derElement(TAG.OCTET_STRING, derElement(TAG.OCTET_STRING, nonce))
    const extension = derElement(TAG.SEQUENCE, NONCE_DER, value)
    parts.push(derElement(contextTag(2), derElement(TAG.SEQUENCE, extension)))
  }
  return derElement(TAG.SEQUENCE, derElement(TAG.SEQUENCE, ...parts))
}

const STATUSES: Record<number, string> = {
  1: 'malformedRequest',
  2: 'internalError',
  3: 'tryLater',
  5: 'sigRequired',
  6: 'unauthorized',
}

type Basic = ReturnType<typeof basicOf>

/**
 * Reads the status of the certificate at `now` (milliseconds). Rejects with DerFault, or with Unusable: another
 * certificate, not signed by the issuer or one that it authorised, out of date.
 */
export async function readOcspResponse(
  response: Buffer,
  subject: Subject,
  now: number,
  nonce?: Buffer,
): Promise<OcspAnswer> {
  const outer = new Elements(wholeElement(response, TAG.SEQUENCE))
  const status = smallInteger(outer.next(TAG.ENUMERATED))
  if (status !== 0) {
    throw new Unusable(`the responder says ${STATUSES[status] ?? `error ${status}`}`)
  }
  const wrapped = new Elements(new Elements(outer.next(contextTag(0))).next(TAG.SEQUENCE))
  if (oidOf(wrapped.next()) !== BASIC) throw new Unusable('an OCSP response of an unknown kind')
  const basic = basicOf(contentOf(wrapped.next(TAG.OCTET_STRING)))
  const single = basic.singles.find((one) => isAbout(new Elements(one).next(TAG.SEQUENCE), subject))
  if (single === undefined) throw new Unusable('the answer is about another certificate')
  const signer = await signerOf(basic, subject, now)
  const sent = nonceIn(basic)
  if (nonce !== undefined && sent !== undefined && !sent.equals(nonce)) {
    throw new Unusable('nonce mismatch: the response answers another request')
  }
  const answer = answerOf(single, basic, signer)
  if (nonce !== undefined) answer.nonce = sent === undefined ? 'absent' : 'repeated'
  checkTimes(answer, now)
  return answer
}

function basicOf(bytes: Buffer) {
  const parts = new Elements(wholeElement(bytes, TAG.SEQUENCE))
  const data = parts.next(TAG.SEQUENCE)
  const algorithm = parts.next(TAG.SEQUENCE)
  const signature = bitsOf(parts.next(TAG.BIT_STRING))
  const certificates = parts.optional(contextTag(0))
  const inner = new Elements(data)
  inner.optional(contextTag(0)) // version
  const responder = inner.next()
  const producedAt = timeOf(inner.next())
  const singles = childrenOf(inner.next(TAG.SEQUENCE))
  const extensions = inner.optional(contextTag(1))
  return {
    signed: encodingOf(data),
    responder,
    producedAt,
    singles,
    extensions: wrappedExtensions(extensions),
    algorithm,
    signature,
    certificates:
      certificates === undefined ? [] : childrenOf(new Elements(certificates).next(TAG.SEQUENCE)),
  }
}

function wrappedExtensions(element: Element | undefined): Map<string, Buffer> {
  if (element === undefined) return new Map()
  return extensionsOf(new Elements(element).next(TAG.SEQUENCE))
}

function isAbout(id: Element, { certificate, issuerStructure }: Subject): boolean {
  const parts = new Elements(id)
  const algorithm = HASHES[oidOf(new Elements(parts.next(TAG.SEQUENCE)).next())]
  const name = contentOf(parts.next(TAG.OCTET_STRING))
  const key = contentOf(parts.next(TAG.OCTET_STRING))
  if (algorithm === undefined) return false
  return (
    integerHex(parts.next(TAG.INTEGER)) === certificate.serialHex &&
    hash(algorithm, issuerStructure.subjectName, 'buffer').equals(name) &&
    hash(algorithm, issuerStructure.publicKey, 'buffer').equals(key)
  )
}

/** The signer (RFC 6960, 4.2.2.2): the issuer, or the holder of a delegated OCSP certificate. Rejects with Unusable. */
async function signerOf(
  { algorithm, signed, signature, certificates }: Basic,
  { issuer }: Subject,
  now: number,
): Promise<OcspAnswer['signer']> {
  if (await isSignedBy(algorithm, signed, signature, issuer.publicKey)) return 'issuer'
  for (const one of certificates.slice(0, SIGNERS_MAX)) {
    const key = authorisedKey(encodingOf(one), issuer, now)
    if (key === undefined) continue
    if (await isSignedBy(algorithm, signed, signature, key)) return 'delegated'
  }
  throw new Unusable('the answer is not signed by the issuer, nor by one that it authorised')
}

/** The key of a certificate that the issuer has authorised to sign answers. */
function authorisedKey(der: Buffer, issuer: X509Certificate, now: number): KeyObject | undefined {
  try {
    const candidate = new X509Certificate(der)
    const { validFromDate, validToDate, keyUsage } = candidate
    if (!(keyUsage ?? []).includes(OCSP_SIGNING)) return undefined
    if (now < validFromDate.getTime() || now > validToDate.getTime()) return undefined
    const isIssued = candidate.checkIssued(issuer) && candidate.verify(issuer.publicKey)
    return isIssued ? candidate.publicKey : undefined
  } catch {
    // No certificate, or a key that this OpenSSL cannot read.
    return undefined
  }
}

function nonceIn({ extensions }: Basic): Buffer | undefined {
  const value = extensions.get(NONCE)
  return value === undefined ? undefined : contentOf(wholeElement(value, TAG.OCTET_STRING))
}

function answerOf(single: Element, basic: Basic, signer: OcspAnswer['signer']): OcspAnswer {
  const parts = new Elements(single)
  parts.next(TAG.SEQUENCE)
  const status = parts.next()
  const thisUpdate = timeOf(parts.next())
  const next = parts.optional(contextTag(0))
  const answer: OcspAnswer = {
    status: 'unknown',
    thisUpdate: iso(thisUpdate),
    producedAt: iso(basic.producedAt),
    signer,
  }
  if (next !== undefined) answer.nextUpdate = iso(timeOf(new Elements(next).next()))
  if (status.tag === contextTag(0, false)) answer.status = 'good'
  else if (status.tag === contextTag(1)) {
    const how = new Elements(status)
    answer.status = 'revoked'
    answer.revokedAt = iso(timeOf(how.next()))
    const reason = how.optional(contextTag(0))
    if (reason !== undefined) answer.reason = reasonOf(new Elements(reason).next(TAG.ENUMERATED))
  }
  const logged = wrappedExtensions(parts.optional(contextTag(1))).get(TIMESTAMPS)
  if (logged !== undefined) answer.timestamps = signedTimestamps(logged)
  return answer
}

function checkTimes(answer: OcspAnswer, now: number): void {
  const thisUpdate = Date.parse(answer.thisUpdate)
  if (thisUpdate > now + SKEW_MS)
    throw new Unusable(`the answer is not valid before ${answer.thisUpdate}`)
  const until =
    answer.nextUpdate === undefined ? thisUpdate + AGE_MS_MAX : Date.parse(answer.nextUpdate)
  if (until + SKEW_MS < now)
    throw new Unusable(`the answer is stale: it was valid until ${iso(until)}`)
}

/** A reason of a revocation by its name. */
export function reasonOf(element: Element): string {
  const number = smallInteger(element)
  return REVOCATION_REASONS[number] ?? `reason ${number}`
}

/** Invalid dates are refused when they are read. */
function iso(ms: number): string {
  return new Date(ms).toISOString()
}
