// Prometheus samples of an SSL observation, under blackbox_exporter's names where it has them.
import { isIP } from 'node:net'
import type { Sample } from '../../contract/observation.ts'
import { connectionSamples } from '../metrics/connection-samples.ts'
import type { ConnectionFacts, SslProbe } from './report.ts'

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
export function sslSamples(observed: Record<string, unknown>): Sample[] {
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
