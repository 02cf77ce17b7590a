// Trusted authorities by subject, to find the root of a chain: Node verifies chains, but does not report the root.
import { X509Certificate } from 'node:crypto'
import { getCACertificates } from 'node:tls'
import type { TlsSettings } from '../../contract/tls.ts'
import { readCertificate } from './certificate-structure.ts'
import { LeastRecentlyUsed } from '../least-recently-used.ts'

/** Gives the trusted certificates with this subject, in its DER form. */
export type TrustAnchors = (subject: Buffer) => X509Certificate[]

/** Cached sets of authorities from monitors' settings. */
const SETS_MAX = 50
const PEM = /-----BEGIN (?:TRUSTED )?CERTIFICATE-----[^-]*-----END (?:TRUSTED )?CERTIFICATE-----/g

const sets = new LeastRecentlyUsed<string, TrustAnchors>(SETS_MAX)
let usual: TrustAnchors | undefined

/** The authorities of the settings, or those of this process (NODE_EXTRA_CA_CERTS included). */
export function trustAnchors(settings: TlsSettings | undefined): TrustAnchors {
  const given = settings?.ca
  if (given === undefined) return (usual ??= anchorsOf(getCACertificates('default')))
  return sets.getOrMake(given, () => anchorsOf(given.match(PEM) ?? []))
}

/** Stores PEM texts and parses a certificate at its use: a process trusts hundreds and uses few. */
function anchorsOf(pems: readonly string[]): TrustAnchors {
  const bySubject = Map.groupBy(pems, subjectOf)
  return (subject) =>
    (bySubject.get(subject.toString('latin1')) ?? []).map((pem) => new X509Certificate(pem))
}

/** The DER form of the subject; undefined when the certificate cannot be read. */
function subjectOf(pem: string): string | undefined {
  const body = pem.replace(/-----[^-]+-----/g, '')
  return readCertificate(Buffer.from(body, 'base64'))?.subjectName.toString('latin1')
}
