// Prometheus samples of an ICMP observation, under blackbox_exporter's names where it has them, and
// names like those of synthetic monitoring agents for statistics of several echoes.
import type { Sample } from '../../contract/observation.ts'
import type { IcmpObserved } from './observed.ts'

/** The samples of one observation, as `observed` of an ICMP monitor has it. */
export function icmpSamples(observed: Record<string, unknown>): Sample[] {
  const facts = observed as Partial<IcmpObserved>
  const samples: Sample[] = []
  const add = (name: string, value: number | undefined, labels?: Record<string, string>) => {
    if (value === undefined) return
    samples.push(labels === undefined ? { name, value } : { name, value, labels })
  }
  const { dnsResolutionTime, setupTime, latency, packetsSent = 0, packetsReceived = 0 } = facts
  if (facts.resolvedIp !== undefined) add('probe_ip_protocol', facts.ipFamily === 'IPv6' ? 6 : 4)
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
  add('probe_icmp_jitter_seconds', seconds(facts.jitter))
  add('probe_icmp_duplicates_count', facts.duplicates)
  add('probe_icmp_out_of_order_count', facts.outOfOrder)
  add('probe_icmp_corrupted_count', facts.corrupted)
  const newest = facts.pingResults?.findLast(({ success }) => success)
  add('probe_icmp_reply_hop_limit', newest?.ttl)
  return samples
}

function seconds(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : ms / 1000
}
