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
  /** Changes the network; returns the undo function. */
  breaks?: [place: Place, command: string]
  fixes?: string
  codes: string[]
  /** Of the first error. */
  error?: { error: string; from?: string; mtu?: number }
  loss: number
}

const OTHER = { v4: '10.9.0.1', v6: 'fd09::1' }
const UNREACHABLE = ['ICMP_UNREACHABLE', 'ICMP_PACKET_LOSS']
const PROHIBITED = ['ICMP_PROHIBITED', 'ICMP_PACKET_LOSS']
const TOO_LARGE = ['ICMP_TOO_LARGE', 'ICMP_PACKET_LOSS']
const EXPIRED = ['ICMP_TTL_EXCEEDED', 'ICMP_PACKET_LOSS']
const SMALL_MTU = 'ip link set far mtu 1400'
const reject = (what: string, type: string, code: string) =>
  `nft 'table inet t { chain c { type filter hook input priority 0; ${what} reject with ${type} type ${code}; }; }'`
/** Removes a firewall. */
export const NO_FIREWALL = `nft delete table inet t`
const drop = (what: string) =>
  `nft 'table inet t { chain c { type filter hook input priority 0; ${what} drop; }; }'`

/** Every distinguished condition. */
export const NETWORK_CASES: NetworkCase[] = [
  { what: 'a target behind a router answers', family: 'v4', codes: [], loss: 0 },
  { what: 'so does one of IPv6', family: 'v6', codes: [], loss: 0 },
  {
    what: 'one hop is not enough: the router says so',
    family: 'v4',
    request: { ttl: 1 },
    codes: EXPIRED,
    error: { error: 'TTL exceeded in transit', from: '10.1.0.1' },
    loss: 100,
  },
  {
    what: 'one hop is not enough over IPv6',
    family: 'v6',
    request: { ttl: 1 },
    codes: EXPIRED,
    error: { error: 'hop limit exceeded in transit', from: 'fd01::1' },
    loss: 100,
  },
  { what: 'two hops are enough', family: 'v4', request: { ttl: 2 }, codes: [], loss: 0 },
  {
    what: 'the router knows no way',
    family: 'v4',
    to: () => OTHER.v4,
    request: { pingCount: 1 },
    codes: UNREACHABLE,
    error: { error: 'network unreachable', from: '10.1.0.1' },
    loss: 100,
  },
  {
    what: 'the router knows no way over IPv6',
    family: 'v6',
    to: () => OTHER.v6,
    codes: UNREACHABLE,
    error: { error: 'no route to destination', from: 'fd01::1' },
    loss: 100,
  },
  {
    what: 'nobody has the address',
    family: 'v4',
    to: ({ v4 }) => v4.nobody,
    codes: UNREACHABLE,
    error: { error: 'host unreachable', from: '10.1.0.1' },
    loss: 100,
  },
  {
    what: 'nobody has the address of IPv6',
    family: 'v6',
    to: ({ v6 }) => v6.nobody,
    codes: UNREACHABLE,
    error: { error: 'address unreachable', from: 'fd01::1' },
    loss: 100,
  },
  {
    what: 'a route that prohibits',
    family: 'v4',
    to: () => OTHER.v4,
    request: { pingCount: 1 },
    breaks: ['router', 'ip route add prohibit 10.9.0.0/24'],
    fixes: 'ip route delete prohibit 10.9.0.0/24',
    codes: PROHIBITED,
    error: { error: 'communication prohibited', from: '10.1.0.1' },
    loss: 100,
  },
  {
    what: 'a route of IPv6 that prohibits',
    family: 'v6',
    to: () => OTHER.v6,
    breaks: ['router', 'ip -6 route add prohibit fd09::/64'],
    fixes: 'ip -6 route delete prohibit fd09::/64',
    codes: PROHIBITED,
    error: { error: 'communication prohibited', from: 'fd01::1' },
    loss: 100,
  },
  {
    what: 'a firewall of the target that prohibits',
    family: 'v4',
    breaks: ['target', reject('icmp type echo-request', 'icmp', 'host-prohibited')],
    fixes: NO_FIREWALL,
    codes: PROHIBITED,
    error: { error: 'host prohibited', from: '10.2.0.2' },
    loss: 100,
  },
  {
    what: 'a target that calls its port unreachable',
    family: 'v4',
    breaks: ['target', reject('icmp type echo-request', 'icmp', 'port-unreachable')],
    fixes: NO_FIREWALL,
    codes: UNREACHABLE,
    error: { error: 'port unreachable', from: '10.2.0.2' },
    loss: 100,
  },
  {
    what: 'a target that calls its protocol unreachable',
    family: 'v4',
    breaks: ['target', reject('icmp type echo-request', 'icmp', 'prot-unreachable')],
    fixes: NO_FIREWALL,
    codes: UNREACHABLE,
    error: { error: 'protocol unreachable', from: '10.2.0.2' },
    loss: 100,
  },
  {
    what: 'a firewall that prohibits over IPv6',
    family: 'v6',
    breaks: ['target', reject('icmpv6 type echo-request', 'icmpv6', 'admin-prohibited')],
    fixes: NO_FIREWALL,
    codes: PROHIBITED,
    error: { error: 'communication prohibited', from: 'fd02::2' },
    loss: 100,
  },
  {
    what: 'a packet that must not be fragmented meets a small MTU',
    family: 'v4',
    request: { payloadBytes: 1400, dontFragment: true },
    breaks: ['router', SMALL_MTU],
    fixes: 'ip link set far mtu 1500',
    codes: TOO_LARGE,
    error: { error: 'fragmentation needed', from: '10.1.0.1', mtu: 1400 },
    loss: 100,
  },
  {
    what: 'a packet of IPv6 meets a small MTU',
    family: 'v6',
    request: { payloadBytes: 1400, dontFragment: true },
    breaks: ['router', SMALL_MTU],
    fixes: 'ip link set far mtu 1500',
    codes: TOO_LARGE,
    error: { error: 'packet too big', from: 'fd01::1', mtu: 1400 },
    loss: 100,
  },
  {
    what: 'a packet that fits the MTU to the byte',
    family: 'v4',
    request: { payloadBytes: 1472, dontFragment: true },
    codes: [],
    loss: 0,
  },
  {
    what: 'a packet that is a byte too large for our own interface',
    family: 'v4',
    request: { payloadBytes: 1473, dontFragment: true },
    codes: TOO_LARGE,
    error: { error: 'packet too large for the interface', mtu: 1500 },
    loss: 100,
  },
  {
    what: 'a packet of IPv6 that is a byte too large for our own interface',
    family: 'v6',
    request: { payloadBytes: 1453, dontFragment: true },
    codes: TOO_LARGE,
    error: { error: 'packet too large for the interface', mtu: 1500 },
    loss: 100,
  },
  {
    what: 'a packet that may be fragmented passes whatever its size',
    family: 'v4',
    request: { payloadBytes: 60_000 },
    codes: [],
    loss: 0,
  },
  {
    what: 'a packet of IPv6 that may be fragmented passes',
    family: 'v6',
    request: { payloadBytes: 60_000 },
    codes: [],
    loss: 0,
  },
  {
    what: 'a target that swallows every second echo',
    family: 'v4',
    request: { pingCount: 10, timeoutMs: 200 },
    breaks: ['target', drop('icmp type echo-request numgen inc mod 2 0')],
    fixes: NO_FIREWALL,
    codes: ['ICMP_PACKET_LOSS'],
    loss: 50,
  },
  {
    what: 'a target that swallows everything',
    family: 'v4',
    request: { timeoutMs: 100 },
    breaks: ['target', drop('icmp type echo-request')],
    fixes: NO_FIREWALL,
    codes: ['ICMP_PACKET_LOSS'],
    loss: 100,
  },
  {
    what: 'no route of our own',
    family: 'v4',
    to: () => OTHER.v4,
    breaks: ['client', 'ip route delete default'],
    fixes: 'ip route add default via 10.1.0.1',
    codes: ['CONNECT_UNREACHABLE', 'ICMP_PACKET_LOSS'],
    error: { error: 'not sent: ENETUNREACH' },
    loss: 100,
  },
  {
    what: 'no route of our own over IPv6',
    family: 'v6',
    to: () => OTHER.v6,
    breaks: ['client', 'ip -6 route delete default'],
    fixes: 'ip -6 route add default via fd01::1',
    codes: ['CONNECT_UNREACHABLE', 'ICMP_PACKET_LOSS'],
    error: { error: 'not sent: ENETUNREACH' },
    loss: 100,
  },
]
