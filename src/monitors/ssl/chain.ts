// Certificate chain of a server, as sent and as built to an authority. Parsed once and cached for handshakes
// with the same certificates.
import type { X509Certificate } from 'node:crypto'
import type { TlsSettings } from '../../contract/tls.ts'
import { LIMITS } from '../../contract/versions.ts'
import {
  type CertificateStructure,
  readCertificate,
} from '../../network/tls/certificate-structure.ts'
import { notAnAuthority } from './chain-rules.ts'
import type { Subject } from './revocation/ocsp-message.ts'
import type { PeerCertificates } from '../../network/tls/peer-certificates.ts'
import { altNames, keyFacts, oneLine } from '../../network/tls/facts.ts'
import { shortIpv6 } from '../../network/ip-address.ts'
import { type TrustAnchors, trustAnchors } from '../../network/tls/trust-anchors.ts'

export type ChainCertificate = ReturnType<typeof chainCertificate>
/** The server's own certificate. */
export type ServerCertificate = ReturnType<typeof serverCertificate>
/** Facts that do not depend on the handshake. */
export type Chain = ReturnType<typeof makeChain>
/** The chain as results show it. */
export type ShownChain = Chain['shown']

const LENGTH_MAX = 16
const NONE = Buffer.alloc(0)

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

function makeChain(sent: readonly X509Certificate[], anchors: TrustAnchors) {
  const leaf = sent[0] as X509Certificate
  const { built, anchored } = build(sent, anchors)
  const issuer = built[1]
  const structure = readCertificate(leaf.raw)
  const issuerStructure = issuer && readCertificate(issuer.raw)
  const ends = (ones: readonly X509Certificate[]) =>
    Math.min(...ones.map((one) => one.validToDate.getTime()))
  const own = anchored && built.length > 1 ? built.slice(0, -1) : built
  const subject: Subject | undefined = structure &&
    issuerStructure && { certificate: structure, issuer, issuerStructure }
  const names = altNames(leaf.subjectAltName).map((name) => shortIpv6(name))
  const impostor = anchored ? undefined : impostorOf(sent, built)
  return {
    certificate: serverCertificate(leaf, names, issuer, structure),
    /** All names and addresses of the certificate. */
    names,
    shown: {
      /** In the server's order. */
      sent: sent.map(chainCertificate),
      /** From the server's certificate upwards, as far as issuers are known. */
      built: built.map(chainCertificate),
      /** The last of `built` is an authority that we trust; dates and uses are another matter. */
      anchored,
      /** Irregularities of the sent chain. */
      issues: issuesOf(sent, built, { anchored, impostor }),
      /** Earliest expiry in `sent`, as blackbox_exporter reports it. */
      earliestExpiry: new Date(ends(sent)).toISOString(),
      builtExpiry: new Date(ends(built)).toISOString(),
    },
    structure,
    built,
    impostor,
    /** Subject of the revocation lookup; undefined if the issuer is unknown. */
    subject,
    /** First end of `built` without the authority's own certificate, which is trusted by itself. Milliseconds. */
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
    const { subjectName = NONE, issuerName = NONE } = readCertificate(last.raw) ?? {}
    if (isSelfSigned(last)) {
      const { fingerprint256 } = last
      const anchored = anchors(subjectName).some((one) => one.fingerprint256 === fingerprint256)
      return { built, anchored }
    }
    const candidates = [...anchors(issuerName), ...sent]
    const issuer = candidates.find((one) => !built.includes(one) && isIssuedBy(last, one))
    if (issuer === undefined || built.length >= LENGTH_MAX) return { built, anchored: false }
    built.push(issuer)
  }
}

/** Whether it may have signed and did. */
function isIssuedBy(one: X509Certificate, issuer: X509Certificate): boolean {
  return one.checkIssued(issuer) && isSignedBy(one, issuer)
}

function isSignedBy(one: X509Certificate, issuer: X509Certificate): boolean {
  try {
    return one.verify(issuer.publicKey)
  } catch {
    // A key that this OpenSSL cannot read.
    return false
  }
}

/** Whatever its key may be used for. */
function isSelfSigned(one: X509Certificate): boolean {
  return one.subject === one.issuer && isSignedBy(one, one)
}

/** The certificate that signed the last one of the chain, but is not that of an authority. */
function impostorOf(
  sent: readonly X509Certificate[],
  built: readonly X509Certificate[],
): X509Certificate | undefined {
  const last = built.at(-1) as X509Certificate
  return sent.find(
    (one) =>
      !one.ca && !built.includes(one) && one.subject === last.issuer && isSignedBy(last, one),
  )
}

function issuesOf(
  sent: readonly X509Certificate[],
  built: readonly X509Certificate[],
  { anchored, impostor }: { anchored: boolean; impostor: X509Certificate | undefined },
): string[] {
  const issues: string[] = []
  const prints = built.map(({ fingerprint256 }) => fingerprint256)
  const last = built.at(-1) as X509Certificate
  if (impostor !== undefined) issues.push(notAnAuthority(impostor).message)
  else if (!anchored && !isSelfSigned(last)) {
    issues.push(`incomplete: the certificate of ${oneLine(last.issuer)} is missing`)
  }
  /** The places in the built chain of those that are sent. */
  const places = sent
    .map(({ fingerprint256 }) => prints.indexOf(fingerprint256))
    .filter((place) => place >= 0)
  if (places.length < sent.length) issues.push('certificates that do not belong to the chain')
  if (places.some((place, at) => at > 0 && place < (places[at - 1] as number))) {
    issues.push('out of order')
  }
  if (new Set(sent.map(({ fingerprint256 }) => fingerprint256)).size < sent.length) {
    issues.push('a certificate is sent twice')
  }
  if (anchored && sent.length > 1 && places.includes(built.length - 1)) {
    issues.push('the authority’s own certificate is sent')
  }
  return issues
}

function serverCertificate(
  leaf: X509Certificate,
  names: readonly string[],
  issuer: X509Certificate | undefined,
  structure: CertificateStructure | undefined,
) {
  const own = chainCertificate(leaf)
  const issuerPrint = issuer === undefined ? undefined : fingerprintOf(issuer)
  return {
    ...own,
    subjectCN: commonName(leaf.subject),
    issuerCN: commonName(leaf.issuer),
    issuerFingerprintSha256: issuerPrint ?? (own.selfSigned ? own.fingerprintSha256 : undefined),
    /** Of very many only the first. */
    sans: names.slice(0, LIMITS.altNamesMax),
    sansTotal: names.length,
    mustStaple: structure?.mustStaple ?? false,
    ocspResponders: structure?.ocspUrls ?? [],
    crlDistributionPoints: structure?.crlUrls ?? [],
  }
}

function commonName(name: string | undefined): string | undefined {
  return /^CN=(.*)$/m.exec(name ?? '')?.[1]
}

function fingerprintOf(one: X509Certificate): string {
  return one.fingerprint256.replaceAll(':', '').toLowerCase()
}

/** One certificate of a chain. Times are ISO 8601 in UTC, hashes and numbers lower-case hex. */
function chainCertificate(one: X509Certificate) {
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

/** `keyAlgorithm` is `RSA`, `ECDSA`, `Ed25519`, `Ed448`, `DSA`, or OpenSSL's name. */
function keyOf(one: X509Certificate) {
  const { keyType, keyBits, curve } = keyFacts(one)
  const keySizeBits = keyBits ?? CURVE_BITS[keyType] ?? curveBits(curve)
  return { keyAlgorithm: KEY_NAMES[keyType] ?? keyType, keySizeBits, curve }
}

const CURVE_BITS: Record<string, number> = { ed25519: 256, ed448: 456 }

/** Key size from the name of a curve of OpenSSL: prime256v1, secp384r1, brainpoolP512r1. */
function curveBits(curve: string | undefined): number | undefined {
  const digits = /\d{3}/.exec(curve ?? '')?.[0]
  return digits === undefined ? undefined : Number(digits)
}
