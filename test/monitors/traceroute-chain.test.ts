// Aim: in a real chain of routers a trace finds every hop, tells silence, loss, refusals, circles and
// narrow links apart, notices when the path changes, keeps to one of several ways, and needs no privilege.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { TraceObserved } from '../../src/monitors/traceroute-observed.ts'
import {
  createHopChain,
  DETOUR,
  networkOf,
  SERVER,
  WAY,
  type Family,
  type HopChain,
  type Host,
} from '../support/hop-chain.ts'
import {
  startMonitorProcess,
  type MonitorProcess,
  type Ran,
  type RunWishes,
} from '../support/monitor-process.ts'
import { missing } from '../support/needs.ts'

const isRoot = process.getuid?.() === 0
const needs = missing('ip', 'nft', 'setpriv') ?? (isRoot ? undefined : 'needs root')

const FAMILIES = ['IPv4', 'IPv6'] as const
const PROTOCOLS = ['TCP', 'UDP', 'ICMP'] as const
const CASES = FAMILIES.flatMap((family) => PROTOCOLS.map((protocol) => ({ family, protocol })))

type Protocol = (typeof PROTOCOLS)[number]

describe.skipIf(needs !== undefined)(`a chain of networks ${needs ?? ''}`, () => {
  let chain: HopChain
  let client: MonitorProcess
  let server: MonitorProcess
  const dirty = new Set<Host>()
  const undo: (() => void)[] = []

  beforeAll(async () => {
    chain = createHopChain()
    client = await startMonitorProcess(chain.prefix('client'))
    server = await startMonitorProcess(chain.prefix('server'))
    await server.listen('tcp', '::', 443)
    await server.listen('udp', '::', 7)
    // Neighbours look each other up once; the first probes would wait for that.
    for (const { family, protocol } of CASES) await trace(family, protocol)
  }, 60_000)
  afterAll(async () => {
    await client?.[Symbol.asyncDispose]()
    await server?.[Symbol.asyncDispose]()
    chain?.[Symbol.dispose]()
  })
  afterEach(() => {
    for (const host of dirty) chain.firewall(host, 'output')
    dirty.clear()
    for (const back of undo.splice(0).toReversed()) back()
  })

  let traces = 0
  /** Traces to the server, as a monitor that has never run before where `id` is not given. */
  async function trace(
    family: Family,
    protocol: Protocol | 'SCTP',
    request: Record<string, unknown> = {},
    settings: Record<string, unknown> = {},
    wishes: RunWishes = {},
  ): Promise<Ran & { seen: TraceObserved; codes: string[]; message: string }> {
    const definition = {
      id: `trace-${traces++}`,
      checkType: 'TRACEROUTE',
      ...settings,
      request: { url: SERVER[family], protocol, ipFamily: family, ptrLookup: false, ...request },
    }
    const ran = await client.run(definition, wishes)
    const failures = ran.observation?.failures ?? []
    return {
      ...ran,
      seen: ran.observation?.observed as unknown as TraceObserved,
      codes: failures.map(({ code }) => code),
      message: failures[0]?.message ?? '',
    }
  }

  const firewall = (host: Host, hook: 'input' | 'output' | 'forward', ...rules: string[]) => {
    dirty.add(host)
    chain.firewall(host, hook, ...rules)
  }
  const route = (host: Host, family: Family, words: string, back: string) => {
    chain.route(host, family, ...words.split(' '))
    undo.push(() => chain.route(host, family, ...back.split(' ')))
  }
  const addresses = ({ hops }: TraceObserved) => hops.map(({ address }) => address)

  test.each(CASES)('$protocol over $family knows every hop', async ({ family, protocol }) => {
    const { seen, codes, observation, tookMs } = await trace(family, protocol)
    expect(codes).toEqual([])
    expect(addresses(seen)).toEqual(WAY[family])
    expect(seen).toMatchObject({
      protocol,
      address: SERVER[family],
      family,
      reached: true,
      end: 'reached',
      hopCount: 4,
      targetLossPercent: 0,
      lossPercent: 0,
      pathHash: expect.stringMatching(/^[0-9a-f]{8}$/),
    })
    expect(seen.pathChanged).toBeUndefined()
    expect(seen.loops).toBeUndefined()
    for (const hop of seen.hops) {
      expect(hop.sent).toBeGreaterThanOrEqual(3)
      expect(hop.received).toBe(hop.sent)
      const { min, avg, max, stdDev } = hop.responseTime ?? {
        min: -1,
        avg: -1,
        max: -1,
        stdDev: -1,
      }
      expect(min).toBeGreaterThan(0)
      expect(avg).toBeGreaterThanOrEqual(min)
      expect(max).toBeGreaterThanOrEqual(avg)
      expect(stdDev).toBeGreaterThanOrEqual(0)
    }
    expect(observation?.responseTimeMs).toBe(seen.responseTime?.avg)
    expect(tookMs).toBeLessThan(1000)
  })

  test('one path has one hash, whatever the protocol', async () => {
    const hashes = await Promise.all(PROTOCOLS.map(async (one) => (await trace('IPv4', one)).seen))
    expect(new Set(hashes.map(({ pathHash }) => pathHash)).size).toBe(1)
  })

  test.each([
    ['an open TCP port', 'TCP', 443, 'open'],
    ['a closed TCP port', 'TCP', 444, 'closed'],
    ['an open UDP port', 'UDP', 7, 'open'],
    ['a closed UDP port', 'UDP', 33_434, 'closed'],
  ] as const)('%s is reached, and told', async (_, protocol, port, portState) => {
    for (const family of FAMILIES) {
      const { seen, codes } = await trace(family, protocol, { port })
      expect(codes).toEqual([])
      expect(seen).toMatchObject({ reached: true, portState, port, hopCount: 4 })
      expect(addresses(seen)).toEqual(WAY[family])
    }
  })

  test.each(CASES)('$protocol over $family: a silent hop', async ({ family, protocol }) => {
    firewall('r2', 'output', 'icmp type time-exceeded drop', 'icmpv6 type time-exceeded drop')
    const { seen, codes, tookMs } = await trace(family, protocol)
    expect(codes).toEqual([])
    expect(addresses(seen)).toEqual(WAY[family].with(1, null as unknown as string))
    expect(seen.hops[1]).toMatchObject({ sent: 3, received: 0, lossPercent: 100 })
    expect(seen.hops[1]).not.toHaveProperty('responseTime')
    expect(seen).toMatchObject({ hopCount: 4, targetLossPercent: 0 })
    expect(seen.lossPercent).toBeGreaterThan(0)
    expect(tookMs).toBeLessThan(1000)
  })

  test.each(CASES)(
    '$protocol over $family: a hop that loses some',
    async ({ family, protocol }) => {
      const some = 'time-exceeded numgen inc mod 3 0 drop'
      firewall('r2', 'output', `icmp type ${some}`, `icmpv6 type ${some}`)
      const { seen, codes } = await trace(family, protocol, { probesPerHop: 5 })
      expect(codes).toEqual([])
      expect(addresses(seen)).toEqual(WAY[family])
      const lossy = seen.hops[1]
      expect(lossy?.lossPercent).toBeGreaterThanOrEqual(20)
      expect(lossy?.lossPercent).toBeLessThanOrEqual(50)
      expect(seen.hops.map(({ lossPercent }) => lossPercent === 0)).toEqual([
        true,
        false,
        true,
        true,
      ])
      expect(seen.targetLossPercent).toBe(0)
    },
  )

  describe('a path that changes', () => {
    test.each(CASES)('$protocol over $family', async ({ family, protocol }) => {
      const id = `changing-${family}-${protocol}`
      const first = await trace(family, protocol, {}, { id })
      expect(first.seen.pathChanged).toBeUndefined()
      const same = await trace(family, protocol, {}, { id })
      expect(same.seen).toMatchObject({ pathChanged: false, pathHash: first.seen.pathHash })
      const [to, r2, d2] = waysOf(family)
      route('r1', family, `replace ${to} via ${d2}`, `replace ${to} via ${r2}`)
      const changed = await trace(family, protocol, {}, { id })
      expect(changed.codes).toEqual([])
      expect(addresses(changed.seen)).toEqual(DETOUR[family])
      expect(changed.seen).toMatchObject({ pathChanged: true, previousPath: WAY[family] })
      expect(changed.seen.pathHash).not.toBe(first.seen.pathHash)
      const after = await trace(family, protocol, {}, { id })
      expect(after.seen.pathChanged).toBe(false)
      expect(after.seen).not.toHaveProperty('previousPath')
    })

    test('a hop that falls silent and speaks again is no change', async () => {
      const id = 'falling-silent'
      await trace('IPv4', 'UDP', {}, { id })
      firewall('r2', 'output', 'icmp type time-exceeded drop')
      const silent = await trace('IPv4', 'UDP', {}, { id })
      expect(silent.seen.pathChanged).toBe(false)
      chain.firewall('r2', 'output')
      expect((await trace('IPv4', 'UDP', {}, { id })).seen.pathChanged).toBe(false)
    })

    test('what changed behind a silence is seen after it', async () => {
      const id = 'behind-silence'
      await trace('IPv4', 'UDP', {}, { id })
      firewall('r2', 'output', 'icmp type time-exceeded drop')
      firewall('r3', 'output', 'icmp type time-exceeded drop')
      expect((await trace('IPv4', 'UDP', {}, { id })).seen.pathChanged).toBe(false)
      const [to, r2, d2] = waysOf('IPv4')
      route('r1', 'IPv4', `replace ${to} via ${d2}`, `replace ${to} via ${r2}`)
      expect((await trace('IPv4', 'UDP', {}, { id })).seen.pathChanged).toBe(true)
    })
  })

  describe('a router with two ways to the target', () => {
    beforeAll(() => {
      for (const family of FAMILIES) {
        const [to, r2, d2] = waysOf(family)
        chain.route('r1', family, 'replace', to, 'nexthop', 'via', r2, 'nexthop', 'via', d2)
      }
      return () => {
        for (const family of FAMILIES) {
          const [to, r2] = waysOf(family)
          // Over IPv6 each way is a route of its own.
          if (family === 'IPv6') chain.route('r1', family, 'delete', to)
          chain.route('r1', family, 'replace', to, 'via', r2)
        }
      }
    })

    test.each(CASES)(
      '$protocol over $family keeps to one',
      async ({ family, protocol }) => {
        const taken = new Set<string>()
        for (let monitor = 0; monitor < 12; monitor++) {
          const paths = new Set<string>()
          for (let run = 0; run < 5; run++) {
            const { seen, codes } = await trace(family, protocol, {}, { id: `balanced-${monitor}` })
            expect(codes).toEqual([])
            expect(seen.pathChanged ?? false).toBe(false)
            paths.add(addresses(seen).join(' '))
          }
          expect([WAY[family].join(' '), DETOUR[family].join(' ')]).toContain([...paths].join('; '))
          taken.add([...paths].join())
        }
        // Ports choose the way, of which pings have none: all of them take the same.
        if (protocol !== 'ICMP') expect(taken.size).toBe(2)
      },
      30_000,
    )
  })

  describe('a target that is not reached', () => {
    const REJECTS = [
      ['host unreachable', 'icmp', 'host-unreachable', '!H'],
      ['network unreachable', 'icmp', 'net-unreachable', '!N'],
      ['administratively prohibited', 'icmp', 'admin-prohibited', '!X'],
      ['host administratively prohibited', 'icmp', 'host-prohibited', '!Z'],
      ['host unreachable', 'icmpv6', 'addr-unreachable', '!H'],
      ['network unreachable', 'icmpv6', 'no-route', '!N'],
      ['administratively prohibited', 'icmpv6', 'admin-prohibited', '!X'],
    ] as const

    test.each(REJECTS)('%s (%s %s)', async (name, kind, type, mark) => {
      firewall(
        'r3',
        'forward',
        `meta protocol ${kind === 'icmp' ? 'ip' : 'ip6'} reject with ${kind} type ${type}`,
      )
      const family = kind === 'icmp' ? 'IPv4' : 'IPv6'
      for (const protocol of PROTOCOLS) {
        const { seen, codes, message, tookMs } = await trace(family, protocol)
        expect(codes).toEqual(['DESTINATION_UNREACHED'])
        expect(seen).toMatchObject({ reached: false, end: 'refused', hopCount: 3 })
        expect(addresses(seen)).toEqual(WAY[family].slice(0, 3))
        expect(seen.hops[2]?.refusal).toEqual({ name, mark })
        expect(message).toContain(`hop 3 (${WAY[family][2]}) says “${name}” (${mark})`)
        expect(tookMs).toBeLessThan(1000)
      }
    })

    test('by a firewall on the target itself, which is named', async () => {
      firewall('server', 'input', 'reject with icmpx type admin-prohibited')
      for (const { family, protocol } of CASES) {
        const { codes, message, seen } = await trace(family, protocol)
        expect(codes).toEqual(['DESTINATION_UNREACHED'])
        expect(message).toContain('the target itself says “administratively prohibited”')
        expect(addresses(seen).slice(0, 3)).toEqual(WAY[family].slice(0, 3))
      }
    })

    test('by a firewall before it that speaks of a closed port', async () => {
      firewall('r3', 'forward', 'reject with icmpx type port-unreachable')
      const { codes, seen } = await trace('IPv4', 'UDP')
      expect(codes).toEqual(['DESTINATION_UNREACHED'])
      expect(seen.hops[2]?.refusal).toEqual({ name: 'port unreachable', mark: '!p' })
    })

    test('since the router has no route to it', async () => {
      for (const family of FAMILIES) {
        route(
          'r3',
          family,
          `add unreachable ${SERVER[family]}`,
          `delete unreachable ${SERVER[family]}`,
        )
        const { codes, seen } = await trace(family, 'UDP')
        expect(codes).toEqual(['DESTINATION_UNREACHED'])
        expect(seen.end).toBe('refused')
      }
    })

    test('since no host has the address, as the last router finds out after three seconds', async () => {
      for (const protocol of PROTOCOLS) {
        const { codes, seen } = await trace('IPv4', protocol, { url: '10.77.4.99' })
        expect(codes).toEqual(['DESTINATION_UNREACHED'])
        expect(addresses(seen)).toEqual(WAY.IPv4.slice(0, 3))
        expect(seen.hops[2]?.refusal).toEqual({ name: 'host unreachable', mark: '!H' })
      }
    }, 30_000)

    test.each(CASES)(
      '$protocol over $family: silence ends it',
      async ({ family, protocol }) => {
        route('r3', family, `add blackhole ${SERVER[family]}`, `delete blackhole ${SERVER[family]}`)
        const wishes = { maxUnknownHops: 5 }
        const { seen, codes, message } = await trace(family, protocol, wishes)
        expect(codes).toEqual(['DESTINATION_UNREACHED'])
        expect(seen).toMatchObject({ reached: false, end: 'unknown-hops', hopCount: 2 })
        expect(addresses(seen)).toEqual([...WAY[family].slice(0, 2), ...Array<null>(5).fill(null)])
        expect(message).toContain('5 hops in a row are silent')
        expect(seen.targetLossPercent).toBe(100)
      },
      15_000,
    )

    test('since it is farther than maxHops', async () => {
      const { seen, codes } = await trace('IPv4', 'TCP', { maxHops: 3 })
      expect(codes).toEqual(['DESTINATION_UNREACHED'])
      expect(seen).toMatchObject({ end: 'max-hops', hopCount: 3 })
      expect(addresses(seen)).toEqual(WAY.IPv4.slice(0, 3))
    })

    test.each(CASES)('$protocol over $family: in a circle', async ({ family, protocol }) => {
      const back = family === 'IPv4' ? '10.77.3.1' : 'fd77:3::1'
      route(
        'r3',
        family,
        `add ${SERVER[family]} via ${back}`,
        `delete ${SERVER[family]} via ${back}`,
      )
      const { seen, codes, message, tookMs } = await trace(family, protocol)
      expect(codes).toEqual(['DESTINATION_UNREACHED'])
      expect(seen.end).toBe('circle')
      expect(message).toContain('in a circle')
      const r3 = seen.loops?.find(({ address }) => address === WAY[family][2])
      expect(r3?.hops.slice(0, 2)).toEqual([3, 5])
      expect(tookMs).toBeLessThan(1000)
    })

    test('is what a monitor with shouldFail wants', async () => {
      firewall('r3', 'forward', 'reject with icmpx type admin-prohibited')
      const { codes, seen } = await trace('IPv4', 'UDP', {}, { shouldFail: true })
      expect(codes).toEqual([])
      expect(seen.reached).toBe(false)
    })
  })

  describe('what our own system would not send', () => {
    test.each(PROTOCOLS)('%s without a route', async (protocol) => {
      const { codes } = await trace('IPv4', protocol, { url: '203.0.113.1' })
      expect(codes).toEqual(['CONNECT_UNREACHABLE'])
    })

    test.each(['UDP', 'ICMP'] as const)('%s that its firewall forbids', async (protocol) => {
      firewall('client', 'output', `meta l4proto { udp, icmp } drop`)
      const { codes } = await trace('IPv4', protocol)
      expect(codes).toEqual(['ADDRESS_BLOCKED'])
    })

    test('an address that the policy forbids', async () => {
      const { codes } = await trace('IPv4', 'UDP', {}, {}, { blocked: [networkOf('IPv4', 4)] })
      expect(codes).toEqual(['ADDRESS_BLOCKED'])
    })
  })

  describe('a narrow link behind r2', () => {
    beforeAll(() => {
      const narrow = (mtu: number) => {
        chain.run('r2', 'ip', 'link', 'set', 'to-r3', 'mtu', String(mtu))
        chain.run('r3', 'ip', 'link', 'set', 'to-r2', 'mtu', String(mtu))
      }
      narrow(1300)
      return () => narrow(1500)
    })

    const SIZES = FAMILIES.flatMap((family) =>
      (['UDP', 'ICMP'] as const).flatMap((protocol) =>
        [1301, 1500, 9000].map((packetSize) => ({ family, protocol, packetSize })),
      ),
    )
    test.each(SIZES)('$protocol over $family, $packetSize bytes', async (one) => {
      const { family, protocol, packetSize } = one
      const { seen, codes } = await trace(family, protocol, { packetSize })
      expect(codes).toEqual([])
      expect(seen.mtu).toEqual({ bytes: 1300, from: WAY[family][1] })
      expect(seen.hops[1]?.mtu).toBe(1300)
      expect(seen).toMatchObject({ hopCount: 4, lossPercent: 0 })
      expect(addresses(seen)).toEqual(WAY[family])
    })

    test('takes packets that fit', async () => {
      const { seen } = await trace('IPv4', 'UDP', { packetSize: 1300 })
      expect(seen).not.toHaveProperty('mtu')
    })
  })

  test('200 traces at a time do not mix up their answers', async () => {
    const before = await client.descriptors()
    const targets = [
      { url: SERVER.IPv4, ipFamily: 'IPv4', expected: WAY.IPv4 },
      { url: WAY.IPv4[1], ipFamily: 'IPv4', expected: WAY.IPv4.slice(0, 2) },
      { url: SERVER.IPv6, ipFamily: 'IPv6', expected: WAY.IPv6 },
      { url: WAY.IPv6[2], ipFamily: 'IPv6', expected: WAY.IPv6.slice(0, 3) },
    ] as const
    const all = Array.from({ length: 200 }, async (_, index) => {
      const target = targets[index % targets.length] as (typeof targets)[number]
      const protocol = PROTOCOLS[index % PROTOCOLS.length] as Protocol
      const { url, ipFamily, expected } = target
      const { seen, codes } = await trace(ipFamily, protocol, { url })
      expect(codes).toEqual([])
      expect(addresses(seen)).toEqual(expected)
    })
    await Promise.all(all)
    expect(await client.descriptors()).toBeLessThanOrEqual(before)
  }, 60_000)

  test.each(CASES)(
    '$protocol over $family lets go when cancelled',
    async ({ family, protocol }) => {
      route('r3', family, `add blackhole ${SERVER[family]}`, `delete blackhole ${SERVER[family]}`)
      const before = await client.descriptors()
      for (const cancelMs of [0, 20, 300, 2500]) {
        const ran = await trace(family, protocol, { maxUnknownHops: 3 }, {}, { cancelMs })
        expect(ran.rejected).toBe('cancelled')
        expect(ran.overrunMs).toBeLessThan(50)
      }
      expect(await client.descriptors()).toBeLessThanOrEqual(before)
    },
    20_000,
  )

  test.each(PROTOCOLS)('%s tells what it knows when time runs out', async (protocol) => {
    route('r3', 'IPv4', `add blackhole ${SERVER.IPv4}`, `delete blackhole ${SERVER.IPv4}`)
    const ran = await trace('IPv4', protocol, {}, {}, { deadlineMs: 500 })
    expect(ran.codes).toEqual(['TIMEOUT_TRACE'])
    expect(ran.seen).toMatchObject({ end: 'timeout', reached: false, hopCount: 2 })
    expect(ran.overrunMs).toBeLessThan(50)
  })

  describe('SCTP', () => {
    test.each(FAMILIES)('over %s: a target without it is reached, and says so', async (family) => {
      const { seen, codes } = await trace(family, 'SCTP')
      expect(codes).toEqual([])
      expect(addresses(seen)).toEqual(WAY[family])
      expect(seen).toMatchObject({ port: 33_434, portState: 'closed', lossPercent: 0 })
    })

    test('ports that are open and closed', async () => {
      await using listening = await startMonitorProcess(chain.prefix('server'))
      for (const family of FAMILIES) {
        await listening.listen('sctp', family === 'IPv4' ? '0.0.0.0' : '::', 3868)
        for (const [port, portState] of [
          [3868, 'open'],
          [3869, 'closed'],
        ] as const) {
          const { seen, codes } = await trace(family, 'SCTP', { port })
          expect(codes).toEqual([])
          expect(addresses(seen)).toEqual(WAY[family])
          expect(seen).toMatchObject({ portState, reached: true, lossPercent: 0 })
        }
      }
    })
  })

  describe('as nobody, without a capability', () => {
    let nobody: MonitorProcess
    beforeAll(async () => {
      const drop =
        '--reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs'
      nobody = await startMonitorProcess([...chain.prefix('client'), 'setpriv', ...drop.split(' ')])
      return () => nobody[Symbol.asyncDispose]()
    }, 20_000)

    test.each(CASES)('$protocol over $family knows every hop', async ({ family, protocol }) => {
      const request = { url: SERVER[family], protocol, ipFamily: family, ptrLookup: false }
      const { observation } = await nobody.run({ checkType: 'TRACEROUTE', request })
      expect(observation?.failures).toEqual([])
      expect(addresses(observation?.observed as unknown as TraceObserved)).toEqual(WAY[family])
    })

    test('SCTP says what it needs', async () => {
      const request = { url: SERVER.IPv4, protocol: 'SCTP', ptrLookup: false }
      const { observation } = await nobody.run({ checkType: 'TRACEROUTE', request })
      expect(observation?.failures.map(({ code }) => code)).toEqual(['TRACE_UNSUPPORTED'])
      expect(observation?.failures[0]?.message).toContain('NET_RAW')
    })

    test('ICMP says what to allow where the system gives it no socket', async () => {
      chain.run('client', 'sh', '-c', "echo '1 0' >/proc/sys/net/ipv4/ping_group_range")
      undo.push(() =>
        chain.run('client', 'sh', '-c', "echo '0 2147483647' >/proc/sys/net/ipv4/ping_group_range"),
      )
      const request = { url: SERVER.IPv4, protocol: 'ICMP', ptrLookup: false }
      const { observation } = await nobody.run({ checkType: 'TRACEROUTE', request })
      expect(observation?.failures.map(({ code }) => code)).toEqual(['ICMP_NOT_PERMITTED'])
      // With the right to raw sockets, none is needed.
      const { seen, codes } = await trace('IPv4', 'ICMP')
      expect(codes).toEqual([])
      expect(addresses(seen)).toEqual(WAY.IPv4)
      const six = await trace('IPv6', 'ICMP')
      expect(addresses(six.seen)).toEqual(WAY.IPv6)
    })
  })
})

describe.skipIf(needs !== undefined)(`routers with the limits of Linux ${needs ?? ''}`, () => {
  let chain: HopChain
  let client: MonitorProcess
  beforeAll(async () => {
    chain = createHopChain('limits of Linux')
    client = await startMonitorProcess(chain.prefix('client'))
  }, 60_000)
  afterAll(async () => {
    await client?.[Symbol.asyncDispose]()
    chain?.[Symbol.dispose]()
  })

  async function trace(id: string, request: Record<string, unknown>): Promise<TraceObserved> {
    const definition = { id, checkType: 'TRACEROUTE', request: { ptrLookup: false, ...request } }
    const { observation } = await client.run(definition)
    expect(observation?.failures).toEqual([])
    return observation?.observed as unknown as TraceObserved
  }

  // In this order: what each leaves behind is what the next meets.
  test('one trace loses nothing, and many through the same routers blame none of them', async () => {
    const first = await trace('first', { url: SERVER.IPv4, protocol: 'UDP' })
    expect(first).toMatchObject({ lossPercent: 0, targetLossPercent: 0, hopCount: 4 })
    for (let run = 0; run < 10; run++) {
      const { hops, pathChanged } = await trace('first', { url: SERVER.IPv4, protocol: 'UDP' })
      expect(pathChanged).toBe(false)
      for (const { lossPercent, hop } of hops)
        expect({ hop, lossPercent }).toEqual({ hop, lossPercent: 0 })
    }
  }, 60_000)

  test('a router that answers once a second is given time for many probes', async () => {
    const request = { url: SERVER.IPv6, ipFamily: 'IPv6', protocol: 'ICMP' }
    const { hops } = await trace('many', { ...request, probesPerHop: 8, timeout: 30 })
    expect(hops.map(({ lossPercent }) => lossPercent)).toEqual([0, 0, 0, 0])
  }, 30_000)
})

/** The server's network, and the addresses of the two routers behind r1. */
function waysOf(family: Family): [to: string, r2: string, d2: string] {
  return [networkOf(family, 4), WAY[family][1] as string, DETOUR[family][1] as string]
}
