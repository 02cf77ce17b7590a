// SSL monitor: the TLS handshake of a server, its verification and its quality.
import { NOT_CONNECTED } from '../../network/connect-errors.ts'
import { roundPhases } from '../../contract/schema/duration.ts'
import { failure, type Failure, type FailureCode } from '../../contract/failure.ts'
import { sslDefinition, type SslMonitor, SSL_LIMITS, type SslCode } from './definition.ts'
import { LIMITS } from '../../contract/versions.ts'
import { defineMonitor, type Context } from '../monitor.ts'
import type { Observation, Sample } from '../../contract/observation.ts'
import { makePlan, type SslPlan } from './connection.ts'
import { probeSsl } from './probe.ts'
import { categoryOf, type SslProbe, type ConnectionFacts } from './report.ts'
import { VERSIONS_MS_MAX } from './versions.ts'
import { failureOf } from '../../network/target-failure.ts'
import { isDegraded, tooSlow } from '../thresholds.ts'
import { isIP } from 'node:net'
import { connectionSamples } from '../metrics/connection-samples.ts'

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
  const { host, port, family } = plan
  const unknown = certificateProblem(monitor)
  if (unknown !== undefined) return { observed: { hostname: host, port }, failures: [unknown] }
  if (monitor.request.sslConfig.allAddresses) return probeAll(monitor, plan, context)
  const probe = await probeSsl(plan, { host, port, family }, context)
  finish(monitor, probe)
  return observationOf(monitor, plan, probe)
}

/** Certificates on the platform are not sent to agents; `tls` can contain one instead. */
function certificateProblem({ request }: SslMonitor): Failure | undefined {
  const { sslClientCertificateId: id = null, tls } = request
  if (id === null || tls?.certificate !== undefined) return undefined
  const message = `there is no client certificate ${id} on this agent; give it as tls.certificate and tls.privateKey`
  return failure<SslCode>('CLIENT_CERTIFICATE_UNKNOWN', message, { id })
}

/** Adds the evaluation of the response time, and removes the failures that `shouldFail` expects. */
function finish(monitor: SslMonitor, probe: SslProbe): void {
  roundPhases(probe.phases)
  if (monitor.shouldFail) {
    probe.failures = probe.failures.filter(({ code }) => !EXPECTED_BY_SHOULD_FAIL.has(code))
  }
  if (probe.connection === undefined || probe.failures.length > 0) return
  const slow = tooSlow(probe.phases.totalMs, monitor)
  if (slow !== undefined) probe.failures.push(slow)
}

function observationOf(monitor: SslMonitor, plan: SslPlan, probe: SslProbe): Observation {
  const { failures, ...facts } = probe
  const { startTls } = plan.config
  const observed: Record<string, unknown> = {
    hostname: plan.host,
    port: plan.port,
    serverName: plan.name,
    ...(startTls === undefined ? {} : { startTls }),
    ...facts,
  }
  // Without a handshake there is no response time.
  if (probe.connection === undefined) return { observed, failures }
  const responseTimeMs = probe.phases.totalMs
  const degraded = probe.degradedBy !== undefined || isDegraded(responseTimeMs, monitor)
  return { observed, failures, responseTimeMs, degraded }
}

/** Probes every address of the name. The slowest counts, and each failed one fails the check. */
async function probeAll(
  monitor: SslMonitor,
  plan: SslPlan,
  context: Context,
): Promise<Observation> {
  const { host, port, family } = plan
  const startedAt = performance.now()
  let addresses: string[]
  try {
    addresses = await context.dial.resolve(host, family, context.signal)
  } catch (error) {
    const failures = [failureOf(error, { phase: 'dns' })]
    const errorCategory = categoryOf(failures)
    const phases = { totalMs: performance.now() - startedAt }
    return { observed: { hostname: host, port, errorCategory, phases }, failures }
  }
  const dnsMs = performance.now() - startedAt
  const probes = await Promise.all(
    addresses.slice(0, LIMITS.addressesMax).map(async (address) => {
      const probe = await probeSsl(plan, { host, port, family, address }, context)
      probe.address ??= address
      probe.phases.dnsMs = dnsMs
      probe.phases.totalMs += dnsMs
      finish(monitor, probe)
      return probe
    }),
  )
  return summaryOf(monitor, plan, probes, addresses.length)
}

function summaryOf(
  monitor: SslMonitor,
  plan: SslPlan,
  probes: readonly SslProbe[],
  found: number,
): Observation {
  const observation = observationOf(monitor, plan, worstOf(probes))
  const { observed } = observation
  observed['addresses'] = probes.map((probe) => ({
    address: probe.address,
    errorCategory: probe.errorCategory,
    phases: probe.phases,
    tlsVersion: probe.connection?.tlsVersion,
    fingerprintSha256: probe.certificate?.fingerprintSha256,
    daysUntilExpiry: probe.certificate?.daysUntilExpiry,
    failures: probe.failures,
  }))
  const prints = new Set(probes.flatMap(({ certificate }) => certificate?.fingerprintSha256 ?? []))
  observed['sameCertificate'] = prints.size <= 1
  if (found > probes.length) observed['addressesLeftOut'] = found - probes.length
  const failures = probes.flatMap(({ address, failures: own }): Failure[] =>
    own.map((one) => ({ ...one, details: { ...one.details, address } })),
  )
  const connected = probes.filter(({ connection }) => connection !== undefined)
  if (connected.length === 0) return { ...observation, failures }
  const responseTimeMs = Math.max(...connected.map(({ phases }) => phases.totalMs))
  const degraded =
    probes.some(({ degradedBy }) => degradedBy !== undefined) || isDegraded(responseTimeMs, monitor)
  return { ...observation, failures, responseTimeMs, degraded }
}

/** The shown probe: the first failed one, else the first degraded one, else the slowest. */
function worstOf(probes: readonly SslProbe[]): SslProbe {
  return (
    probes.find(({ failures }) => failures.length > 0) ??
    probes.find(({ degradedBy }) => degradedBy !== undefined) ??
    probes.reduce((one, other) => (other.phases.totalMs > one.phases.totalMs ? other : one))
  )
}

const PHASES: Record<string, string> = {
  dnsMs: 'resolve',
  connectMs: 'connect',
  proxyMs: 'proxy',
  startTlsMs: 'starttls',
  tlsMs: 'tls',
  revocationMs: 'revocation',
}

const OCSP: Record<string, number> = { good: 0, revoked: 1, unknown: 2 }

/** The samples of one observation, as `observed` of an SSL monitor has it. */
function sslSamples(observed: Record<string, unknown>): Sample[] {
  const { phases, family, connection, certificate, chain } = observed as Partial<SslProbe>
  const samples: Sample[] = []
  samples.push(...connectionSamples('probe_ssl_duration_seconds', { family, phases }, PHASES))
  if (connection !== undefined) samples.push(...handshakeSamples(connection))
  if (certificate === undefined || chain === undefined) return samples
  const seconds = (iso: string) => Date.parse(iso) / 1000
  samples.push(
    { name: 'probe_ssl_earliest_cert_expiry', value: seconds(chain.earliestExpiry) },
    { name: 'probe_ssl_cert_days_left', value: certificate.daysUntilExpiry },
  )
  const labels = {
    fingerprint_sha256: certificate.fingerprintSha256,
    subject: goName(certificate.subject),
    issuer: goName(certificate.issuer),
    subjectalternative: certificate.sans.filter((name) => isIP(name) === 0).join(','),
  }
  samples.push({ name: 'probe_ssl_last_chain_info', value: 1, labels })
  if (connection?.chainTrusted !== true) return samples
  const value = seconds(chain.builtExpiry)
  samples.push({ name: 'probe_ssl_last_chain_expiry_timestamp_seconds', value })
  return samples
}

/** The order and commas of Go's names: `CN=a,O=b`. */
function goName(name: string): string {
  return name.split(', ').toReversed().join(',')
}

function handshakeSamples(facts: ConnectionFacts): Sample[] {
  const yes = (is: boolean) => (is ? 1 : 0)
  const samples: Sample[] = [
    {
      name: 'probe_tls_version_info',
      value: 1,
      labels: { version: facts.tlsVersion.replace(/^(TLS|SSL)/, '$1 ') },
    },
    { name: 'probe_tls_cipher_info', value: 1, labels: { cipher: facts.cipherSuite } },
    { name: 'probe_ssl_chain_trusted', value: yes(facts.chainTrusted) },
    { name: 'probe_ssl_hostname_verified', value: yes(facts.hostnameVerified) },
    { name: 'probe_ssl_ocsp_stapled', value: yes(facts.ocspStapled) },
  ]
  const status = facts.ocspStatus
  if (status !== undefined) {
    samples.push({ name: 'probe_ssl_ocsp_status', value: OCSP[status] as number })
  }
  return samples
}
