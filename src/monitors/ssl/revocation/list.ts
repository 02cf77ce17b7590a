// Certificate revocation lists (RFC 5280, 5): parsed in place, so that a list needs no more memory than its
// bytes, and searched in slices, so that the event loop is not blocked.
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
  type Element,
  elementAt,
  Elements,
  encodingOf,
  TAG,
  timeOf,
  wholeElement,
} from '../../../network/tls/der.ts'
import { reasonOf, type Subject } from './ocsp-message.ts'
import { isSignedBy, Unusable } from './signed-bytes.ts'

/** A list of which only the syntax has been validated. */
export type RevocationList = ReturnType<typeof readRevocationList>

interface Scope {
  urls: string[]
  /** Holds changes only, or entries of authorities, of other issuers, of some reasons or of attributes only. */
  isPartial: boolean
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
const EVERYTHING: Scope = { urls: [], isPartial: false }

function derOf(given: Buffer): Buffer {
  if (given[0] === TAG.SEQUENCE) return given
  const text = given.toString('latin1')
  const found = /-----BEGIN X509 CRL-----([A-Za-z0-9+/=\s]*)-----END X509 CRL-----/.exec(text)
  return found === null ? given : Buffer.from(found[1] as string, 'base64')
}

/** Reads a list, DER or PEM. Throws DerFault. */
export function readRevocationList(given: Buffer) {
  const bytes = derOf(given)
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
  return {
    bytes,
    signed: encodingOf(body),
    algorithm,
    signature,
    issuerName,
    /** Milliseconds since 1970. */
    thisUpdate,
    nextUpdate,
    /** Undefined if none is revoked. */
    entries,
    scope: wrapped === undefined ? EVERYTHING : scopeOf(new Elements(wrapped).next(TAG.SEQUENCE)),
  }
}

/** IssuingDistributionPoint (RFC 5280, 5.2.5). */
function scopeOf(sequence: Element): Scope {
  const extensions = extensionsOf(sequence)
  const isDelta = extensions.has(EXTENSION.deltaIndicator)
  const value = extensions.get(EXTENSION.scope)
  if (value === undefined) return { urls: [], isPartial: isDelta }
  const parts = new Elements(wholeElement(value, TAG.SEQUENCE))
  const point = parts.optional(contextTag(0))
  const isSet = (tag: number) => {
    const element = parts.optional(contextTag(tag, false))
    return element !== undefined && contentOf(element).some((byte) => byte !== 0)
  }
  isSet(1) // user certificates only, as asked for
  // Authorities only, some reasons only, other issuers' entries, attribute certificates only.
  const restrictions = [2, 3, 4, 5].map(isSet)
  return {
    urls: point === undefined ? [] : urlsOfPoint(point),
    isPartial: isDelta || restrictions.includes(true),
  }
}

/** Rejects with Unusable unless the list is complete, valid at `now` (milliseconds) and signed by the issuer. */
export async function verifyList(
  list: RevocationList,
  { certificate, issuer }: Subject,
  now: number,
): Promise<void> {
  const { scope, thisUpdate, nextUpdate, algorithm, signed, signature } = list
  if (!list.issuerName.equals(certificate.issuerName)) {
    throw new Unusable('the list is from another issuer')
  }
  if (scope.isPartial) {
    throw new Unusable('the list is for other certificates, or incomplete')
  }
  if (thisUpdate > now + SKEW_MS) throw new Unusable('the list is not valid yet')
  if (nextUpdate !== undefined && nextUpdate + SKEW_MS < now) {
    const until = new Date(nextUpdate).toISOString()
    throw new Unusable(`the list is stale: it was valid until ${until}`)
  }
  if (await isSignedBy(algorithm, signed, signature, issuer.publicKey)) return
  throw new Unusable('the list is not signed by the issuer')
}

/** Throws Unusable where the list is not for the distribution point that the certificate names. */
export function checkScope({ scope }: RevocationList, { crlUrls }: CertificateStructure): void {
  if (scope.urls.length === 0 || scope.urls.some((url) => crlUrls.includes(url))) return
  throw new Unusable('the list is for another distribution point')
}

/** The certificate's entry; undefined for none. Rejects with DerFault, or the signal's reason. */
export async function findRevoked(
  { entries }: RevocationList,
  { serial }: CertificateStructure,
  signal: AbortSignal,
): Promise<Revoked | undefined> {
  if (entries === undefined) return undefined
  const { bytes, end } = entries
  let at = entries.start
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
