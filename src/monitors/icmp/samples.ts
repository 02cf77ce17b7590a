// What an observation of an ICMP monitor gives Prometheus: blackbox_exporter's names where it has them, and
// names in the way of synthetic monitoring agents for what needs more than one echo.
import type { Sample } from '../../contract/observation.ts'
import type { IcmpObserved } from './observed.ts'

/** The samples of one observation, as `observed` of an ICMP monitor has it. */
export function icmpSamples(observed: Record<string, unknown>): Sample[] {
  const seen = observed as Partial<IcmpObserved>
  const samples: Sample[] = []
  const add = (name: string, value: number | undefined, labels?: Record<string, string>) => {
    if (value === undefined) return
    samples.push(labels === undefined ? { name, value } : { name, value, labels })
  }
  const { dnsResolutionTime, setupTime, latency, packetsSent = 0, packetsReceived = 0 } = seen
  if (seen.resolvedIp !== undefined) add('probe_ip_protocol', seen.ipFamily === 'IPv6' ? 6 : 4)
  add('probe_dns_lookup_time_seconds', seconds(dnsResolutionTime))
  const phases = { resolve: dnsResolutionTime, setup: setupTime, rtt: latency?.avg }
  for (const [phase, ms] of Object.entries(phases)) {
    add('probe_icmp_duration_seconds', seconds(ms), { phase })
  }
  add('probe_icmp_packets_sent_count', packetsSent)
  add('probe_icmp_packets_received_count', packetsReceived)
  if (packetsSent > 0) add('probe_icmp_packet_loss_ratio', 1 - packetsReceived / packetsSent)
  add('probe_icmp_rtt_min_seconds', seconds(latency?.min))
  add('probe_icmp_rtt_max_seconds', seconds(latency?.max))
  add('probe_icmp_rtt_stddev_seconds', seconds(latency?.stdDev))
  add('probe_icmp_jitter_seconds', seconds(seen.jitter))
  add('probe_icmp_duplicates_count', seen.duplicates)
  add('probe_icmp_out_of_order_count', seen.outOfOrder)
  add('probe_icmp_corrupted_count', seen.corrupted)
  const newest = seen.pingResults?.findLast(({ success }) => success)
  add('probe_icmp_reply_hop_limit', newest?.ttl)
  return samples
}

function seconds(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : ms / 1000
}
