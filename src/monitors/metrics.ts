// Metrics that several types of monitor give: of a connection, and of its TLS handshake under the names that
// blackbox_exporter gave them.
import type { Sample } from '../contract/observation.ts'
import type { PeerFacts } from '../network/tls/facts.ts'

/** What an observation shows of its connection; phases in milliseconds. */
export interface ConnectionObserved {
  family?: string | undefined
  phases?: (object & { dnsMs?: number }) | undefined
}

/** Labels of phases that have another name than the phase: `tlsMs` is `tls`. */
const PHASE_LABELS: Readonly<Record<string, string>> = {
  dnsMs: 'resolve',
  startTlsMs: 'starttls',
  firstByteMs: 'processing',
  downloadMs: 'transfer',
}
/** The whole, and a part of another phase. */
const NO_SAMPLES: ReadonlySet<string> = new Set(['totalMs', 'sendMs'])

/** Version of IP, time of the look-up, and `metric`, if given, for each phase. */
export function connectionSamples(
  { family, phases }: ConnectionObserved,
  metric?: string,
): Sample[] {
  const samples: Sample[] = []
  if (family !== undefined) {
    samples.push({ name: 'probe_ip_protocol', value: family === 'IPv6' ? 6 : 4 })
  }
  if (phases === undefined) return samples
  samples.push({ name: 'probe_dns_lookup_time_seconds', value: (phases.dnsMs ?? 0) / 1000 })
  if (metric === undefined) return samples
  for (const [name, ms] of Object.entries<number>(phases)) {
    if (NO_SAMPLES.has(name)) continue
    const phase = PHASE_LABELS[name] ?? name.replace(/Ms$/, '')
    samples.push({ name: metric, value: ms / 1000, labels: { phase } })
  }
  return samples
}

/**
 * Metrics of a TLS handshake, for every type of monitor that speaks it. `chainExpiry` is that of the trusted chain, where
 * it is known apart from the one that was sent.
 */
export function tlsSamples(
  tls: Pick<PeerFacts, 'protocol' | 'cipher' | 'chainTrusted' | 'earliestExpiry'>,
  chainExpiry = tls.earliestExpiry,
): Sample[] {
  const version = tls.protocol.replace(/^TLSv1$/, 'TLSv1.0').replace(/^(TLS|SSL)v?/, '$1 ')
  const samples: Sample[] = [
    { name: 'probe_tls_version_info', value: 1, labels: { version } },
    { name: 'probe_tls_cipher_info', value: 1, labels: { cipher: tls.cipher } },
  ]
  const add = (name: string, iso: string) => samples.push({ name, value: Date.parse(iso) / 1000 })
  if (tls.earliestExpiry !== undefined) add('probe_ssl_earliest_cert_expiry', tls.earliestExpiry)
  if (chainExpiry !== undefined && tls.chainTrusted) {
    add('probe_ssl_last_chain_expiry_timestamp_seconds', chainExpiry)
  }
  return samples
}
