// Certificate revocation lists (RFC 5280, 5): parsed in place, so that a list needs no more memory than its
// bytes, and searched in slices, so that the event loop is not blocked.
import type { X509Certificate } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import {
  type CertificateStructure,
  extensionsOf,
  urlsOfPoint,
} from '../../../network/tls/certificate-structure.ts'
import {
  bitsOf,
  contentOf,
  contextTag,
  DerFault,
  type Element,
  elementAt,
  Elements,
  encodingOf,
  TAG,
  timeOf,
  wholeElement,
} from '../../../network/tls/der.ts'
import { type Problem, reasonOf } from './ocsp-message.ts'
import { isSignedBy } from './signed-bytes.ts'

/** A list of which only the syntax has been validated. */
export interface RevocationList {
  bytes: Buffer
  signed: Buffer
  algorithm: Element
  signature: Buffer
  issuerName: Buffer
  /** Milliseconds since 1970. */
  thisUpdate: number
  nextUpdate: number | undefined
  /** The entries; undefined if none is revoked. */
  entries: Element | undefined
  /** Scope of the list, if restricted. */
  scope: Scope
}

interface Scope {
  urls: string[]
  authoritiesOnly: boolean
  /** Contains entries of other issuers, of some reasons only, or of attribute certificates only. */
  partial: boolean
  delta: boolean
}

/** A certificate's entry in a list. */
export interface Revoked {
  revokedAt: string
  reason?: string
}

const EXTENSION = { deltaIndicator: '2.5.29.27', reason: '2.5.29.21', scope: '2.5.29.28' } as const
/** Entries searched before the event loop gets a turn. */
const SLICE = 5000
const SKEW_MS = 300_000
const EVERYTHING: Scope = { urls: [], authoritiesOnly: false, partial: false, delta: false }

/** Reads a list, DER or PEM. Never throws. */
export function readRevocationList(given: Buffer): RevocationList | Problem {
  try {
    return listOf(derOf(given))
  } catch (error) {
    if (error instanceof DerFault) return { problem: `not a revocation list: ${error.message}` }
    throw error
  }
}

function derOf(given: Buffer): Buffer {
  if (given[0] === TAG.SEQUENCE) return given
  const text = given.toString('latin1')
  const found = /-----BEGIN X509 CRL-----([A-Za-z0-9+/=\s]*)-----END X509 CRL-----/.exec(text)
  return found === null ? given : Buffer.from(found[1] as string, 'base64')
}

function listOf(bytes: Buffer): RevocationList {
  const parts = new Elements(wholeElement(bytes, TAG.SEQUENCE))
  const body = parts.next(TAG.SEQUENCE)
  const algorithm = parts.next(TAG.SEQUENCE)
  const signature = bitsOf(parts.next(TAG.BIT_STRING))
  const inner = new Elements(body)
  inner.optional(TAG.INTEGER) // version
  inner.next(TAG.SEQUENCE) // signature algorithm
  const issuerName = encodingOf(inner.next(TAG.SEQUENCE))
  const thisUpdate = timeOf(inner.next())
  const hasNext = inner.nextTag === TAG.UTC_TIME || inner.nextTag === TAG.GENERALIZED_TIME
  const nextUpdate = hasNext ? timeOf(inner.next()) : undefined
  const entries = inner.optional(TAG.SEQUENCE)
  const wrapped = inner.optional(contextTag(0))
  const scope =
    wrapped === undefined ? EVERYTHING : scopeOf(new Elements(wrapped).next(TAG.SEQUENCE))
  return {
    bytes,
    signed: encodingOf(body),
    algorithm,
    signature,
    issuerName,
    thisUpdate,
    nextUpdate,
    entries,
    scope,
  }
}

/** IssuingDistributionPoint (RFC 5280, 5.2.5). */
function scopeOf(sequence: Element): Scope {
  const extensions = extensionsOf(sequence)
  const delta = extensions.has(EXTENSION.deltaIndicator)
  const value = extensions.get(EXTENSION.scope)
  if (value === undefined) return { ...EVERYTHING, delta }
  const parts = new Elements(wholeElement(value, TAG.SEQUENCE))
  const point = parts.optional(contextTag(0))
  const isSet = (tag: number) => {
    const element = parts.optional(contextTag(tag, false))
    return element !== undefined && contentOf(element).some((byte) => byte !== 0)
  }
  isSet(1) // user certificates only, as asked for
  const authoritiesOnly = isSet(2)
  const someReasons = parts.optional(contextTag(3, false)) !== undefined
  const indirect = isSet(4)
  const attributesOnly = isSet(5)
  return {
    urls: point === undefined ? [] : urlsOfPoint(point),
    authoritiesOnly,
    partial: someReasons || indirect || attributesOnly,
    delta,
  }
}

/**
 * Why the list does not apply to the certificate at `now` (milliseconds), or undefined: another issuer or
 * scope, out of date, or not signed by the issuer. Never rejects.
 */
export async function listProblem(
  list: RevocationList,
  certificate: CertificateStructure,
  issuer: X509Certificate,
  now: number,
): Promise<Problem | undefined> {
  const { scope, thisUpdate, nextUpdate } = list
  if (!list.issuerName.equals(certificate.issuerName)) {
    return { problem: 'the list is of another issuer' }
  }
  if (scope.delta || scope.partial || scope.authoritiesOnly) {
    return { problem: 'the list is about other certificates, or holds only a part' }
  }
  if (scope.urls.length > 0 && !scope.urls.some((url) => certificate.crlUrls.includes(url))) {
    return { problem: 'the list is for another distribution point' }
  }
  if (thisUpdate > now + SKEW_MS) return { problem: 'the list is of the future' }
  if (nextUpdate !== undefined && nextUpdate + SKEW_MS < now) {
    return {
      problem: `the list is stale: it was valid until ${new Date(nextUpdate).toISOString()}`,
    }
  }
  try {
    const holds = await isSignedBy(list.algorithm, list.signed, list.signature, issuer.publicKey)
    return holds ? undefined : { problem: 'the list is not signed by the issuer' }
  } catch {
    return { problem: 'the list is signed in a way that cannot be read' }
  }
}

/**
 * The certificate's entry; undefined for none. Rejects with the signal's reason. A malformed entry ends the
 * search with a problem.
 */
export async function findRevoked(
  { entries }: RevocationList,
  { serial }: CertificateStructure,
  signal: AbortSignal,
): Promise<Revoked | Problem | undefined> {
  if (entries === undefined) return undefined
  const { bytes, end } = entries
  let at = entries.start
  try {
    for (let looked = 1; at < end; looked++) {
      const entry = elementAt(bytes, at, end)
      const number = elementAt(bytes, entry.start, entry.end)
      if (
        number.end - number.start === serial.length &&
        bytes.compare(serial, 0, serial.length, number.start, number.end) === 0
      ) {
        return revokedOf(entry)
      }
      at = entry.end
      if (looked % SLICE !== 0) continue
      await turn()
      signal.throwIfAborted()
    }
  } catch (error) {
    if (error instanceof DerFault) return { problem: `a broken revocation list: ${error.message}` }
    throw error
  }
  return undefined
}

function revokedOf(entry: Element): Revoked {
  const parts = new Elements(entry)
  parts.next(TAG.INTEGER)
  const revoked: Revoked = { revokedAt: new Date(timeOf(parts.next())).toISOString() }
  const more = parts.optional(TAG.SEQUENCE)
  const value = more === undefined ? undefined : extensionsOf(more).get(EXTENSION.reason)
  if (value !== undefined) revoked.reason = reasonOf(wholeElement(value, TAG.ENUMERATED))
  return revoked
}
