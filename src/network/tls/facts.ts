// Facts of a peer's certificates, read once for a chain and cached for later handshakes with it.
import type { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { failure, type Failure } from '../../contract/failure.ts'
import { LIMITS } from '../../contract/versions.ts'
import { type PeerCertificates, reasonOf } from './peer-certificates.ts'
import { certificateCode } from './errors.ts'

/** One certificate. Times are ISO 8601 in UTC. */
export interface CertificateFacts {
  /** Distinguished name, `CN=example.com, O=…`. */
  subject: string
  issuer: string
  /** Host names and addresses of the certificate, up to a limit. */
  subjectAltNames: string[]
  /** Number of all names, if not all are listed. */
  subjectAltNamesTotal?: number
  validFrom: string
  validTo: string
  serialNumber: string
  /** SHA-256 of the DER form, hex with colons. */
  fingerprint256: string
  keyType: string
  /** Bits of an RSA or DSA key; absent for other types. */
  keyBits?: number
  /** Name of an elliptic curve. */
  curve?: string
  signatureAlgorithm?: string
}

/** Facts of a TLS handshake. */
export interface PeerFacts {
  /** `TLSv1.3` and the like. */
  protocol: string
  cipher: string
  /** The negotiated application protocol. */
  alpn?: string
  ocspStapled: boolean
  /** Whether the chain leads to a trusted authority and is valid now. */
  chainTrusted: boolean
  /** Whether the certificate is for the name that was asked for. */
  hostnameVerified: boolean
  /** Both of them. */
  verified: boolean
  /** OpenSSL's reason when it does not verify. */
  error?: string
  /** The failure of the certificate; the monitor decides whether it fails the check. */
  failure?: Failure
  /** The peer's own certificate; absent when it sent none. */
  certificate?: CertificateFacts
  /** Whole days until the peer's own certificate expires; negative when it has. */
  daysLeft?: number
  /** The certificates as sent, the peer's own first: subject and expiry. */
  chain: { subject: string; validTo: string; fingerprint256: string }[]
  /** When the first certificate of the chain expires. */
  earliestExpiry?: string
}

const DAY_MS = 86_400_000

interface Chain {
  certificate: CertificateFacts
  chain: PeerFacts['chain']
  validTo: number
  earliestExpiry: string
}

/** Cached facts; collected with the certificates, which are cached themselves. */
const chains = new WeakMap<PeerCertificates, Chain>()

/** Reads the facts of a completed handshake. `name` is the host that the certificate must be for. */
export function peerFacts(
  socket: TLSSocket,
  certificates: PeerCertificates | undefined,
  name: string,
  ocspStapled: boolean,
): PeerFacts {
  const reason = reasonOf(socket)
  const facts: PeerFacts = {
    protocol: socket.getProtocol() ?? 'unknown',
    cipher: socket.getCipher().standardName,
    ocspStapled,
    chainTrusted: reason === undefined,
    hostnameVerified: true,
    verified: true,
    chain: [],
  }
  if (typeof socket.alpnProtocol === 'string') facts.alpn = socket.alpnProtocol
  if (certificates !== undefined) {
    const { certificate, chain, validTo, earliestExpiry } = chainOf(certificates)
    facts.certificate = certificate
    facts.daysLeft = Math.floor((validTo - Date.now()) / DAY_MS)
    facts.chain = chain
    facts.earliestExpiry = earliestExpiry
    facts.hostnameVerified = isFor(certificates.leaf, name)
  }
  evaluate(facts, reason, name)
  return facts
}

function isFor(leaf: X509Certificate, name: string): boolean {
  if (isIP(name) !== 0) return leaf.checkIP(name) !== undefined
  const bare = name.endsWith('.') ? name.slice(0, -1) : name
  return leaf.checkHost(bare) !== undefined
}

function evaluate(facts: PeerFacts, reason: string | undefined, name: string): void {
  facts.verified = facts.chainTrusted && facts.hostnameVerified
  if (facts.verified) return
  facts.error = reason ?? 'HOSTNAME_MISMATCH'
  const code = certificateCode(facts.error)
  facts.failure = failure(code, sentence(code, facts, name), { reason: facts.error, name })
}

function sentence(code: string, facts: PeerFacts, name: string): string {
  const { certificate } = facts
  if (code === 'TLS_HOSTNAME_MISMATCH') {
    const names = certificate?.subjectAltNames.slice(0, 10).join(', ') ?? ''
    if (names === '') return 'the certificate has no subject alternative names'
    return `the certificate is not valid for ${name}, only for ${names}`
  }
  if (code === 'TLS_EXPIRED') return `a certificate expired on ${facts.earliestExpiry}`
  if (code === 'TLS_NOT_YET_VALID') {
    return `a certificate is not valid before ${certificate?.validFrom}`
  }
  if (code === 'TLS_SELF_SIGNED') return 'the certificate is self-signed'
  return `the certificate of ${certificate?.issuer ?? name} does not verify: ${facts.error}`
}

function chainOf(certificates: PeerCertificates): Chain {
  const known = chains.get(certificates)
  if (known !== undefined) return known
  const { leaf, sent } = certificates
  const expiries = sent.map((one) => one.validToDate.getTime())
  const made: Chain = {
    certificate: certificateFacts(leaf),
    chain: sent.map((one) => ({
      subject: oneLine(one.subject),
      validTo: one.validToDate.toISOString(),
      fingerprint256: one.fingerprint256,
    })),
    validTo: expiries[0] as number,
    earliestExpiry: new Date(Math.min(...expiries)).toISOString(),
  }
  chains.set(certificates, made)
  return made
}

/** Facts of one certificate. */
function certificateFacts(one: X509Certificate): CertificateFacts {
  const names = altNames(one.subjectAltName)
  const facts: CertificateFacts = {
    subject: oneLine(one.subject),
    issuer: oneLine(one.issuer),
    subjectAltNames: names.slice(0, LIMITS.altNamesMax),
    validFrom: one.validFromDate.toISOString(),
    validTo: one.validToDate.toISOString(),
    serialNumber: one.serialNumber,
    fingerprint256: one.fingerprint256,
    ...keyFacts(one),
  }
  if (names.length > LIMITS.altNamesMax) facts.subjectAltNamesTotal = names.length
  if (one.signatureAlgorithm !== undefined) facts.signatureAlgorithm = one.signatureAlgorithm
  return facts
}

/** Type and size of its key; `unknown` for a key that this OpenSSL cannot read. */
export function keyFacts(
  one: X509Certificate,
): Pick<CertificateFacts, 'keyType' | 'keyBits' | 'curve'> {
  try {
    const { asymmetricKeyType, asymmetricKeyDetails } = one.publicKey
    const { modulusLength, namedCurve } = asymmetricKeyDetails ?? {}
    return {
      keyType: asymmetricKeyType ?? 'unknown',
      ...(modulusLength === undefined ? {} : { keyBits: modulusLength }),
      ...(namedCurve === undefined ? {} : { curve: namedCurve }),
    }
  } catch {
    return { keyType: 'unknown' }
  }
}

/** A distinguished name as Node gives it, one attribute a line, in one line. */
export function oneLine(name: string | undefined): string {
  return (name ?? '').split('\n').join(', ')
}

/** `DNS:a.example, IP Address:192.0.2.1` without the labels; odd names come quoted as JSON strings. */
export function altNames(text: string | undefined): string[] {
  const parts = text?.matchAll(
    /(?:DNS|IP Address|URI|email|othername|DirName|Registered ID):\s*("(?:[^"\\]|\\.)*"|[^,]*)/g,
  )
  return [...(parts ?? [])].map((match) => {
    const value = match[1] as string
    return value.startsWith('"') ? (JSON.parse(value) as string) : value
  })
}
