// SSL monitor: the TLS handshake of a server, its verification and its quality.
import { NOT_CONNECTED } from '../../network/connect-errors.ts'
import { failure, type Failure, type FailureCode } from '../../contract/failure.ts'
import { sslDefinition, type SslMonitor, SSL_LIMITS, type SslCode } from './definition.ts'
import { LIMITS } from '../../contract/versions.ts'
import { defineMonitor, type Context } from '../monitor.ts'
import type { Observation, Sample } from '../../contract/observation.ts'
import { makePlan, type SslPlan } from './connection.ts'
import { probeSsl } from './probe.ts'
import { categoryOf, type SslProbe, type ConnectionFacts } from './report.ts'
import { VERSIONS_MS_MAX } from './versions.ts'
import { checkAddresses, verdictOn } from '../probe.ts'
import { isIP } from 'node:net'
import { connectionSamples, tlsSamples } from '../metrics.ts'

/** Failures that count as a pass with `shouldFail`: no connection, no handshake, no trusted certificate. */
const EXPECTED_BY_SHOULD_FAIL: ReadonlySet<string> = new Set<FailureCode | SslCode>([
  ...NOT_CONNECTED,
  'STARTTLS_REFUSED',
  'TLS_PROTOCOL',
  'TLS_NOT_SPOKEN',
  'TLS_CLIENT_CERTIFICATE',
  'TLS_EXPIRED',
  'TLS_NOT_YET_VALID',
  'TLS_HOSTNAME_MISMATCH',
  'TLS_SELF_SIGNED',
  'TLS_UNTRUSTED',
  'TLS_REVOKED',
  'TLS_CERTIFICATE_INVALID',
  'TLS_BASELINE',
])

/** Time for the checks after the handshake, and a second for our own work. */
function deadlineMs({ maxResponseTime, request }: SslMonitor): number {
  const { revocation, probeVersions } = request.sslConfig
  const asks = revocation.ocsp || revocation.crl ? SSL_LIMITS.revocationMsMax : 0
  const versions = probeVersions ? VERSIONS_MS_MAX : 0
  return Math.min(maxResponseTime + asks + versions + 1000, LIMITS.attemptMsMax)
}

/** The SSL type of monitor. */
export const ssl = defineMonitor({
  definition: sslDefinition,
  prepare(monitor: SslMonitor) {
    const plan = makePlan(monitor)
    return (context) => runSsl(monitor, plan, context)
  },
  samples: sslSamples,
  deadlineMs,
})

async function runSsl(monitor: SslMonitor, plan: SslPlan, context: Context): Promise<Observation> {
  const { endpoint, config } = plan
  const unknown = certificateProblem(monitor)
  if (unknown !== undefined) {
    const { host, port } = endpoint
    return { observed: { hostname: host, port }, failures: [unknown] }
  }
  const observe = (probe: SslProbe) => observationOf(monitor, plan, probe)
  if (!config.allAddresses) {
    return observe(await probeSsl(plan, endpoint, context, performance.now()))
  }
  return checkAddresses<SslProbe>(endpoint, context, {
    probe: (one, startedAt) => probeSsl(plan, one, context, startedAt),
    observe,
    facts: ({ failures, connection, certificate }) => ({
      errorCategory: categoryOf(failures),
      tlsVersion: connection?.tlsVersion,
      fingerprintSha256: certificate?.fingerprintSha256,
      daysUntilExpiry: certificate?.daysUntilExpiry,
    }),
    summary(probes) {
      const prints = probes.flatMap(({ certificate }) => certificate?.fingerprintSha256 ?? [])
      return { sameCertificate: new Set(prints).size <= 1 }
    },
  })
}

/** Certificates on the platform are not sent to agents; `tls` can contain one instead. */
function certificateProblem({ request }: SslMonitor): Failure | undefined {
  const { sslClientCertificateId: id = null, tls } = request
  if (id === null || tls?.certificate !== undefined) return undefined
  const message = `this agent has no client certificate ${id}; set tls.certificate and tls.privateKey`
  return failure<SslCode>('CLIENT_CERTIFICATE_UNKNOWN', message, { id })
}

function observationOf(monitor: SslMonitor, plan: SslPlan, probe: SslProbe): Observation {
  const { failures, ...facts } = probe
  const { host, port } = plan.endpoint
  const { startTls } = plan.config
  const errorCategory = categoryOf(failures)
  const verdict = verdictOn(monitor, probe, EXPECTED_BY_SHOULD_FAIL, probe.connection !== undefined)
  return {
    observed: {
      hostname: host,
      port,
      serverName: plan.name,
      ...(startTls !== undefined && { startTls }),
      ...(errorCategory !== undefined && { errorCategory }),
      ...facts,
    },
    ...verdict,
    ...(probe.degradedBy !== undefined &&
      verdict.responseTimeMs !== undefined && { degraded: true }),
  }
}

const OCSP: Record<string, number> = { good: 0, revoked: 1, unknown: 2 }

/** The samples of one observation, as `observed` of an SSL monitor has it. */
function sslSamples(observed: Record<string, unknown>): Sample[] {
  const { phases, family, connection, certificate, chain } = observed as Partial<SslProbe>
  const samples: Sample[] = []
  samples.push(...connectionSamples({ family, phases }, 'probe_ssl_duration_seconds'))
  if (connection !== undefined) samples.push(...handshakeSamples(connection, chain))
  if (certificate === undefined) return samples
  const labels = {
    fingerprint_sha256: certificate.fingerprintSha256,
    subject: goName(certificate.subject),
    issuer: goName(certificate.issuer),
    subjectalternative: certificate.sans.filter((name) => isIP(name) === 0).join(','),
  }
  samples.push(
    { name: 'probe_ssl_cert_days_left', value: certificate.daysUntilExpiry },
    { name: 'probe_ssl_last_chain_info', value: 1, labels },
  )
  return samples
}

/** The order and commas of Go's names: `CN=a,O=b`. */
function goName(name: string): string {
  return name.split(', ').toReversed().join(',')
}

function handshakeSamples(facts: ConnectionFacts, chain: SslProbe['chain']): Sample[] {
  const yes = (is: boolean) => (is ? 1 : 0)
  const { tlsVersion: protocol, cipherSuite: cipher, chainTrusted } = facts
  const tls = { protocol, cipher, chainTrusted, ...chain }
  const samples: Sample[] = [
    ...tlsSamples(tls, chain?.builtExpiry),
    { name: 'probe_ssl_chain_trusted', value: yes(chainTrusted) },
    { name: 'probe_ssl_hostname_verified', value: yes(facts.hostnameVerified) },
    { name: 'probe_ssl_ocsp_stapled', value: yes(facts.ocspStapled) },
  ]
  const status = facts.ocspStatus
  if (status !== undefined) {
    samples.push({ name: 'probe_ssl_ocsp_status', value: OCSP[status] as number })
  }
  return samples
}
