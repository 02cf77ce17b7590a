// The metrics of URL and API monitors, under the names that blackbox_exporter gave them.
import type { HttpObserved } from './observed.ts'
import type { Sample } from '../../contract/observation.ts'
import { tlsSamples } from '../metrics/tls-samples.ts'

/** Metrics of one observation, without those that were not measured. */
export function httpSamples(observed: HttpObserved): Sample[] {
  const { phases, statusCode, response, tls } = observed
  const duration = (phase: string, valueMs: number | undefined): Sample => ({
    name: 'probe_http_duration_seconds',
    value: (valueMs ?? 0) / 1000,
    labels: { phase },
  })
  const samples: Sample[] = [
    { name: 'probe_http_status_code', value: statusCode ?? 0 },
    { name: 'probe_http_redirects', value: observed.redirects },
    { name: 'probe_http_ssl', value: tls !== undefined && isSecure(observed) ? 1 : 0 },
    { name: 'probe_dns_lookup_time_seconds', value: (phases.dnsMs ?? 0) / 1000 },
    duration('resolve', phases.dnsMs),
    duration('connect', (phases.connectMs ?? 0) + (phases.proxyMs ?? 0)),
    duration('tls', phases.tlsMs),
    duration('processing', (phases.sendMs ?? 0) + (phases.firstByteMs ?? 0)),
    duration('transfer', phases.downloadMs),
  ]
  if (observed.family !== undefined) {
    samples.push({ name: 'probe_ip_protocol', value: observed.family === 'IPv4' ? 4 : 6 })
  }
  if (observed.httpVersion !== undefined) {
    samples.push({ name: 'probe_http_version', value: Number(observed.httpVersion) })
  }
  if (response !== undefined) {
    // The exporter says -1 where the length is not known.
    samples.push(
      { name: 'probe_http_content_length', value: response.contentLength ?? -1 },
      { name: 'probe_http_uncompressed_body_length', value: response.unpackedBytes },
    )
  }
  if (tls !== undefined) samples.push(...tlsSamples(tls))
  return samples
}

function isSecure(observed: HttpObserved): boolean {
  return observed.hops.at(-1)?.url.startsWith('https:') === true
}
