// Prometheus samples of a DNS observation, under blackbox_exporter's names where it has them.
import type { DnsObserved } from './run.ts'
import type { Sample } from '../../contract/observation.ts'
import { connectionSamples } from '../metrics/connection-samples.ts'
import { tlsSamples } from '../metrics/tls-samples.ts'

/** The samples of one observation, as `observed` of a DNS monitor has it. */
export function dnsSamples(observed: Record<string, unknown>): Sample[] {
  const { recordType, family, phases, counts, response, tls } = observed as unknown as DnsObserved
  const samples: Sample[] = [
    { name: 'probe_dns_query_succeeded', value: response === undefined ? 0 : 1 },
    { name: 'probe_dns_answer_rrs', value: counts?.answers ?? 0 },
    { name: 'probe_dns_authority_rrs', value: counts?.authorities ?? 0 },
    { name: 'probe_dns_additional_rrs', value: counts?.additionals ?? 0 },
  ]
  samples.push(...connectionSamples('probe_dns_duration_seconds', { family, phases }, PHASES))
  const serial = recordType === 'SOA' ? serialOf(response) : undefined
  if (serial !== undefined) samples.push({ name: 'probe_dns_serial', value: serial })
  if (tls !== undefined) samples.push(...tlsSamples(tls))
  return samples
}

function serialOf(response: DnsObserved['response']): number | undefined {
  const serial = response?.Answer.find(({ type }) => type === 'SOA')?.fields?.['serial']
  return typeof serial === 'number' ? serial : undefined
}

const PHASES: Record<string, string> = {
  dnsMs: 'resolve',
  connectMs: 'connect',
  proxyMs: 'proxy',
  tlsMs: 'tls',
  truncatedMs: 'truncated',
  requestMs: 'request',
}
