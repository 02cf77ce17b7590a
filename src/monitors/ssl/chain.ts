// Certificate chain of a server, as sent and as built to an authority. Parsed once and cached for handshakes
// with the same certificates.
import type { X509Certificate } from 'node:crypto'
import type { TlsSettings } from '../../contract/tls.ts'
import { LIMITS } from '../../contract/versions.ts'
import {
  type CertificateStructure,
  readCertificate,
} from '../../network/tls/certificate-structure.ts'
import type { Subject } from './revocation/ocsp-message.ts'
import type { PeerCertificates } from '../../network/tls/peer-certificates.ts'
import { altNames, oneLine } from '../../network/tls/facts.ts'
import { type TrustAnchors, trustAnchors } from '../../network/tls/trust-anchors.ts'

/** One certificate of a chain. Times are ISO 8601 in UTC, hashes and numbers lower-case hex. */
export interface ChainCertificate {
  subject: string
  issuer: string
  validFrom: string
  validTo: string
  serialNumber: string
  fingerprintSha256: string
  /** `RSA`, `ECDSA`, `Ed25519`, `Ed448`, `DSA`, or OpenSSL's name. */
  keyAlgorithm: string
  keySizeBits?: number
  /** Name of an elliptic curve. */
  curve?: string
  signatureAlgorithm: string
  selfSigned: boolean
  isCA: boolean
}

/** The server's own certificate. */
export interface ServerCertificate extends ChainCertificate {
  subjectCN?: string
  issuerCN?: string
  issuerFingerprintSha256?: string
  /** Names and addresses of the certificate; of very many only the first. */
  sans: string[]
  sansTotal: number
  mustStaple: boolean
  ocspResponders: string[]
  crlDistributionPoints: string[]
}

/** The chain as results show it. */
export interface ShownChain {
  /** In the server's order. */
  sent: ChainCertificate[]
  /** From the server's certificate upwards, as far as issuers are known. */
  built: ChainCertificate[]
  /** The last of `built` is an authority that we trust; dates and uses are another matter. */
  anchored: boolean
  /** Irregularities of the sent chain. */
  issues: string[]
  /** Earliest expiry in `sent` and `built`, as blackbox_exporter reports it. */
  earliestExpiry: string
  builtExpiry: string
}

/** Facts that do not depend on the handshake. */
export interface Chain extends Pick<ShownChain, 'built' | 'anchored'> {
  certificate: ServerCertificate
  shown: ShownChain
  structure: CertificateStructure | undefined
  /** Subject of the revocation lookup; undefined if the issuer is unknown. */
  subject: Subject | undefined
  /** First end of `built` without the authority's own certificate, which is trusted by itself. Milliseconds. */
  earliestExpiry: number
}

const LENGTH_MAX = 16

/** Cached facts by certificate; collected with it. */
const chains = new WeakMap<PeerCertificates, { anchors: TrustAnchors; chain: Chain }>()

/** Facts of a handshake's chain. */
export function chainOf(certificates: PeerCertificates, settings: TlsSettings | undefined): Chain {
  const anchors = trustAnchors(settings)
  const known = chains.get(certificates)
  if (known?.anchors === anchors) return known.chain
  const chain = makeChain(certificates.sent, anchors)
  chains.set(certificates, { anchors, chain })
  return chain
}

function makeChain(sent: readonly X509Certificate[], anchors: TrustAnchors): Chain {
  const leaf = sent[0] as X509Certificate
  const { built, anchored } = build(sent, anchors)
  const issuer = built[1]
  const structure = readCertificate(leaf.raw)
  const issuerStructure = issuer === undefined ? undefined : readCertificate(issuer.raw)
  const ends = (ones: readonly X509Certificate[]) =>
    Math.min(...ones.map((one) => one.validToDate.getTime()))
  const own = anchored && built.length > 1 ? built.slice(0, -1) : built
  const isAskable = issuer !== undefined && structure !== undefined && issuerStructure !== undefined
  const shown: ShownChain = {
    sent: sent.map(chainCertificate),
    built: built.map(chainCertificate),
    anchored,
    issues: issuesOf(sent, built, anchored),
    earliestExpiry: new Date(ends(sent)).toISOString(),
    builtExpiry: new Date(ends(built)).toISOString(),
  }
  return {
    certificate: serverCertificate(leaf, issuer, structure),
    shown,
    built: shown.built,
    anchored,
    structure,
    subject: isAskable ? { certificate: structure, issuer, issuerStructure } : undefined,
    earliestExpiry: ends(own),
  }
}

/** As OpenSSL builds it: trusted certificates are preferred to sent ones. */
function build(
  sent: readonly X509Certificate[],
  anchors: TrustAnchors,
): { built: X509Certificate[]; anchored: boolean } {
  const built = [sent[0] as X509Certificate]
  for (;;) {
    const last = built.at(-1) as X509Certificate
    const name = nameOf(last)
    const isAnchor = anchors
      .named(name.subject)
      .some((one) => one.fingerprint256 === last.fingerprint256)
    if (isSelfSigned(last)) return { built, anchored: isAnchor }
    const candidates = [...anchors.named(name.issuer), ...sent]
    const issuer = candidates.find((one) => !built.includes(one) && isIssuedBy(last, one))
    if (issuer === undefined || built.length >= LENGTH_MAX) return { built, anchored: false }
    built.push(issuer)
  }
}

function nameOf(one: X509Certificate): { subject: Buffer; issuer: Buffer } {
  const structure = readCertificate(one.raw)
  const none = Buffer.alloc(0)
  return { subject: structure?.subjectName ?? none, issuer: structure?.issuerName ?? none }
}

function isIssuedBy(one: X509Certificate, issuer: X509Certificate): boolean {
  try {
    return one.checkIssued(issuer) && one.verify(issuer.publicKey)
  } catch {
    // A key that this OpenSSL cannot read.
    return false
  }
}

function isSelfSigned(one: X509Certificate): boolean {
  return one.subject === one.issuer && isIssuedBy(one, one)
}

function issuesOf(
  sent: readonly X509Certificate[],
  built: readonly X509Certificate[],
  anchored: boolean,
): string[] {
  const issues: string[] = []
  const last = built.at(-1) as X509Certificate
  if (!anchored && !isSelfSigned(last)) {
    issues.push(`incomplete: the certificate of ${oneLine(last.issuer)} is missing`)
  }
  const used = sent.filter((one) =>
    built.some((other) => other.fingerprint256 === one.fingerprint256),
  )
  if (used.length < sent.length) issues.push('certificates that do not belong to the chain')
  const order = used.map((one) =>
    built.findIndex((other) => other.fingerprint256 === one.fingerprint256),
  )
  if (order.some((place, at) => at > 0 && place < (order[at - 1] as number))) {
    issues.push('out of order')
  }
  if (new Set(sent.map((one) => one.fingerprint256)).size < sent.length) {
    issues.push('a certificate is sent twice')
  }
  if (anchored && sent.length > 1 && used.includes(sent.find(isSame(last)) ?? last)) {
    if (sent.some(isSame(last))) issues.push('the authority’s own certificate is sent')
  }
  return issues
}

function isSame(one: X509Certificate): (other: X509Certificate) => boolean {
  return (other) => other.fingerprint256 === one.fingerprint256
}

function serverCertificate(
  leaf: X509Certificate,
  issuer: X509Certificate | undefined,
  structure: CertificateStructure | undefined,
): ServerCertificate {
  const sans = altNames(leaf.subjectAltName)
  const facts: ServerCertificate = {
    ...chainCertificate(leaf),
    sans: sans.slice(0, LIMITS.altNamesMax),
    sansTotal: sans.length,
    mustStaple: structure?.mustStaple ?? false,
    ocspResponders: structure?.ocspUrls ?? [],
    crlDistributionPoints: structure?.crlUrls ?? [],
  }
  const [subjectCN, issuerCN] = [commonName(leaf.subject), commonName(leaf.issuer)]
  if (subjectCN !== undefined) facts.subjectCN = subjectCN
  if (issuerCN !== undefined) facts.issuerCN = issuerCN
  if (issuer !== undefined) facts.issuerFingerprintSha256 = fingerprintOf(issuer)
  else if (facts.selfSigned) facts.issuerFingerprintSha256 = facts.fingerprintSha256
  return facts
}

function commonName(name: string | undefined): string | undefined {
  return /^CN=(.*)$/m.exec(name ?? '')?.[1]
}

function fingerprintOf(one: X509Certificate): string {
  return one.fingerprint256.replaceAll(':', '').toLowerCase()
}

function chainCertificate(one: X509Certificate): ChainCertificate {
  return {
    subject: oneLine(one.subject),
    issuer: oneLine(one.issuer),
    validFrom: one.validFromDate.toISOString(),
    validTo: one.validToDate.toISOString(),
    serialNumber: one.serialNumber.toLowerCase(),
    fingerprintSha256: fingerprintOf(one),
    ...keyOf(one),
    signatureAlgorithm: one.signatureAlgorithm ?? 'unknown',
    selfSigned: isSelfSigned(one),
    isCA: one.ca,
  }
}

const KEY_NAMES: Record<string, string> = {
  rsa: 'RSA',
  'rsa-pss': 'RSA',
  ec: 'ECDSA',
  dsa: 'DSA',
  ed25519: 'Ed25519',
  ed448: 'Ed448',
}

const CURVE_BITS: Record<string, number> = { ed25519: 256, ed448: 456 }

function keyOf(
  one: X509Certificate,
): Pick<ChainCertificate, 'keyAlgorithm' | 'keySizeBits' | 'curve'> {
  try {
    const { asymmetricKeyType: type = 'unknown', asymmetricKeyDetails } = one.publicKey
    const { modulusLength, namedCurve } = asymmetricKeyDetails ?? {}
    const bits = modulusLength ?? CURVE_BITS[type] ?? curveBits(namedCurve)
    return {
      keyAlgorithm: KEY_NAMES[type] ?? type,
      ...(bits === undefined ? {} : { keySizeBits: bits }),
      ...(namedCurve === undefined ? {} : { curve: namedCurve }),
    }
  } catch {
    // The other facts do not depend on a key that this OpenSSL cannot read.
    return { keyAlgorithm: 'unknown' }
  }
}

/** Key size from the name of a curve of OpenSSL: prime256v1, secp384r1, brainpoolP512r1. */
function curveBits(curve: string | undefined): number | undefined {
  const digits = /\d{3}/.exec(curve ?? '')?.[0]
  return digits === undefined ? undefined : Number(digits)
}
