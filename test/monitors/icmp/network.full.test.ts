// Aim: in a real network of namespaces, ICMP monitors say what became of their echoes and who objected: over
// both families, without any privilege and with a raw socket; and they say what to allow where neither is.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { IcmpObserved } from '../../../src/monitors/icmp/observed.ts'
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

/** Runs monitors at once in a process behind the prefix (a namespace, another user). */
async function observeAll(prefix: readonly string[], requests: readonly object[]) {
  await using elsewhere = await startMonitorProcess(prefix)
  const run = async (request: object) => {
    const { observation } = await elsewhere.run({ checkType: 'ICMP', request })
    const { failures = [], observed } = observation ?? {}
    const codes = failures.map(({ code }) => code)
    return { codes, failures, observed: observed as unknown as IcmpObserved }
  }
  return await Promise.all(requests.map(run))
}

async function observe(prefix: readonly string[], request: object) {
  const [one] = await observeAll(prefix, [request])
  return one as Awaited<ReturnType<typeof observeAll>>[number]
}

/** Changes the network until the end of the block. */
function breaking([host, command, undo]: NonNullable<NetworkCase['breaks']>): Disposable {
  shell(host, command)
  return { [Symbol.dispose]: () => void shell(host, undo) }
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

const passes = (what: string, family: Family, request = {}): NetworkCase => {
  return { what, family, request, to: TARGET, codes: [], loss: 0 }
}

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
const tooLargeFor = (family: Family, error: string) => ({ ...byRouter(family, error), mtu: 1400 })
const byTarget = (family: Family, error: string) => ({ error, from: TARGET[family] })
const ONE = { request: { pingCount: 1 }, to: BEYOND }
const NO_HOST = { to: NOBODY }
const PROHIBITED = 'communication prohibited'
const EXCEEDED = 'hop limit exceeded in transit'
const HOST_REJECTED = rejecting('icmp type echo-request reject with icmp type host-prohibited')
const REJECTED6 = rejecting('icmpv6 type echo-request reject with icmpv6 type admin-prohibited')
const SMALL: Partial<NetworkCase> = {
  request: { payloadBytes: 1400, dontFragment: true },
  breaks: ['r1', 'ip link set to-r2 mtu 1400', 'ip link set to-r2 mtu 1500'],
}
const tooLarge = (payloadBytes: number) => ({ request: { payloadBytes, dontFragment: true } })
const UNSENT = { error: 'not sent: ENETUNREACH' }
const INTERFACE = { error: 'packet too large for the interface', mtu: 1500 }

const CASES: NetworkCase[] = [
  passes('a target behind a router answers', 'IPv4'),
  passes('so does one of IPv6', 'IPv6'),
  passes('a packet fits the MTU to the byte', 'IPv4', { payloadBytes: 1472, dontFragment: true }),
  passes('a packet of IPv6 that may be fragmented', 'IPv6', { payloadBytes: 60_000 }),
  lost('one hop', 'IPv6', 'ICMP_TTL_EXCEEDED', byRouter('IPv6', EXCEEDED), { request: { ttl: 1 } }),
  lost('nobody there', 'IPv4', 'ICMP_UNREACHABLE', byRouter('IPv4', 'host unreachable'), NO_HOST),
  lost(
    'nobody there',
    'IPv6',
    'ICMP_UNREACHABLE',
    byRouter('IPv6', 'address unreachable'),
    NO_HOST,
  ),
  lost('a prohibiting route', 'IPv4', 'ICMP_PROHIBITED', byRouter('IPv4', PROHIBITED), {
    ...ONE,
    breaks: ['r1', 'ip route add prohibit 10.9.0.0/24', 'ip route delete prohibit 10.9.0.0/24'],
  }),
  lost('the target', 'IPv4', 'ICMP_PROHIBITED', byTarget('IPv4', 'host prohibited'), HOST_REJECTED),
  lost('the target', 'IPv6', 'ICMP_PROHIBITED', byTarget('IPv6', PROHIBITED), REJECTED6),
  lost('a small MTU', 'IPv4', 'ICMP_TOO_LARGE', tooLargeFor('IPv4', 'fragmentation needed'), SMALL),
  lost('a small MTU', 'IPv6', 'ICMP_TOO_LARGE', tooLargeFor('IPv6', 'packet too big'), SMALL),
  lost('a byte too many for our interface', 'IPv4', 'ICMP_TOO_LARGE', INTERFACE, tooLarge(1473)),
  lost('a byte too many for our interface', 'IPv6', 'ICMP_TOO_LARGE', INTERFACE, tooLarge(1453)),
  lost('no route of our own', 'IPv4', 'CONNECT_UNREACHABLE', UNSENT, { to: NOWHERE }),
  lost('no route of our own', 'IPv6', 'CONNECT_UNREACHABLE', UNSENT, { to: NOWHERE }),
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
      const prefix = prefixFor(kind)
      using _broken = breaking(breaks ?? ['client', '', ''])
      const own = { hostname: to[ipFamily], ipFamily, pingCount: 3, intervalMs: 20 }
      const seen = await observe(prefix, { ...own, ...request })
      expect(seen).toMatchObject({ codes, observed: { packetLoss: loss, socket: kind } })
      const { errors, packetsSent, packetsReceived, pingResults } = seen.observed
      expect(errors[0]).toEqual(error && { ...error, count: packetsSent - packetsReceived })
      expect(pingResults.filter((ping) => ping.success === (ping.error !== undefined))).toEqual([])
      // The router is one hop.
      const ttls = pingResults.flatMap(({ success, ttl }) => (success ? [ttl] : []))
      expect(ttls).toEqual(Array(packetsReceived).fill(63))
    })

    test('errors are distinguished when many targets fail at once', async () => {
      const hosts = [TARGET.IPv4, '10.77.2.98', NOBODY.IPv4, ROUTER.IPv4]
      const echoes = { pingCount: 2, intervalMs: 30, timeoutMs: 500 }
      const requests = [1, 64].flatMap((ttl) =>
        hosts.map((hostname) => ({ hostname, ttl, ...echoes })),
      )
      const noWay = { hostname: BEYOND.IPv4, pingCount: 1, timeoutMs: 500 }
      const all = await observeAll(prefixFor(kind), [...requests, noWay])
      const [exceeded, unreachable] = ['ICMP_TTL_EXCEEDED', 'ICMP_UNREACHABLE']
      const byOne = [exceeded, exceeded, exceeded, 'passed']
      const byMany = ['passed', unreachable, unreachable, 'passed']
      const seen = all.map(({ codes }) => codes[0] ?? 'passed')
      expect(seen).toEqual([...byOne, ...byMany, unreachable])
    })
  })

  test('a cable that is pulled in the middle costs the echoes after it', async () => {
    const prefix = prefixFor('datagram')
    const before = echoesReceived()
    const echoes = { pingCount: 20, intervalMs: 100, timeoutMs: 300 }
    const observing = observe(prefix, { hostname: TARGET.IPv4, ...echoes })
    await eventually(() => echoesReceived() >= before + 3)
    const repair = 'ip link set to-r1 up; ip route add 10.77.1.0/24 via 10.77.2.1'
    using _broken = breaking(['r2', 'ip link set to-r1 down', repair])
    const { codes, observed } = await observing
    const { packetsSent, packetsReceived, pingResults } = observed
    expect(packetsSent).toBe(20)
    expect(packetsReceived).toBeGreaterThanOrEqual(3)
    expect(packetsReceived).toBeLessThan(20)
    const successes = pingResults.map(({ success }) => success)
    expect(successes).toEqual(successes.toSorted((a, b) => Number(b) - Number(a)))
    expect(codes).toContain('ICMP_PACKET_LOSS')
  })

  const route = `route add prohibit ${TARGET.IPv4}/32`
  test.each<[string, NonNullable<NetworkCase['breaks']>]>([
    ['firewall', firewall('client', 'output', 'icmp type echo-request drop')],
    ['prohibiting route', ['client', `ip ${route}`, `ip ${route.replace('add', 'delete')}`]],
  ])('a %s of our own is no fault of the target, and ends the run', async (_, breaks) => {
    const prefix = prefixFor('datagram')
    using _broken = breaking(breaks)
    const { codes, observed } = await observe(prefix, { hostname: TARGET.IPv4, pingCount: 50 })
    expect(codes).toEqual(['ADDRESS_BLOCKED'])
    expect(observed).toMatchObject({ packetsSent: 0, packetsReceived: 0 })
    expect(observed.packetLoss).toBeUndefined()
  })

  test.each(FAMILIES)('without any permission, %s says what to allow', async (ipFamily) => {
    shell('client', FORBID)
    const prefix = [...chain.prefix('client'), ...AS_NOBODY]
    const { codes, failures } = await observe(prefix, { hostname: TARGET[ipFamily], ipFamily })
    expect(codes).toEqual(['ICMP_NOT_PERMITTED'])
    expect(failures[0]?.message).toContain('net.ipv4.ping_group_range="0 2147483647"')
    expect(failures[0]?.message).toContain('--cap-add NET_RAW')
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
