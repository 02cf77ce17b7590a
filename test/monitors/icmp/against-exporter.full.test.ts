// Aim: on the same targets, ICMP monitors and blackbox_exporter come to the same verdict and see the same
// family and hop limit. Facts that only one column shows have no metric in the exporter.
import { execFileSync } from 'node:child_process'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { aboutWhom } from '../../../src/monitors/definitions.ts'
import { icmp } from '../../../src/monitors/icmp/index.ts'
import type { Sample } from '../../../src/contract/observation.ts'
import { startExporter, type Exporter } from '../../support/monitors/blackbox-exporter.ts'
import { icmpMonitor } from '../../support/monitors/icmp/icmp-process.ts'
import { testContext } from '../../support/monitors/monitor-context.ts'
import { missing } from '../../support/needs.ts'
import {
  createNetworkNamespace,
  type NetworkNamespace,
} from '../../support/network/network-namespace.ts'

const why =
  missing('prometheus-blackbox-exporter', 'ip', 'nft') ??
  (process.getuid?.() === 0 ? undefined : 'needs root')

const MODULES = `
  v4: { prober: icmp, timeout: 2s, icmp: { preferred_ip_protocol: ip4, ip_protocol_fallback: false } }
  v6: { prober: icmp, timeout: 2s, icmp: { preferred_ip_protocol: ip6, ip_protocol_fallback: false } }
  hop: { prober: icmp, timeout: 2s, icmp: { preferred_ip_protocol: ip4, ttl: 1 } }
  large: { prober: icmp, timeout: 2s, icmp: { preferred_ip_protocol: ip4, payload_size: 9000 } }
  whole: { prober: icmp, timeout: 2s, icmp: { preferred_ip_protocol: ip4, payload_size: 9000, dont_fragment: true } }
`

interface Row {
  what: string
  module: string
  /** Where; `neighbour` is a host next to the agent's, `silent` one that answers nothing. */
  target: string
  succeeds: boolean
  /** What we say and the exporter does not. */
  code?: string
}

const ROWS: Row[] = [
  { what: 'loopback', module: 'v4', target: '127.0.0.1', succeeds: true },
  { what: 'loopback of IPv6', module: 'v6', target: '::1', succeeds: true },
  { what: 'a name', module: 'v4', target: 'localhost', succeeds: true },
  { what: 'a neighbour', module: 'v4', target: 'neighbour', succeeds: true },
  { what: 'a neighbour within one hop', module: 'hop', target: 'neighbour', succeeds: true },
  { what: 'a large payload, in fragments', module: 'large', target: 'neighbour', succeeds: true },
  {
    what: 'a large payload that must not be fragmented',
    module: 'whole',
    target: 'neighbour',
    succeeds: false,
    code: 'ICMP_TOO_LARGE',
  },
  {
    what: 'a host that keeps silent',
    module: 'v4',
    target: 'silent',
    succeeds: false,
    code: 'ICMP_PACKET_LOSS',
  },
  {
    what: 'a host that objects',
    module: 'v4',
    target: 'objecting',
    succeeds: false,
    code: 'ICMP_UNREACHABLE',
  },
  { what: 'a name that does not exist', module: 'v4', target: 'no.such.invalid', succeeds: false },
]

/** A literal is taken as it is; the exporter insists on the family. */
const OTHER_FAMILY: Row = {
  what: 'a literal of the other family',
  module: 'v6',
  target: '127.0.0.1',
  succeeds: true,
}

/** The exporter's modules, as fields of a request. */
const REQUESTS: Record<string, Record<string, unknown>> = {
  v4: {},
  v6: { ipFamily: 'IPv6' },
  hop: { ttl: 1 },
  large: { payloadBytes: 9000 },
  whole: { payloadBytes: 9000, dontFragment: true },
}

describe.skipIf(why !== undefined)(`compared with blackbox_exporter ${why ?? ''}`, () => {
  let exporter: Exporter
  let neighbour: NetworkNamespace
  let silent: NetworkNamespace
  let objecting: NetworkNamespace
  let places: Record<string, string>

  const inside = ({ prefix }: NetworkNamespace, ...command: string[]) => {
    const [program = '', ...args] = prefix
    execFileSync(program, [...args, ...command])
  }

  beforeAll(async () => {
    exporter = await startExporter(MODULES)
    neighbour = createNetworkNamespace()
    silent = createNetworkNamespace()
    inside(silent, 'sysctl', '-qw', 'net.ipv4.icmp_echo_ignore_all=1')
    objecting = createNetworkNamespace()
    inside(objecting, 'sysctl', '-qw', 'net.ipv4.icmp_ratelimit=0')
    inside(
      objecting,
      'nft',
      'table inet t { chain c { type filter hook input priority 0; icmp type echo-request reject with icmp type host-unreachable; }; }',
    )
    places = {
      neighbour: neighbour.address,
      silent: silent.address,
      objecting: objecting.address,
    }
  })
  afterAll(async () => {
    await exporter.close()
    for (const namespace of [neighbour, silent, objecting]) namespace.remove()
  })

  /** What each of the two measured. */
  async function both({ module, target }: Row) {
    const hostname = places[target] ?? target
    const theirs = await exporter.measure(module, hostname)
    const request = { hostname, pingCount: 1, timeoutMs: 500, ...REQUESTS[module] }
    const observation = await icmp.prepare(icmpMonitor({ request }))(testContext())
    const samples = icmp.samples(observation.observed)
    const ours = (name: string) => samples.find((one: Sample) => one.name === name)?.value
    return { theirs, observation, ours }
  }

  test.each(ROWS)('$what: success is $succeeds', async (row) => {
    const { theirs, observation, ours } = await both(row)
    expect(theirs.get('probe_success')).toBe(row.succeeds ? 1 : 0)
    expect(observation.failures.length === 0).toBe(row.succeeds)
    expect(observation.failures.every((one) => aboutWhom(one) === 'target')).toBe(true)
    const codes = observation.failures.map(({ code }) => code)
    expect(codes).toEqual(expect.arrayContaining(row.code === undefined ? [] : [row.code]))
    const shared = row.succeeds ? ['probe_ip_protocol', 'probe_icmp_reply_hop_limit'] : []
    for (const name of shared) expect([name, ours(name)]).toEqual([name, theirs.get(name)])
  })

  test('a literal is taken as it is, where the exporter insists on the family', async () => {
    const { theirs, observation } = await both(OTHER_FAMILY)
    expect(theirs.get('probe_success')).toBe(0)
    expect(observation.failures).toEqual([])
  })
})
