// Prometheus samples of a gRPC observation, under blackbox_exporter's names where it has them.
import { GRPC_HEALTH_STATES } from './definition.ts'
import type { GrpcObserved } from './observed.ts'
import type { Sample } from '../../contract/observation.ts'
import { tlsSamples } from '../metrics/tls-samples.ts'

/** The samples of one observation. */
export function grpcSamples(observed: Partial<GrpcObserved>): Sample[] {
  const { phases, family, tls, statusCode, healthStatus } = observed
  if (phases === undefined) return []
  const duration = (phase: string, ms: number | undefined): Sample => ({
    name: 'probe_grpc_duration_seconds',
    value: (ms ?? 0) / 1000,
    labels: { phase },
  })
  const connectMs = (phases.connectMs ?? 0) + (phases.proxyMs ?? 0)
  const callMs = (phases.firstByteMs ?? 0) + (phases.downloadMs ?? 0)
  const samples: Sample[] = [
    { name: 'probe_grpc_ssl', value: tls === undefined ? 0 : 1 },
    { name: 'probe_dns_lookup_time_seconds', value: (phases.dnsMs ?? 0) / 1000 },
    duration('resolve', phases.dnsMs),
    duration('connect', connectMs),
    duration('tls', phases.tlsMs),
    duration('reflection', phases.reflectionMs),
    duration('processing', phases.firstByteMs),
    duration('transfer', phases.downloadMs),
    // The exporter's only phase after `resolve`.
    duration('check', connectMs + (phases.tlsMs ?? 0) + callMs),
  ]
  if (statusCode !== undefined) samples.push({ name: 'probe_grpc_status_code', value: statusCode })
  if (observed.mode === 'HEALTH') {
    for (const state of GRPC_HEALTH_STATES) {
      samples.push({
        name: 'probe_grpc_healthcheck_response',
        value: state === healthStatus ? 1 : 0,
        labels: { serving_status: state },
      })
    }
  }
  if (family !== undefined) {
    samples.push({ name: 'probe_ip_protocol', value: family === 'IPv6' ? 6 : 4 })
  }
  if (tls !== undefined) samples.push(...tlsSamples(tls))
  return samples
}
