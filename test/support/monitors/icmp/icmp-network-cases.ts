// Network conditions for echoes, their set-up, and the expected observation of an ICMP monitor.
import type { Place, RoutedNetwork } from '../../network/routed-network.ts'

type Family = 'v4' | 'v6'
/** One network condition. */
export interface NetworkCase {
  what: string
  family: Family
  /** The destination; default: the target. */
  to?: (network: RoutedNetwork) => string
  request?: Record<string, unknown>
  /** Changes the network, and undoes it. */
  breaks?: [place: Place, command: string, undo: string]
  codes: string[]
  /** Of the first error. */
  error?: { error: string; from?: string; mtu?: number } | undefined
  loss: number
}

const OTHER = { v4: '10.9.0.1', v6: 'fd09::1' }
const SMALL_MTU = 'ip link set far mtu 1400'
const OLD_MTU = 'ip link set far mtu 1500'
/** Removes a firewall. */
export const NO_FIREWALL = `nft delete table inet t`
const firewall = (rule: string): [Place, string, string] => [
  'target',
  `nft 'table inet t { chain c { type filter hook input priority 0; ${rule}; }; }'`,
  NO_FIREWALL,
]
const rejecting = (code: string) => firewall(`icmp type echo-request reject with icmp type ${code}`)

const passes = (what: string, family: Family, request = {}): NetworkCase => ({
  what,
  family,
  request,
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
): NetworkCase => ({ what, family, codes: [code, 'ICMP_PACKET_LOSS'], error, loss: 100, ...more })

/** The router sends the error. */
const byRouter = (family: Family, error: string, mtu?: number) => ({
  error,
  from: family === 'v4' ? '10.1.0.1' : 'fd01::1',
  ...(mtu !== undefined && { mtu }),
})
const byTarget = (error: string) => ({ error, from: '10.2.0.2' })

/** Every distinguished condition. */
export const NETWORK_CASES: NetworkCase[] = [
  passes('a target behind a router answers', 'v4'),
  passes('so does one of IPv6', 'v6'),
  passes('two hops are enough', 'v4', { ttl: 2 }),
  passes('a packet fits the MTU to the byte', 'v4', { payloadBytes: 1472, dontFragment: true }),
  passes('a packet that may be fragmented', 'v4', { payloadBytes: 60_000 }),
  passes('a packet of IPv6 that may be fragmented', 'v6', { payloadBytes: 60_000 }),
  lost('one hop', 'v4', 'ICMP_TTL_EXCEEDED', byRouter('v4', 'TTL exceeded in transit'), {
    request: { ttl: 1 },
  }),
  lost('one hop', 'v6', 'ICMP_TTL_EXCEEDED', byRouter('v6', 'hop limit exceeded in transit'), {
    request: { ttl: 1 },
  }),
  lost('no way', 'v4', 'ICMP_UNREACHABLE', byRouter('v4', 'network unreachable'), {
    to: () => OTHER.v4,
    request: { pingCount: 1 },
  }),
  lost('no way', 'v6', 'ICMP_UNREACHABLE', byRouter('v6', 'no route to destination'), {
    to: () => OTHER.v6,
  }),
  lost('nobody there', 'v4', 'ICMP_UNREACHABLE', byRouter('v4', 'host unreachable'), {
    to: ({ v4 }) => v4.nobody,
  }),
  lost('nobody there', 'v6', 'ICMP_UNREACHABLE', byRouter('v6', 'address unreachable'), {
    to: ({ v6 }) => v6.nobody,
  }),
  lost('a prohibiting route', 'v4', 'ICMP_PROHIBITED', byRouter('v4', 'communication prohibited'), {
    to: () => OTHER.v4,
    request: { pingCount: 1 },
    breaks: ['router', 'ip route add prohibit 10.9.0.0/24', 'ip route delete prohibit 10.9.0.0/24'],
  }),
  lost('a prohibiting route', 'v6', 'ICMP_PROHIBITED', byRouter('v6', 'communication prohibited'), {
    to: () => OTHER.v6,
    breaks: [
      'router',
      'ip -6 route add prohibit fd09::/64',
      'ip -6 route delete prohibit fd09::/64',
    ],
  }),
  lost('the target prohibits', 'v4', 'ICMP_PROHIBITED', byTarget('host prohibited'), {
    breaks: rejecting('host-prohibited'),
  }),
  lost('the target has no port', 'v4', 'ICMP_UNREACHABLE', byTarget('port unreachable'), {
    breaks: rejecting('port-unreachable'),
  }),
  lost('the target has no protocol', 'v4', 'ICMP_UNREACHABLE', byTarget('protocol unreachable'), {
    breaks: rejecting('prot-unreachable'),
  }),
  lost(
    'the target prohibits',
    'v6',
    'ICMP_PROHIBITED',
    { error: 'communication prohibited', from: 'fd02::2' },
    { breaks: firewall('icmpv6 type echo-request reject with icmpv6 type admin-prohibited') },
  ),
  lost('a small MTU', 'v4', 'ICMP_TOO_LARGE', byRouter('v4', 'fragmentation needed', 1400), {
    request: { payloadBytes: 1400, dontFragment: true },
    breaks: ['router', SMALL_MTU, OLD_MTU],
  }),
  lost('a small MTU', 'v6', 'ICMP_TOO_LARGE', byRouter('v6', 'packet too big', 1400), {
    request: { payloadBytes: 1400, dontFragment: true },
    breaks: ['router', SMALL_MTU, OLD_MTU],
  }),
  ...(
    [
      ['v4', 1473],
      ['v6', 1453],
    ] as const
  ).map(([family, payloadBytes]) =>
    lost(
      'a byte too many for our own interface',
      family,
      'ICMP_TOO_LARGE',
      { error: 'packet too large for the interface', mtu: 1500 },
      { request: { payloadBytes, dontFragment: true } },
    ),
  ),
  {
    what: 'a target that swallows every second echo',
    family: 'v4',
    request: { pingCount: 10, timeoutMs: 200 },
    breaks: firewall('icmp type echo-request numgen inc mod 2 0 drop'),
    codes: ['ICMP_PACKET_LOSS'],
    loss: 50,
  },
  {
    what: 'a target that swallows everything',
    family: 'v4',
    request: { timeoutMs: 100 },
    breaks: firewall('icmp type echo-request drop'),
    codes: ['ICMP_PACKET_LOSS'],
    loss: 100,
  },
  lost(
    'no route of our own',
    'v4',
    'CONNECT_UNREACHABLE',
    { error: 'not sent: ENETUNREACH' },
    {
      to: () => OTHER.v4,
      breaks: ['client', 'ip route delete default', 'ip route add default via 10.1.0.1'],
    },
  ),
  lost(
    'no route of our own',
    'v6',
    'CONNECT_UNREACHABLE',
    { error: 'not sent: ENETUNREACH' },
    {
      to: () => OTHER.v6,
      breaks: ['client', 'ip -6 route delete default', 'ip -6 route add default via fd01::1'],
    },
  ),
]
