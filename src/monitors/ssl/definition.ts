// SSL monitors in the public wire form: the TLS handshake of a server, and its quality.
import * as z from 'zod'
import {
  assertionsSchema,
  NUMERIC,
  TEXTUAL,
  WITHOUT_KEYS,
  type Comparison,
  type SourceRules,
  type ValueRule,
} from '../../contract/assertion.ts'
import { hostName } from '../../contract/schema/host-name.ts'
import { monitorSchema, responseTimes } from '../../contract/monitor.ts'
import { TlsSettings, tlsVersion } from '../../contract/tls.ts'
import { defineType, partOf } from '../../contract/type/definition.ts'
import { counted } from '../../contract/schema/amounts.ts'
import { ADDRESS_METRICS, TLS_METRICS } from '../../contract/type/metrics.ts'
import { aboutAgent, aboutTarget, type FailureTable } from '../../contract/failure.ts'

/** Versions of TLS as the wire names them, oldest first. */
export const TLS_VERSIONS = ['TLS1.0', 'TLS1.1', 'TLS1.2', 'TLS1.3'] as const

const SAME: readonly Comparison[] = ['EQUALS', 'NOT_EQUALS']
const PART: readonly Comparison[] = ['CONTAINS', 'NOT_CONTAINS']

const number: ValueRule = { comparisons: NUMERIC, numeric: true }
const text: ValueRule = { comparisons: [...SAME, ...PART] }
const exact: ValueRule = { comparisons: SAME }
const yesOrNo: ValueRule = { comparisons: ['EQUALS'], targets: ['true', 'false'] }

/** Limits of SSL monitors alone. */
export const SSL_LIMITS = {
  /** Bytes of a server's part of a STARTTLS dialogue. */
  startTlsBytesMax: 65_536,
  /** Time for revocation lookups, responders and lists together. */
  revocationMsMax: 10_000,
  /** Age at which a revocation answer is requested again, even if it is still valid. */
  revocationAgeMsMax: 3_600_000,
  /** Bytes of an OCSP response. */
  ocspBytesMax: 65_536,
  /** Bytes of one revocation list. */
  crlBytesMax: 10_485_760,
  /** Bytes of all cached revocation lists. */
  crlsBytesMax: 33_554_432,
} as const

const SSL_SOURCES = {
  /** The server's own certificate. */
  CERTIFICATE: {
    properties: {
      daysUntilExpiry: number,
      keySizeBits: number,
      subjectCN: text,
      issuerCN: text,
      serialNumber: exact,
      fingerprintSha256: exact,
      issuerFingerprintSha256: exact,
      keyAlgorithm: exact,
      signatureAlgorithm: exact,
      sans: { comparisons: PART },
      selfSigned: yesOrNo,
      isCA: yesOrNo,
    },
  },
  CONNECTION: {
    properties: {
      tlsVersion: { comparisons: NUMERIC, targets: TLS_VERSIONS },
      cipherSuite: text,
      resolvedIp: text,
      hostnameVerified: yesOrNo,
      chainTrusted: yesOrNo,
      ocspStapled: yesOrNo,
      ocspStatus: { comparisons: SAME, targets: ['good', 'revoked', 'unknown'] },
    },
  },
  RESPONSE_TIME: { delay: 'stretched', comparisons: NUMERIC, property: 'none', numeric: true },
  JSON_RESPONSE: { comparisons: WITHOUT_KEYS, property: 'json-path' },
  TEXT_RESPONSE: { comparisons: TEXTUAL, property: 'regex' },
} as const satisfies SourceRules

/** Most severe first. */
export const SEVERITIES = ['fail', 'degrade', 'ignore'] as const
/** Effect of a violated rule on the verdict. */
export type BaselineSeverity = (typeof SEVERITIES)[number]

const Severity = z.enum(SEVERITIES)
const rule = (severity: BaselineSeverity) =>
  z.strictObject({ severity: Severity.default(severity) }).prefault({})
const versionRule = (version: (typeof TLS_VERSIONS)[number], severity: BaselineSeverity) => {
  const value = tlsVersion(TLS_VERSIONS).default(version)
  return z.strictObject({ value, severity: Severity.default(severity) }).prefault({})
}
const keySizeRule = (bits: number, severity: BaselineSeverity) => {
  const value = z.int().min(1024).max(16_384).default(bits)
  return z.strictObject({ value, severity: Severity.default(severity) }).prefault({})
}

/** Requirements of every server, in addition to a valid chain. */
export const SecurityBaseline = z.strictObject({
  enabled: z.boolean().default(true),
  minTLSVersion: versionRule('TLS1.2', 'fail'),
  minKeySizeBits: keySizeRule(2048, 'fail'),
  weakSignatureAlgorithm: rule('fail'),
  weakCipherSuite: rule('fail'),
  knownBadCA: rule('fail'),
  recommendedTLSVersion: versionRule('TLS1.3', 'ignore'),
  recommendedKeySizeBits: keySizeRule(3072, 'ignore'),
  ocspMustStapleRespected: rule('ignore'),
  sctPresent: rule('ignore'),
})
export type SecurityBaseline = z.infer<typeof SecurityBaseline>

/** Protocols that begin in plaintext and upgrade to TLS, with the port of each. */
const STARTTLS_PORTS = {
  SMTP: 587,
  IMAP: 143,
  POP3: 110,
  POSTGRESQL: 5432,
  LDAP: 389,
  FTP: 21,
} as const
export type StartTlsProtocol = keyof typeof STARTTLS_PORTS

const STARTTLS_PROTOCOLS = Object.keys(STARTTLS_PORTS) as [StartTlsProtocol, ...StartTlsProtocol[]]

/** Sources of the revocation status, in addition to a stapled OCSP answer. */
const Revocation = z.strictObject({
  /** Asks the OCSP responder that the certificate names, when no answer was stapled. */
  ocsp: z.boolean().default(true),
  /** Reads the revocation list that the certificate names, when OCSP has no answer. */
  crl: z.boolean().default(true),
  /** Fails when no source has an answer; otherwise that is only noted. */
  hardFail: z.boolean().default(false),
})

const sslFields = z.strictObject({
  hostname: hostName,
  port: z.int().min(1).max(65_535).default(443),
  /** Name sent in the handshake and looked for in the certificate, instead of the host. */
  serverName: z.string().min(1).max(253).optional(),
  ipFamily: z.enum(['IPv4', 'IPv6']).default('IPv4'),
  /** Continues when the chain does not verify; its problems are still reported. */
  skipChainValidation: z.boolean().default(false),
  handshakeTimeoutMs: z.int().min(1000).max(30_000).default(10_000),
  /** Days before the certificate's end from which on the run is degraded. */
  alertDaysBeforeExpiry: z.int().min(1).max(365).default(20),
  securityBaseline: SecurityBaseline.prefault({}),
  clientCertificateMode: z.enum(['auto', 'explicit']).default('auto'),
  /** Ours: the protocol whose STARTTLS comes before the handshake; its port is the default of `port`. */
  startTls: z.enum(STARTTLS_PROTOCOLS).optional(),
  /** Ours: application protocols to offer; h2 and http/1.1 on port 443 and none elsewhere by default. */
  alpnProtocols: z.array(z.string().min(1).max(255)).max(20).optional(),
  /** Ours: probes the versions that the server accepts, with a connection for each. */
  probeVersions: z.boolean().default(false),
  /** Ours: how revocation is looked up. */
  revocation: Revocation.prefault({}),
  /** Ours: probe every address that the name resolves to. */
  allAddresses: z.boolean().default(false),
})

// With another protocol the default port is that protocol's, not that of HTTPS.
const SslConfig = z.preprocess((given) => {
  const { startTls, port } = (given ?? {}) as { startTls?: StartTlsProtocol; port?: unknown }
  if (startTls === undefined || port !== undefined) return given
  return { ...(given as object), port: STARTTLS_PORTS[startTls] }
}, sslFields)
export type SslConfig = z.infer<typeof sslFields>

/** The request of an SSL monitor. */
const SslRequest = z
  .strictObject({
    sslConfig: SslConfig,
    /** The client certificate to show, by its id on the platform. */
    sslClientCertificateId: z.string().min(1).max(255).nullable().optional(),
    assertions: assertionsSchema(SSL_SOURCES),
    /** Ours: authorities to trust, a client certificate with its key, and bounds of the version. */
    tls: TlsSettings.optional(),
  })
  .superRefine(({ sslConfig, sslClientCertificateId = null, tls }, context) => {
    if (sslConfig.clientCertificateMode !== 'explicit' || sslClientCertificateId !== null) return
    if (tls?.certificate !== undefined) return
    const message = 'is missing; clientCertificateMode explicit needs it, or tls.certificate'
    context.addIssue({ code: 'custom', path: ['sslClientCertificateId'], message })
  })
type SslRequest = z.infer<typeof SslRequest>

export const SslMonitor = monitorSchema(
  'SSL',
  { request: SslRequest, ...responseTimes(3000, 10_000, 30_000) },
  60,
)
export type SslMonitor = z.infer<typeof SslMonitor>

const FAILURES = {
  TLS_BASELINE: aboutTarget('the target violates the monitor’s security baseline'),
  TLS_REVOCATION_UNKNOWN: aboutTarget(
    'no source has the revocation status, and the monitor requires one (hardFail)',
    true,
  ),
  STARTTLS_REFUSED: aboutTarget('the target does not offer STARTTLS, or refused it'),
  CLIENT_CERTIFICATE_UNKNOWN: aboutAgent(
    'the client certificate that the monitor names is not known to this agent',
  ),
} as const satisfies FailureTable

/** A failure code of SSL monitors alone. */
export type SslCode = keyof typeof FAILURES

/** A degraded run has no failures, so the summary shows its reasons. */
function summary(observed: Readonly<Record<string, unknown>>): string[] {
  const version = partOf(observed['connection'], 'tlsVersion')
  const days = partOf(observed['certificate'], 'daysUntilExpiry')
  const grade = partOf(observed['securityBaseline'], 'grade')
  const asks = partOf(observed['connection'], 'asksForClientCertificate') === true
  const { degradedBy } = observed
  return [
    ...(typeof version === 'string' ? [version] : []),
    ...(typeof days === 'number' && days >= 0 ? [`${counted(days, 'day')} left`] : []),
    ...(typeof grade === 'string' ? [`grade ${grade}`] : []),
    ...(asks ? ['asks for a client certificate'] : []),
    ...(Array.isArray(degradedBy) ? degradedBy.map(String) : []),
  ]
}

export const sslDefinition = defineType({
  checkType: 'SSL',
  path: 'ssl',
  schema: SslMonitor,
  example: { request: { sslConfig: { hostname: 'example.com' } } },
  sources: SSL_SOURCES,
  failures: FAILURES,
  metrics: {
    ...ADDRESS_METRICS,
    ...TLS_METRICS,
    probe_ssl_cert_days_left: 'Whole days until the certificate of the target expires.',
    probe_ssl_chain_trusted: 'Whether the chain of certificates verifies.',
    probe_ssl_duration_seconds: 'Time of each phase of an SSL check.',
    probe_ssl_hostname_verified: 'Whether the certificate is for the name that was asked for.',
    probe_ssl_last_chain_info: 'The certificate of the target; always 1.',
    probe_ssl_ocsp_stapled: 'Whether an OCSP response came with the handshake.',
    probe_ssl_ocsp_status: 'What OCSP says of the certificate: 0 good, 1 revoked, 2 unknown.',
  },
  limits: SSL_LIMITS,
  summary,
  analytics: { paths: ['ssl', 'ssl-monitors'], unmeasured: ['handshakeTimeMs', 'daysUntilExpiry'] },
})
