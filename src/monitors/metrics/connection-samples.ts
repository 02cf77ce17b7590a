// Metrics of a connection that several types of monitor give: its address and the time of its phases.
import type { Sample } from '../../contract/observation.ts'

/** What an observation shows of its connection; phases in milliseconds. */
export interface ConnectionObserved {
  family?: string | undefined
  phases?: (object & { dnsMs?: number }) | undefined
}

/** Version of IP, time of the look-up, and `metric`, if given, for each phase that `names` gives a label. */
export function connectionSamples(
  { family, phases }: ConnectionObserved,
  metric?: string,
  names: Readonly<Record<string, string>> = {},
): Sample[] {
  const samples: Sample[] = []
  if (family !== undefined) {
    samples.push({ name: 'probe_ip_protocol', value: family === 'IPv6' ? 6 : 4 })
  }
  if (phases === undefined) return samples
  samples.push({ name: 'probe_dns_lookup_time_seconds', value: (phases.dnsMs ?? 0) / 1000 })
  if (metric === undefined) return samples
  for (const [name, ms] of Object.entries<number>(phases)) {
    const phase = names[name]
    if (phase !== undefined) samples.push({ name: metric, value: ms / 1000, labels: { phase } })
  }
  return samples
}
