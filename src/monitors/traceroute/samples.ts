// Prometheus samples of a traceroute observation, under the names of Grafana's synthetic monitoring
// agent where it has them.
import type { Sample } from '../../contract/observation.ts'
import type { TraceObserved } from './observed.ts'

/** The samples of one observation, as `observed` of a traceroute monitor has it. */
export function tracerouteSamples(observed: Record<string, unknown>): Sample[] {
  const trace = observed as Partial<TraceObserved>
  const samples: Sample[] = []
  if (trace.phases?.dnsMs !== undefined) {
    samples.push({ name: 'probe_dns_lookup_time_seconds', value: trace.phases.dnsMs / 1000 })
  }
  if (trace.family !== undefined) {
    samples.push({ name: 'probe_ip_protocol', value: trace.family === 'IPv6' ? 6 : 4 })
  }
  if (trace.hops === undefined) return samples
  samples.push(
    { name: 'probe_traceroute_total_hops', value: trace.hopCount ?? 0 },
    { name: 'probe_traceroute_route_hash', value: Number.parseInt(trace.pathHash ?? '0', 16) },
    { name: 'probe_traceroute_packet_loss_percent', value: trace.lossPercent ?? 100 },
    { name: 'probe_traceroute_target_loss_percent', value: trace.targetLossPercent ?? 100 },
    { name: 'probe_traceroute_reached', value: trace.reached === true ? 1 : 0 },
    { name: 'probe_traceroute_route_changed', value: trace.pathChanged === true ? 1 : 0 },
  )
  for (const [statistic, ms] of Object.entries(trace.responseTime ?? {})) {
    const labels = { statistic: STATISTICS[statistic] ?? statistic }
    samples.push({ name: 'probe_traceroute_duration_seconds', value: ms / 1000, labels })
  }
  if (trace.mtu !== undefined) {
    samples.push({ name: 'probe_traceroute_mtu_bytes', value: trace.mtu.bytes })
  }
  return samples
}

const STATISTICS: Record<string, string> = { stdDev: 'stddev' }
