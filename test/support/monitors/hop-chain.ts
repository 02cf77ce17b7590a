// A chain of network namespaces: a client, three routers and a server, and a detour around two of the routers,
// connected by veth pairs, with IPv4 and IPv6. Firewall and routes can be set on each host.
//
//     client ── r1 ── r2 ── r3 ── server
//                └─── d2 ── d3 ─────┘      (without a route to it, until a test makes one)
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'

export const HOSTS = ['client', 'r1', 'r2', 'r3', 'server', 'd2', 'd3'] as const
export type Host = (typeof HOSTS)[number]
export type Family = 'IPv4' | 'IPv6'

/** A cable from one host, whose interface is `to-<other>`, to the other, whose is `to-<one>`. */
const CABLES = [
  ['client', 'r1'],
  ['r1', 'r2'],
  ['r2', 'r3'],
  ['r3', 'server'],
  ['r1', 'd2'],
  ['d2', 'd3'],
  ['d3', 'server'],
] as const

const ROUTERS: ReadonlySet<Host> = new Set(['r1', 'r2', 'r3', 'd2', 'd3'])

/** The address on a cable: its number from 1, and the end of it, 1 or 2. */
function addressOf(family: Family, cable: number, end: number): string {
  return family === 'IPv4' ? `10.77.${cable}.${end}` : `fd77:${cable}::${end}`
}

/** The network of a cable. */
export function networkOf(family: Family, cable: number): string {
  return family === 'IPv4' ? `10.77.${cable}.0/24` : `fd77:${cable}::/64`
}

function hops(family: Family, cables: readonly number[]): string[] {
  return cables.map((cable) => addressOf(family, cable, 2))
}

/** Addresses of the hops as a trace of the client to the server's first address meets them. */
export const WAY = { IPv4: hops('IPv4', [1, 2, 3, 4]), IPv6: hops('IPv6', [1, 2, 3, 4]) } as const
/** The same by the detour. */
export const DETOUR = {
  IPv4: [...hops('IPv4', [1, 5, 6]), ...hops('IPv4', [4])],
  IPv6: [...hops('IPv6', [1, 5, 6]), ...hops('IPv6', [4])],
} as const
/** The server's address. */
export const SERVER = { IPv4: addressOf('IPv4', 4, 2), IPv6: addressOf('IPv6', 4, 2) } as const

export interface HopChain extends Disposable {
  /** Name of the host's network namespace. */
  nameOf(host: Host): string
  /** Prefix of a command line, to run it on that host. */
  prefix(host: Host): string[]
  /** Runs a command on the host; returns its output. */
  run(host: Host, ...command: string[]): string
  /** Runs `ip route` with these arguments for the family on the host. */
  route(host: Host, family: Family, ...routeArgs: string[]): void
  /** Replaces the rules of the host's firewall; nft(8). */
  firewall(host: Host, hook: 'input' | 'output' | 'forward', ...rules: string[]): void
}

/** Makes the chain; needs root and iproute2. */
export function createHopChain(limits: 'no limits' | 'limits of Linux' = 'no limits'): HopChain {
  const tag = randomBytes(3).toString('hex')
  const nameOf = (host: Host) => `vedette-${tag}-${host}`
  const prefix = (host: Host) => ['ip', 'netns', 'exec', nameOf(host)]
  const call = (args: readonly string[], input = '') =>
    execFileSync('ip', args, { encoding: 'utf8', stdio: ['pipe', 'pipe', 'pipe'], input })
  const run = (host: Host, ...command: string[]) => call([...prefix(host), ...command].slice(1))
  const route = (host: Host, family: Family, ...routeArgs: string[]) => {
    call(['-n', nameOf(host), family === 'IPv4' ? '-4' : '-6', 'route', ...routeArgs])
  }
  const chain: HopChain = {
    nameOf,
    prefix,
    run,
    route,
    firewall: (host, hook, ...rules) => {
      const chained = ['table inet t {', 'chain c {', `type filter hook ${hook} priority 0`]
      const lines = ['flush ruleset', ...chained, ...rules, '}', '}', '']
      call(['netns', 'exec', nameOf(host), 'nft', '-f', '-'], lines.join('\n'))
    },
    [Symbol.dispose]() {
      for (const host of HOSTS) call(['netns', 'delete', nameOf(host)])
    },
  }
  for (const host of HOSTS) {
    call(['netns', 'add', nameOf(host)])
    run(host, 'sh', '-c', settingsOf(host, limits === 'no limits'))
  }
  const cables = CABLES.map(
    ([one, other]) =>
      `link add to-${other} netns ${nameOf(one)} type veth peer name to-${one} netns ${nameOf(other)}`,
  )
  call(['-batch', '-'], cables.join('\n'))
  for (const host of HOSTS) {
    call(['-n', nameOf(host), '-batch', '-'], [...devicesOf(host), ...routesOf(host)].join('\n'))
  }
  return chain
}

/** Settings of a host before it gets its cables, as a shell script. */
function settingsOf(host: Host, isUnlimited: boolean): string {
  const forwards = ROUTERS.has(host) ? 1 : 0
  const settings = {
    'ipv4/ip_forward': forwards,
    'ipv6/conf/all/forwarding': forwards,
    // No other host could have the same address.
    'ipv6/conf/all/accept_dad': 0,
    'ipv6/conf/default/accept_dad': 0,
    'ipv6/conf/default/dad_transmits': 0,
    // Return packets may take another route.
    'ipv4/conf/all/rp_filter': 0,
    'ipv4/conf/default/rp_filter': 0,
    // As Docker sets it: every user may send echoes.
    'ipv4/ping_group_range': '0 2147483647',
    // Of several ways, one for each flow: by addresses, protocol and ports, as they stand in the packet
    // (by itself Linux would remember here from which socket it came).
    'ipv4/fib_multipath_hash_policy': 3,
    'ipv4/fib_multipath_hash_fields': 0x37,
    'ipv6/fib_multipath_hash_policy': 3,
    // Here by the flow label, too.
    'ipv6/fib_multipath_hash_fields': 0x3f,
  }
  // Linux answers a host six times and then once a second, and all together fifty times and then a
  // thousand times a second. With icmp_ratelimit at 0 each answer would still use up the host's allowance,
  // and a router without a route goes by the same allowance.
  const unlimited = {
    'ipv4/icmp_ratemask': 0,
    'ipv4/icmp_msgs_per_sec': 1_000_000,
    'ipv4/icmp_msgs_burst': 1_000_000,
    'ipv6/icmp/ratelimit': 0,
  }
  const lines = Object.entries({ ...settings, ...(isUnlimited ? unlimited : {}) }).map(
    ([path, value]) => `echo ${value} >/proc/sys/net/${path}`,
  )
  return lines.join(' && ')
}

/** The host's interfaces and their addresses, as lines for `ip -batch`. */
function devicesOf(host: Host): string[] {
  const devices = CABLES.flatMap(([one, other], index) => {
    if (host !== one && host !== other) return []
    const [device, end] = host === one ? [`to-${other}`, 1] : [`to-${one}`, 2]
    return [
      `address add ${addressOf('IPv4', index + 1, end)}/24 dev ${device}`,
      `address add ${addressOf('IPv6', index + 1, end)}/64 dev ${device} nodad`,
      `link set ${device} up`,
    ]
  })
  return ['link set lo up', ...devices]
}

/** The networks that each host reaches over each cable, without directly connected ones. */
const ROUTES: Record<Host, readonly (readonly [networks: readonly number[], over: number])[]> = {
  client: [[[2, 3, 4, 5, 6, 7], 1]],
  r1: [[[3, 4], 2]],
  r2: [
    [[1], 2],
    [[4], 3],
  ],
  r3: [[[1, 2], 3]],
  server: [[[1, 2, 3], 4]],
  d2: [
    [[1], 5],
    [[4], 6],
  ],
  d3: [
    [[1], 6],
    [[4], 7],
  ],
}

function routesOf(host: Host): string[] {
  return ROUTES[host].flatMap(([networks, over]) => {
    // The neighbour is at the other end of the cable.
    const end = CABLES[over - 1]?.[0] === host ? 2 : 1
    return (['IPv4', 'IPv6'] as const).flatMap((family) =>
      networks.map((network) => {
        const via = addressOf(family, over, end)
        return `route add ${networkOf(family, network)} via ${via}`
      }),
    )
  })
}
