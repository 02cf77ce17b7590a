// Prometheus samples of a TCP observation, under blackbox_exporter's names where it has them.
import type { Sample } from '../../contract/observation.ts'
import { connectionSamples } from '../metrics/connection-samples.ts'
import type { Probe } from './connection.ts'
import { tlsSamples } from '../metrics/tls-samples.ts'

/** The samples of one observation, as `observed` of a TCP monitor has it. */
export function tcpSamples(observed: Record<string, unknown>): Sample[] {
  const { phases, family, tls, failedDueToRegex } = observed as Partial<Probe>
  const samples: Sample[] = [
    { name: 'probe_failed_due_to_regex', value: failedDueToRegex === true ? 1 : 0 },
  ]
  samples.push(...connectionSamples('probe_tcp_duration_seconds', { family, phases }, PHASES))
  if (tls !== undefined) samples.push(...tlsSamples(tls))
  return samples
}

const PHASES: Record<string, string> = {
  dnsMs: 'resolve',
  connectMs: 'connect',
  proxyMs: 'proxy',
  tlsMs: 'tls',
  firstByteMs: 'processing',
  downloadMs: 'transfer',
}
