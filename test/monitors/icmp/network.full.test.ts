// Aim: in a real network of namespaces, ICMP monitors say what became of their echoes and who objected: over
// both families, without any privilege and with a raw socket; and they say what to allow where neither is.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { IcmpObserved } from '../../../src/monitors/icmp/observed.ts'
import type { Observation } from '../../../src/contract/observation.ts'
import { eventually } from '../../support/eventually.ts'
import { AS_NOBODY } from '../../support/as-nobody.ts'
import { createHopChain, WAY, type HopChain, type Host } from '../../support/monitors/hop-chain.ts'
import { startMonitorProcess } from '../../support/monitors/monitor-process.ts'
import { missing } from '../../support/needs.ts'

const why = missing('ip', 'nft') ?? (process.getuid?.() === 0 ? undefined : 'needs root')
const ALLOW = 'sysctl -qw net.ipv4.ping_group_range="0 2147483647"'
const FORBID = 'sysctl -qw net.ipv4.ping_group_range="1 0"'

type Family = 'IPv4' | 'IPv6'
const FAMILIES = ['IPv4', 'IPv6'] as const
/** The first router, and the one behind it, which is the target here. */
const ROUTER = { IPv4: WAY.IPv4[0] ?? '', IPv6: WAY.IPv6[0] ?? '' }
const TARGET = { IPv4: WAY.IPv4[1] ?? '', IPv6: WAY.IPv6[1] ?? '' }
const NOBODY = { IPv4: '10.77.2.99', IPv6: 'fd77:2::99' }
/** Networks to which the client, but not the router has a route, and neither. */
const BEYOND = { IPv4: '10.9.0.1', IPv6: 'fd09::1' }
const NOWHERE = { IPv4: '203.0.113.1', IPv6: 'fd99::1' }

let chain: HopChain
const shell = (host: Host, command: string) => chain.run(host, 'sh', '-ec', command)

beforeAll(() => {
  if (why !== undefined) return
  chain = createHopChain()
  for (const family of FAMILIES) {
    chain.route('client', family, 'add', BEYOND[family], 'via', ROUTER[family])
  }
  // A router needs seconds to find that a neighbour is missing. With one short try it could miss the target, too:
  // it knows the target from the beginning.
  const ethernet = /ether (\S+)/.exec(shell('r2', 'ip link show to-r1'))?.[1]
  for (const [family, version] of [['IPv4', 'ipv4'] as const, ['IPv6', 'ipv6'] as const]) {
    const neighbours = `net.${version}.neigh.to-r2`
    shell('r1', `sysctl -qw ${neighbours}.mcast_solicit=1 ${neighbours}.retrans_time_ms=50`)
    shell('r1', `ip neigh replace ${TARGET[family]} lladdr ${ethernet} dev to-r2 nud permanent`)
  }
})
afterAll(() => chain?.[Symbol.dispose]())

interface IcmpOptions {
  request: Record<string, unknown>
}

/** Runs the monitors at once in a process behind the prefix (a namespace, another user). */
async function observeElsewhere(
  prefix: readonly string[],
  options: readonly IcmpOptions[],
): Promise<Observation[]> {
  await using elsewhere = await startMonitorProcess(prefix)
  const runs = await Promise.all(options.map((one) => elsewhere.run({ checkType: 'ICMP', ...one })))
  return runs.flatMap(({ observation }) => observation ?? [])
}

function codesOf(observation: Observation | undefined): string[] {
  return (observation?.failures ?? []).map(({ code }) => code)
}

function observedOf(observation: Observation | undefined): IcmpObserved {
  return observation?.observed as unknown as IcmpObserved
}

/** Runs in the client as nobody with unprivileged echoes, or as root without them. */
function prefixFor(kind: 'datagram' | 'raw'): string[] {
  shell('client', kind === 'datagram' ? ALLOW : FORBID)
  return [...chain.prefix('client'), ...(kind === 'datagram' ? AS_NOBODY : [])]
}

/** One network condition. */
interface NetworkCase {
  what: string
  family: Family
  to: Record<Family, string>
  request?: Record<string, unknown>
  /** Changes the network, and undoes it. */
  breaks?: [host: Host, command: string, undo: string]
  codes: string[]
  /** Of the first error. */
  error?: { error: string; from?: string; mtu?: number }
  loss: number
}

const firewall = (host: Host, hook: string, rule: string): [Host, string, string] => [
  host,
  `nft 'table inet t { chain c { type filter hook ${hook} priority 0; ${rule}; }; }'`,
  'nft delete table inet t',
]
const rejecting = (rule: string) => ({ breaks: firewall('r2', 'input', rule) })

const passes = (what: string, family: Family, request = {}): NetworkCase => ({
  what,
  family,
  request,
  to: TARGET,
  codes: [],
  loss: 0,
})

/** All echoes are lost, to this error. */
const lost = (
  what: string,
  family: Family,
  code: string,
  error: NetworkCase['error'],
  more: Partial<NetworkCase> = {},
): NetworkCase => {
  const codes = [code, 'ICMP_PACKET_LOSS']
  return { what, family, to: TARGET, codes, loss: 100, ...(error && { error }), ...more }
}

const byRouter = (family: Family, error: string) => ({ error, from: ROUTER[family] })
const byTarget = (family: Family, error: string) => ({ error, from: TARGET[family] })
const ONE = { request: { pingCount: 1 }, to: BEYOND }
const PROHIBITED = 'communication prohibited'
const SMALL: Partial<NetworkCase> = {
  request: { payloadBytes: 1400, dontFragment: true },
  breaks: ['r1', 'ip link set to-r2 mtu 1400', 'ip link set to-r2 mtu 1500'],
}
const tooLarge = (payloadBytes: number) => ({ request: { payloadBytes, dontFragment: true } })
const INTERFACE = { error: 'packet too large for the interface', mtu: 1500 }

const CASES: NetworkCase[] = [
  passes('a target behind a router answers', 'IPv4'),
  passes('so does one of IPv6', 'IPv6'),
  passes('two hops are enough', 'IPv4', { ttl: 2 }),
  passes('a packet fits the MTU to the byte', 'IPv4', { payloadBytes: 1472, dontFragment: true }),
  passes('a packet that may be fragmented', 'IPv4', { payloadBytes: 60_000 }),
  passes('a packet of IPv6 that may be fragmented', 'IPv6', { payloadBytes: 60_000 }),
  lost('one hop', 'IPv4', 'ICMP_TTL_EXCEEDED', byRouter('IPv4', 'TTL exceeded in transit'), {
    request: { ttl: 1 },
  }),
  lost('one hop', 'IPv6', 'ICMP_TTL_EXCEEDED', byRouter('IPv6', 'hop limit exceeded in transit'), {
    request: { ttl: 1 },
  }),
  lost('no way', 'IPv4', 'ICMP_UNREACHABLE', byRouter('IPv4', 'network unreachable'), ONE),
  lost('no way', 'IPv6', 'ICMP_UNREACHABLE', byRouter('IPv6', 'no route to destination'), ONE),
  lost('nobody there', 'IPv4', 'ICMP_UNREACHABLE', byRouter('IPv4', 'host unreachable'), {
    to: NOBODY,
  }),
  lost('nobody there', 'IPv6', 'ICMP_UNREACHABLE', byRouter('IPv6', 'address unreachable'), {
    to: NOBODY,
  }),
  lost('a prohibiting route', 'IPv4', 'ICMP_PROHIBITED', byRouter('IPv4', PROHIBITED), {
    ...ONE,
    breaks: ['r1', 'ip route add prohibit 10.9.0.0/24', 'ip route delete prohibit 10.9.0.0/24'],
  }),
  lost('the target prohibits', 'IPv4', 'ICMP_PROHIBITED', byTarget('IPv4', 'host prohibited'), {
    ...rejecting('icmp type echo-request reject with icmp type host-prohibited'),
  }),
  lost('the target has no port', 'IPv4', 'ICMP_UNREACHABLE', byTarget('IPv4', 'port unreachable'), {
    ...rejecting('icmp type echo-request reject with icmp type port-unreachable'),
  }),
  lost('the target prohibits', 'IPv6', 'ICMP_PROHIBITED', byTarget('IPv6', PROHIBITED), {
    ...rejecting('icmpv6 type echo-request reject with icmpv6 type admin-prohibited'),
  }),
  lost(
    'a small MTU',
    'IPv4',
    'ICMP_TOO_LARGE',
    { ...byRouter('IPv4', 'fragmentation needed'), mtu: 1400 },
    SMALL,
  ),
  lost(
    'a small MTU',
    'IPv6',
    'ICMP_TOO_LARGE',
    { ...byRouter('IPv6', 'packet too big'), mtu: 1400 },
    SMALL,
  ),
  lost('a byte too many for our interface', 'IPv4', 'ICMP_TOO_LARGE', INTERFACE, tooLarge(1473)),
  lost('a byte too many for our interface', 'IPv6', 'ICMP_TOO_LARGE', INTERFACE, tooLarge(1453)),
  ...FAMILIES.map((family) =>
    lost(
      'no route of our own',
      family,
      'CONNECT_UNREACHABLE',
      { error: 'not sent: ENETUNREACH' },
      { to: NOWHERE },
    ),
  ),
  {
    ...passes('a target that swallows every second echo', 'IPv4', {
      pingCount: 10,
      timeoutMs: 200,
    }),
    ...rejecting('icmp type echo-request numgen inc mod 2 0 drop'),
    codes: ['ICMP_PACKET_LOSS'],
    loss: 50,
  },
]

describe.skipIf(why !== undefined)(`in a network ${why ?? ''}`, () => {
  describe.each(['datagram', 'raw'] as const)('through a %s socket', (kind) => {
    test.each(CASES)('$family: $what', async (one) => {
      const { family: ipFamily, to, request, breaks, codes, error, loss } = one
      const [host, command, undo] = breaks ?? ['client', '', '']
      const prefix = prefixFor(kind)
      shell(host, command)
      try {
        const own = { hostname: to[ipFamily], ipFamily, pingCount: 3, intervalMs: 20 }
        const [observation] = await observeElsewhere(prefix, [{ request: { ...own, ...request } }])
        expect(codesOf(observation)).toEqual(codes)
        const { packetLoss, errors, socket, packetsSent, packetsReceived, pingResults } =
          observedOf(observation)
        expect({ packetLoss, socket }).toEqual({ packetLoss: loss, socket: kind })
        expect(errors[0]).toEqual(error && { ...error, count: packetsSent - packetsReceived })
        // The router is one hop.
        const ttls = pingResults.flatMap(({ success, ttl }) => (success ? [ttl] : []))
        expect(ttls).toEqual(Array(packetsReceived).fill(63))
      } finally {
        shell(host, undo)
      }
    })

    test('errors are distinguished when many targets fail at once', async () => {
      const hosts = [TARGET.IPv4, '10.77.2.98', NOBODY.IPv4, ROUTER.IPv4]
      const options = hosts.flatMap((hostname) =>
        [1, 64].map((ttl) => ({
          request: { hostname, ttl, pingCount: 2, intervalMs: 30, timeoutMs: 500 },
        })),
      )
      const noWay = { request: { hostname: BEYOND.IPv4, pingCount: 1, timeoutMs: 500 } }
      const observations = await observeElsewhere(prefixFor(kind), [...options, noWay])
      const [exceeded, unreachable] = ['ICMP_TTL_EXCEEDED', 'ICMP_UNREACHABLE']
      const first = observations.map((one) => codesOf(one)[0] ?? 'passed')
      expect(first.pop()).toBe(unreachable)
      expect(first.filter((_, at) => at % 2 === 0)).toEqual([
        exceeded,
        exceeded,
        exceeded,
        'passed',
      ])
      expect(first.filter((_, at) => at % 2 === 1)).toEqual([
        'passed',
        unreachable,
        unreachable,
        'passed',
      ])
    })
  })

  test('a cable that is pulled in the middle costs the echoes after it', async () => {
    const prefix = prefixFor('datagram')
    const before = echoesReceived()
    const echoes = { pingCount: 20, intervalMs: 100, timeoutMs: 300 }
    const observing = observeElsewhere(prefix, [{ request: { hostname: TARGET.IPv4, ...echoes } }])
    try {
      await eventually(() => echoesReceived() >= before + 3)
      shell('r2', 'ip link set to-r1 down')
      const [observation] = await observing
      const { packetsSent, packetsReceived, pingResults } = observedOf(observation)
      expect(packetsSent).toBe(20)
      expect(packetsReceived).toBeGreaterThanOrEqual(3)
      expect(packetsReceived).toBeLessThan(20)
      const successes = pingResults.map(({ success }) => success)
      expect(successes).toEqual(successes.toSorted((a, b) => Number(b) - Number(a)))
      expect(codesOf(observation)).toContain('ICMP_PACKET_LOSS')
    } finally {
      shell('r2', 'ip link set to-r1 up; ip route add 10.77.1.0/24 via 10.77.2.1')
    }
  })

  test.each<[string, NonNullable<NetworkCase['breaks']>]>([
    ['firewall', firewall('client', 'output', 'icmp type echo-request drop')],
    [
      'prohibiting route',
      [
        'client',
        `ip route add prohibit ${TARGET.IPv4}/32`,
        `ip route delete prohibit ${TARGET.IPv4}/32`,
      ],
    ],
  ])('a %s of our own is no fault of the target, and ends the run', async (_, breaks) => {
    const [host, command, undo] = breaks
    const prefix = prefixFor('datagram')
    shell(host, command)
    try {
      const request = { hostname: TARGET.IPv4, pingCount: 50 }
      const [observation] = await observeElsewhere(prefix, [{ request }])
      expect(codesOf(observation)).toEqual(['ADDRESS_BLOCKED'])
      expect(observedOf(observation)).toMatchObject({ packetsSent: 0, packetsReceived: 0 })
      expect(observedOf(observation).packetLoss).toBeUndefined()
    } finally {
      shell(host, undo)
    }
  })

  test.each(FAMILIES)('without any permission, %s says what to allow', async (ipFamily) => {
    shell('client', FORBID)
    const prefix = [...chain.prefix('client'), ...AS_NOBODY]
    const hostname = TARGET[ipFamily]
    const [observation] = await observeElsewhere(prefix, [{ request: { hostname, ipFamily } }])
    expect(codesOf(observation)).toEqual(['ICMP_NOT_PERMITTED'])
    const message = observation?.failures[0]?.message
    expect(message).toContain('net.ipv4.ping_group_range="0 2147483647"')
    expect(message).toContain('it is "1 0", and the agent’s groups are 65534')
    expect(message).toContain('--cap-add NET_RAW')
    expect(message).toContain('capabilities: {add: [NET_RAW]}')
  })
})

/** Echo requests that the target has got. */
function echoesReceived(): number {
  const lines = shell('r2', 'cat /proc/net/snmp').split('\n')
  const [names = [], values = []] = lines
    .filter((line) => line.startsWith('Icmp: '))
    .map((line) => line.split(' '))
  return Number(values[names.indexOf('InEchos')])
}
