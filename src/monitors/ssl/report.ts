// Report of one address: its handshake and its problems. The report is complete after any failure.
import type { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import { failure, type Failure, type FailureCode } from '../../contract/failure.ts'
import { counted } from '../../contract/schema/amounts.ts'
import type { SignedTimestamp } from '../../network/tls/certificate-structure.ts'
import type { Family } from '../../network/dial.ts'
import type { Revocation } from './revocation/revocation.ts'
import type { BaselineOutcome } from './baseline.ts'
import type { Chain, ChainCertificate, ServerCertificate, ShownChain } from './chain.ts'
import type { Reached, SslPhases, SslPlan } from './connection.ts'
import { brokenRule, notAnAuthority } from './chain-rules.ts'
import { certificateCode } from '../../network/tls/errors.ts'
import { TLS_VERSIONS } from './definition.ts'
import type { AssertionSources } from '../assertions/assertions.ts'
import { shortIpv6 } from '../../network/ip-address.ts'

/** Where a run failed, as a stable category. */
export type ErrorCategory = 'dns' | 'connect' | 'timeout' | 'handshake' | 'hostname' | 'chain'

/** Facts of the connection. */
export interface ConnectionFacts {
  /** `TLS1.3` and the like. */
  tlsVersion: string
  /** By its name in IANA's registry. */
  cipherSuite: string
  /** Key agreement: `X25519`, `prime256v1`, `DH 2048`. */
  keyExchange?: string
  alpn?: string
  /** Address of the connection; undefined through a proxy, which resolves the name itself. */
  resolvedIp?: string
  hostnameVerified: boolean
  chainTrusted: boolean
  /** OpenSSL's reason why the chain does not verify. */
  chainError?: string
  /** The server asks for a client certificate, and the monitor has none. */
  asksForClientCertificate?: true
  ocspStapled: boolean
  ocspStatus?: 'good' | 'revoked' | 'unknown'
  /** Accepted versions, if probed. */
  versions?: string[]
  versionsUndecided?: string[]
}

/** Report of one address. */
export interface SslProbe {
  address?: string
  family?: Family
  phases: SslPhases
  connection?: ConnectionFacts
  certificate?: ServerCertificate & { daysUntilExpiry: number }
  chain?: ShownChain
  timestamps?: { source: 'certificate' | 'ocsp' | 'handshake'; logId: string; at: string }[]
  revocation?: Revocation
  securityBaseline?: BaselineOutcome | { verdict: 'skipped' }
  /** Reasons of a degraded run. */
  degradedBy?: string[]
  failures: Failure[]
}

const DAY_MS = 86_400_000

const VERSION_NAMES: Record<string, string> = {
  SSLv3: 'SSL3.0',
  TLSv1: 'TLS1.0',
  'TLSv1.1': 'TLS1.1',
  'TLSv1.2': 'TLS1.2',
  'TLSv1.3': 'TLS1.3',
}

/** Adds the facts of a finished handshake to the probe. */
export function report(
  probe: SslProbe,
  { name: wanted, tls }: SslPlan,
  { secure }: Reached,
  chain: Chain | undefined,
  now: number,
  isProxied: boolean,
): void {
  const { peer, certificates, socket } = secure
  const leaf = certificates?.leaf
  const facts: ConnectionFacts = {
    tlsVersion: VERSION_NAMES[peer.protocol] ?? peer.protocol,
    cipherSuite: peer.cipher,
    hostnameVerified: leaf !== undefined && isFor(leaf, wanted),
    chainTrusted: leaf !== undefined && peer.chainTrusted,
    ocspStapled: peer.ocspStapled,
  }
  const { type, name, size } = socket.getEphemeralKeyInfo() as Record<string, string | undefined>
  if (type !== undefined) facts.keyExchange = name ?? `${type} ${size}`
  if (peer.alpn !== undefined) facts.alpn = peer.alpn
  if (!isProxied && probe.address !== undefined) facts.resolvedIp = probe.address
  if (!peer.chainTrusted && peer.error !== undefined) facts.chainError = peer.error
  // A client has those of the server's request for its certificate only.
  const isAsked = socket.getSharedSigalgs().length > 0
  if (isAsked && tls?.certificate === undefined) facts.asksForClientCertificate = true
  probe.connection = facts
  if (chain === undefined) return
  probe.certificate = {
    ...chain.certificate,
    daysUntilExpiry: Math.floor((Date.parse(chain.certificate.validTo) - now) / DAY_MS),
  }
  probe.chain = chain.shown
  probe.timestamps = []
  addTimestamps(probe, 'certificate', chain.structure?.timestamps)
}

/** Adds signed certificate timestamps from one of their three sources. */
export function addTimestamps(
  probe: SslProbe,
  source: 'certificate' | 'ocsp' | 'handshake',
  timestamps: readonly SignedTimestamp[] = [],
): void {
  for (const one of timestamps) probe.timestamps?.push({ source, ...one })
}

/** By names in the certificate alone, never by its common name, wildcards as whole labels (RFC 9525, 6.3). */
function isFor(leaf: X509Certificate, name: string): boolean {
  if (isIP(name) !== 0) return leaf.checkIP(name) !== undefined
  return leaf.checkHost(name, { subject: 'never', partialWildcards: false }) !== undefined
}

/** Problems of chain and name, each once; expired dates always. */
export function certificateFailures(
  { connection, certificate }: SslProbe,
  chain: Chain | undefined,
  plan: SslPlan,
  now: number,
): Failure[] {
  if (connection === undefined) return []
  if (certificate === undefined || chain === undefined) {
    return [failure('TLS_CERTIFICATE_INVALID', 'the server sent no certificate')]
  }
  const failures = new Map<FailureCode, Failure>()
  const add = (code: FailureCode, message: string, details: Record<string, unknown>) => {
    if (!failures.has(code)) failures.set(code, failure(code, message, details))
  }
  const { skipChainValidation } = plan.config
  const { validFrom, validTo } = certificate
  // Expiry is the main purpose of this monitor type, so it counts even with an unverified chain.
  if (Date.parse(validTo) < now) {
    add('TLS_EXPIRED', `the certificate ${expiredText(validTo, now)}`, { validTo })
  }
  if (Date.parse(validFrom) > now) {
    add('TLS_NOT_YET_VALID', `the certificate is not valid yet: it is valid from ${validFrom}`, {
      validFrom,
    })
  }
  if (!skipChainValidation && !connection.chainTrusted) {
    const reason = connection.chainError ?? 'UNKNOWN'
    const code = certificateCode(reason)
    if (!chain.shown.anchored) add(...unanchored(chain, reason))
    // OpenSSL's reason for an issuer that is unknown, or none, says less than that.
    const isNamed = UNANCHORED.has(code) || chain.impostor !== undefined
    if (chain.shown.anchored || !isNamed) add(code, ...unverified(chain, reason, now))
  }
  if (!connection.hostnameVerified) {
    const names = certificate.sans.slice(0, 10).join(', ')
    const message =
      names === ''
        ? 'the certificate has no subject alternative names'
        : `the certificate is not valid for ${plan.name}, only for ${names}`
    add('TLS_HOSTNAME_MISMATCH', message, { name: plan.name })
  }
  return [...failures.values()]
}

/** Codes of a chain that leads to no trusted authority. */
const UNANCHORED: ReadonlySet<FailureCode> = new Set(['TLS_SELF_SIGNED', 'TLS_UNTRUSTED'])

function unanchored(
  { certificate, shown, impostor }: Chain,
  reason: string,
): [FailureCode, string, Record<string, unknown>] {
  if (certificate.selfSigned) {
    return ['TLS_SELF_SIGNED', 'the certificate is self-signed', { reason }]
  }
  const last = shown.built.at(-1) as ChainCertificate
  const details = { reason, issuer: last.issuer }
  if (impostor !== undefined) {
    const { message, ...broken } = notAnAuthority(impostor)
    return ['TLS_UNTRUSTED', message, { ...details, ...broken }]
  }
  const message = last.selfSigned
    ? `the chain ends at ${last.subject}, which is not trusted`
    : `the chain is incomplete: the certificate of ${last.issuer} is neither sent nor trusted`
  return ['TLS_UNTRUSTED', message, details]
}

/** Why the chain does not verify, and details. */
function unverified(
  { built, shown, certificate: { subject } }: Chain,
  reason: string,
  now: number,
): [string, Record<string, unknown>] {
  const ended = shown.built.find(({ validTo }) => Date.parse(validTo) < now)
  if (reason === 'CERT_HAS_EXPIRED' && ended !== undefined) {
    return [`the certificate of ${ended.subject} ${expiredText(ended.validTo, now)}`, { reason }]
  }
  const { message, ...broken } = brokenRule(reason, built) ?? {}
  const why = `the chain of ${subject || 'the certificate'} does not verify: ${message ?? reason}`
  return [why, { reason, ...broken }]
}

/** `expired 3 days ago, at 2026-01-01T00:00:00.000Z`. */
export function expiredText(validTo: string, now: number): string {
  const days = Math.floor((now - Date.parse(validTo)) / DAY_MS)
  return `expired ${days === 0 ? 'less than a day' : counted(days, 'day')} ago, at ${validTo}`
}

const CATEGORIES: readonly [RegExp, ErrorCategory][] = [
  [/^TIMEOUT_/, 'timeout'],
  [/^DNS_/, 'dns'],
  [/^(CONNECT_|PROXY_|ADDRESS_BLOCKED)/, 'connect'],
  [/^TLS_HOSTNAME_MISMATCH$/, 'hostname'],
  [
    /^TLS_(EXPIRED|NOT_YET_VALID|SELF_SIGNED|UNTRUSTED|REVOKED|REVOCATION_UNKNOWN|CERTIFICATE_INVALID)$/,
    'chain',
  ],
  [/^(TLS_(PROTOCOL|NOT_SPOKEN|CLIENT_CERTIFICATE)|STARTTLS_|CONNECTION_)/, 'handshake'],
]

/** The category of the first failure with one: failed connections first, then problems of the certificate. */
export function categoryOf(failures: readonly Failure[]): ErrorCategory | undefined {
  for (const { code } of failures) {
    const found = CATEGORIES.find(([pattern]) => pattern.test(code))
    if (found !== undefined) return found[1]
  }
  return undefined
}

/** The sources of one probe; the report is serialized only if an assertion uses it. */
export function sourcesOf(probe: SslProbe, allNames: readonly string[]): AssertionSources {
  let text: string | undefined
  const shown = () => (text ??= JSON.stringify({ ...probe, failures: undefined }))
  const certificate = (name: string, target: string): unknown => {
    if (name === 'sans') return namesFor(target, allNames)
    return inSpellingOf(target, name, valueIn(probe.certificate, name))
  }
  return {
    CERTIFICATE: { kind: 'value', value: certificate },
    CONNECTION: {
      kind: 'value',
      value: (name) => valueIn(probe.connection, name),
      order: (name) => (name === 'tlsVersion' ? TLS_VERSIONS : undefined),
    },
    RESPONSE_TIME: { kind: 'value', value: () => probe.phases.totalMs },
    JSON_RESPONSE: { kind: 'json', text: shown },
    TEXT_RESPONSE: { kind: 'text', text: shown },
  }
}

/** The names, with an address in the spelling of the target. */
function namesFor(target: string, names: readonly string[]): readonly string[] {
  const short = shortIpv6(target)
  return short === target ? names : names.map((name) => (name === short ? target : name))
}

function valueIn(facts: object | undefined, name: string): unknown {
  return (facts as Record<string, unknown> | undefined)?.[name]
}

/**
 * The value, or the target if both are equivalent: fingerprints with or without colons, names of algorithms
 * from OpenSSL or Go.
 */
function inSpellingOf(target: string, name: string, value: unknown): unknown {
  const spelling = SPELLINGS[name]
  if (spelling === undefined || typeof value !== 'string') return value
  return spelling(value) === spelling(target) ? target : value
}

const hex = (text: string) => text.replaceAll(/[\s:]/g, '').toLowerCase()

const SPELLINGS: Record<string, (text: string) => string> = {
  fingerprintSha256: hex,
  issuerFingerprintSha256: hex,
  serialNumber: (text) =>
    hex(text)
      .replace(/^0x/, '')
      .replace(/^0+(?=.)/, ''),
  keyAlgorithm: (text) => text.toLowerCase().replace(/^(?:ec|id-ecpublickey)$/, 'ecdsa'),
  signatureAlgorithm: (text) =>
    text
      .toLowerCase()
      .replace(/^(sha\d+)withrsaencryption$/, '$1-rsa')
      .replace(/^ecdsa-with-(sha\d+)$/, 'ecdsa-$1'),
}
