// The metrics of a TLS handshake, under the names that blackbox_exporter gave them.
import type { Sample } from '../../contract/observation.ts'
import type { PeerFacts } from '../../network/tls/facts.ts'

/** Metrics of a TLS handshake, for every type of monitor that speaks it. */
export function tlsSamples(tls: PeerFacts): Sample[] {
  const samples: Sample[] = [
    {
      name: 'probe_tls_version_info',
      value: 1,
      labels: { version: tls.protocol.replace(/^TLSv1$/, 'TLSv1.0').replace('TLSv', 'TLS ') },
    },
    { name: 'probe_tls_cipher_info', value: 1, labels: { cipher: tls.cipher } },
  ]
  if (tls.earliestExpiry === undefined) return samples
  const seconds = Date.parse(tls.earliestExpiry) / 1000
  samples.push({ name: 'probe_ssl_earliest_cert_expiry', value: seconds })
  if (tls.chainTrusted) {
    samples.push({ name: 'probe_ssl_last_chain_expiry_timestamp_seconds', value: seconds })
  }
  return samples
}
