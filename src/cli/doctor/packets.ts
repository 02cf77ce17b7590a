// Probes the permissions for ICMP and traceroute: runs these monitors against the loopback.
import type { Failure } from '../../contract/failure.ts'
import { IcmpMonitor } from '../../monitors/icmp/definition.ts'
import { TracerouteMonitor } from '../../monitors/traceroute/definition.ts'
import { createDialler } from '../../network/dialler.ts'
import { icmp } from '../../monitors/icmp/index.ts'
import { SystemCallError } from '../../network/native/system-call-error.ts'
import type { AnyMonitorType } from '../../monitors/monitor.ts'
import type { Observation } from '../../contract/observation.ts'
import { loadNative } from '../../network/native/native.ts'
import { createNetworkPolicy } from '../../network/network-policy.ts'
import { createResolver } from '../../network/dns/resolver.ts'
import { traceroute } from '../../monitors/traceroute/index.ts'
import type { Finding } from './finding.ts'

const LOOPBACK = { IPv4: '127.0.0.1', IPv6: '::1' } as const
const NAMED = { id: 'doctor', name: 'doctor' }
const FAMILIES = ['IPv4', 'IPv6'] as const
const TRACED = ['TCP', 'UDP', 'ICMP'] as const

/** Probes ICMP echoes over IPv4 and IPv6, and raw sockets. */
export async function probeIcmp(signal: AbortSignal): Promise<Finding[]> {
  const [raw, ...observations] = await Promise.all([
    rawSockets(),
    ...FAMILIES.map(async (ipFamily) => {
      const request = { hostname: LOOPBACK[ipFamily], ipFamily, pingCount: 1 }
      return run(icmp, IcmpMonitor.parse({ ...NAMED, checkType: 'ICMP', request }), signal)
    }),
  ])
  const [over4, over6] = observations.map(({ failures }) => failures[0])
  const facts = { socket: observations[0]?.observed['socket'], raw, IPv6: over6 === undefined }
  if (over4 !== undefined) return [refused('icmp', over4.code, [over4], facts)]
  const sockets = facts.socket === 'raw' ? 'raw sockets' : 'datagram sockets'
  const also = over6 === undefined ? '; IPv6, too' : `; not over IPv6 (${over6.code})`
  return [{ id: 'icmp', standing: 'works', says: `IPv4 by ${sockets}${also}`, facts }]
}

/** Probes traceroutes with TCP, UDP and ICMP. */
export async function probeTraceroute(signal: AbortSignal): Promise<Finding[]> {
  const traced = await Promise.all(
    TRACED.map(async (protocol) => {
      const own = { probesPerHop: 1, timeout: 5, ptrLookup: false }
      const request = { url: LOOPBACK.IPv4, protocol, ...own }
      const monitor = TracerouteMonitor.parse({ ...NAMED, checkType: 'TRACEROUTE', request })
      const { failures } = await run(traceroute, monitor, signal)
      return { protocol, failure: failures[0] }
    }),
  )
  const failures = traced.flatMap(({ failure }) => failure ?? [])
  const bad = traced.filter(({ failure }) => failure !== undefined)
  const raw = await rawSockets()
  const facts = {
    ...Object.fromEntries(traced.map(({ protocol, failure }) => [protocol, !failure])),
    SCTP: raw === true,
  }
  if (bad.length > 0) {
    const codes = bad.map(({ protocol, failure }) => `${protocol}: ${failure?.code}`).join(', ')
    return [refused('traceroute', codes, failures, facts)]
  }
  const sctp =
    raw === true ? 'TCP, UDP, ICMP and SCTP' : 'TCP, UDP and ICMP; SCTP needs raw sockets'
  return [{ id: 'traceroute', standing: 'works', says: sctp, facts }]
}

function refused(
  id: 'icmp' | 'traceroute',
  codes: string,
  failures: readonly Failure[],
  facts: Record<string, unknown>,
): Finding {
  const isForbidden = failures.some(({ code }) => code === 'ICMP_NOT_PERMITTED')
  const range = failures.find(({ details }) => details?.['pingGroupRange'] !== undefined)?.details
  const now =
    range === undefined ? '' : `, ping_group_range is "${String(range['pingGroupRange'])}"`
  if (!isForbidden) {
    return { id, standing: 'broken', says: failures[0]?.message ?? codes, facts }
  }
  const says = `this system does not permit ICMP echo requests for this user (${codes}${now})`
  const fix =
    'set net.ipv4.ping_group_range="0 2147483647"  (docker run --sysctl, sysctls of the pod, or with --network host sysctl -w on the host)'
  return { id, standing: 'broken', says, fix, facts }
}

/** Runs a monitor against the loopback, regardless of BLOCKED_NETWORKS. */
async function run(
  type: AnyMonitorType,
  monitor: unknown,
  signal: AbortSignal,
): Promise<Observation> {
  const policy = createNetworkPolicy({ blocked: [], allowed: [] })
  const resolver = createResolver({ useOsResolver: false })
  return type.prepare(monitor)({ signal, dial: createDialler({ policy, resolver }) })
}

/** True if a raw socket can be opened, else the error code. */
async function rawSockets(): Promise<true | string> {
  try {
    const native = await loadNative()
    native.open({ family: 'IPv4', type: 'raw', protocol: 'icmp' }).close()
    return true
  } catch (error) {
    return error instanceof SystemCallError ? error.code : (error as Error).message
  }
}
