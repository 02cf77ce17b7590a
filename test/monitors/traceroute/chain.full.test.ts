// Aim: in a real chain of routers a trace finds every hop, distinguishes unresponsive hops from loss, finds narrow links,
// notices when the path changes, keeps to one of several ways, and needs no privilege.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { TraceObserved } from '../../../src/monitors/traceroute/report.ts'
import { DETOUR, networkOf, SERVER, WAY, type Family } from '../../support/monitors/hop-chain.ts'
import { IN_REACH } from '../../support/in-reach.ts'
import { startMonitorProcess, type MonitorProcess } from '../../support/monitors/monitor-process.ts'
import {
  addressesOf,
  CASES,
  chainNeeds,
  createTracedChain,
  FAMILIES,
  PROTOCOLS,
  type Protocol,
  type TracedChain,
} from '../../support/monitors/traced-chain.ts'

describe.skipIf(chainNeeds !== undefined)(`a chain of networks ${chainNeeds ?? ''}`, () => {
  let on: TracedChain
  beforeAll(async () => {
    on = await createTracedChain()
  })
  afterAll(() => on?.[Symbol.asyncDispose]())
  afterEach(() => on.restore())

  const TARGETS = [
    ...CASES,
    { protocol: 'TCP', family: 'IPv4', port: 444, portState: 'closed' } as const,
    { protocol: 'UDP', family: 'IPv4', port: 7, portState: 'open' } as const,
  ]
  test.each(TARGETS)('$protocol over $family knows every hop, port $port', async (target) => {
    const { family, protocol, ...port } = target
    const request = 'port' in port ? { port: port.port } : {}
    const { facts, codes, observation, tookMs } = await on.trace(family, protocol, request)
    expect(codes).toEqual([])
    expect(addressesOf(facts)).toEqual(WAY[family])
    expect(facts).toMatchObject({
      protocol,
      ...port,
      address: SERVER[family],
      family,
      reached: true,
      end: 'reached',
      hopCount: 4,
      targetLossPercent: 0,
      lossPercent: 0,
      pathHash: expect.stringMatching(/^[0-9a-f]{8}$/),
    })
    expect(facts.pathChanged).toBeUndefined()
    expect(facts.loops).toBeUndefined()
    for (const hop of facts.hops) {
      expect(hop.sent).toBeGreaterThanOrEqual(3)
      expect(hop.received).toBe(hop.sent)
      const { min = -1, avg = -1, max = -1 } = hop.responseTime ?? {}
      expect(0 < min && min <= avg && avg <= max).toBe(true)
    }
    expect(observation?.responseTimeMs).toBe(facts.responseTime?.avg)
    expect(tookMs).toBeLessThan(1000)
  })

  test.each(CASES)('$protocol over $family: a silent hop', async ({ family, protocol }) => {
    on.firewall('r2', 'output', 'icmp type time-exceeded drop', 'icmpv6 type time-exceeded drop')
    const { facts, codes, tookMs } = await on.trace(family, protocol)
    expect(codes).toEqual([])
    expect(addressesOf(facts)).toEqual(WAY[family].with(1, null as unknown as string))
    expect(facts.hops[1]).toMatchObject({ sent: 3, received: 0, lossPercent: 100 })
    expect(facts.hops[1]).not.toHaveProperty('responseTime')
    expect(facts).toMatchObject({ hopCount: 4, targetLossPercent: 0 })
    expect(facts.lossPercent).toBeGreaterThan(0)
    expect(tookMs).toBeLessThan(1000)
  })

  test.each(CASES)(
    '$protocol over $family: a hop that loses some',
    async ({ family, protocol }) => {
      const some = 'time-exceeded numgen inc mod 3 0 drop'
      on.firewall('r2', 'output', `icmp type ${some}`, `icmpv6 type ${some}`)
      const { facts, codes } = await on.trace(family, protocol, { probesPerHop: 5 })
      expect(codes).toEqual([])
      expect(addressesOf(facts)).toEqual(WAY[family])
      const lossy = facts.hops[1]
      expect(lossy?.lossPercent).toBeGreaterThanOrEqual(20)
      expect(lossy?.lossPercent).toBeLessThanOrEqual(50)
      const isLossless = facts.hops.map(({ lossPercent }) => lossPercent === 0)
      expect(isLossless).toEqual([true, false, true, true])
      expect(facts.targetLossPercent).toBe(0)
    },
  )

  test.each(CASES)('$protocol over $family: a path that changes', async ({ family, protocol }) => {
    const id = `changing-${family}-${protocol}`
    const first = await on.trace(family, protocol, {}, { id })
    expect(first.facts.pathChanged).toBeUndefined()
    const same = await on.trace(family, protocol, {}, { id })
    expect(same.facts).toMatchObject({ pathChanged: false, pathHash: first.facts.pathHash })
    const [to, r2, d2] = waysOf(family)
    on.route('r1', family, `replace ${to} via ${d2}`, `replace ${to} via ${r2}`)
    const changed = await on.trace(family, protocol, {}, { id })
    expect(changed.codes).toEqual([])
    expect(addressesOf(changed.facts)).toEqual(DETOUR[family])
    expect(changed.facts).toMatchObject({ pathChanged: true, previousPath: WAY[family] })
    expect(changed.facts.pathHash).not.toBe(first.facts.pathHash)
    const after = await on.trace(family, protocol, {}, { id })
    expect(after.facts.pathChanged).toBe(false)
    expect(after.facts).not.toHaveProperty('previousPath')
  })

  describe('a router with two ways to the target', () => {
    beforeAll(() => {
      for (const family of FAMILIES) {
        const [to, r2, d2] = waysOf(family)
        on.chain.route('r1', family, 'replace', to, 'nexthop', 'via', r2, 'nexthop', 'via', d2)
      }
      return () => {
        for (const family of FAMILIES) {
          const [to, r2] = waysOf(family)
          // Over IPv6 each way is a route of its own.
          if (family === 'IPv6') on.chain.route('r1', family, 'delete', to)
          on.chain.route('r1', family, 'replace', to, 'via', r2)
        }
      }
    })

    test.each(CASES)('$protocol over $family keeps to one', async ({ family, protocol }) => {
      const taken = new Set<string>()
      for (let monitor = 0; monitor < 12; monitor++) {
        const paths = new Set<string>()
        for (let run = 0; run < 5; run++) {
          const settings = { id: `balanced-${monitor}` }
          const { facts, codes } = await on.trace(family, protocol, {}, settings)
          expect(codes).toEqual([])
          expect(facts.pathChanged ?? false).toBe(false)
          paths.add(addressesOf(facts).join(' '))
        }
        expect([WAY[family].join(' '), DETOUR[family].join(' ')]).toContain([...paths].join('; '))
        taken.add([...paths].join())
      }
      // Ports choose the way, of which pings have none: all of them take the same.
      expect(taken.size).toBe(protocol === 'ICMP' ? 1 : 2)
    })
  })

  describe('a narrow link behind r2', () => {
    beforeAll(() => {
      const narrow = (mtu: number) => {
        on.chain.run('r2', 'ip', 'link', 'set', 'to-r3', 'mtu', String(mtu))
        on.chain.run('r3', 'ip', 'link', 'set', 'to-r2', 'mtu', String(mtu))
      }
      narrow(1300)
      return () => narrow(1500)
    })

    const SIZES = FAMILIES.flatMap((family) =>
      (['UDP', 'ICMP'] as const).flatMap((protocol) =>
        [1301, 9000].map((packetSize) => ({ family, protocol, packetSize })),
      ),
    )
    test.each(SIZES)('$protocol over $family, $packetSize bytes', async (one) => {
      const { family, protocol, packetSize } = one
      const { facts, codes } = await on.trace(family, protocol, { packetSize })
      expect(codes).toEqual([])
      expect(facts.mtu).toEqual({ bytes: 1300, from: WAY[family][1] })
      expect(facts.hops[1]?.mtu).toBe(1300)
      expect(facts).toMatchObject({ hopCount: 4, lossPercent: 0 })
      expect(addressesOf(facts)).toEqual(WAY[family])
    })
  })

  test('200 traces at a time do not mix up their answers', async () => {
    const before = await on.client.descriptors()
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
      const { facts, codes } = await on.trace(ipFamily, protocol, { url })
      expect(codes).toEqual([])
      expect(addressesOf(facts)).toEqual(expected)
    })
    await Promise.all(all)
    expect(await on.client.descriptors()).toBeLessThanOrEqual(before)
  })

  describe('names of hops', () => {
    const RECORDS = [
      '2.1.77.10.in-addr.arpa,r1.example',
      '2.2.77.10.in-addr.arpa,r2.example',
      '2.4.77.10.in-addr.arpa,server.example',
    ]
    let named: MonitorProcess
    let nameServer: ChildProcess
    beforeAll(async () => {
      const folder = `/etc/netns/${on.chain.nameOf('client')}`
      mkdirSync(folder, { recursive: true })
      // What `ip netns exec` shows its processes in place of the system's file.
      writeFileSync(`${folder}/resolv.conf`, `nameserver ${SERVER.IPv4}\n`)
      const settings = '--no-daemon --no-resolv --no-hosts --conf-file=/dev/null --user=root'
      const records = RECORDS.map((record) => `--ptr-record=${record}`)
      const [ip = '', ...prefix] = on.chain.prefix('server')
      nameServer = spawn(ip, [...prefix, 'dnsmasq', ...settings.split(' '), ...records], {
        stdio: ['ignore', 'ignore', 'pipe'],
      })
      await once(nameServer.stderr as Readable, 'data')
      named = await startMonitorProcess(on.chain.prefix('client'))
      return async () => {
        await named[Symbol.asyncDispose]()
        nameServer.kill()
        rmSync(folder, { recursive: true })
      }
    })

    test('are looked up by the system’s name servers, and not without being asked for', async () => {
      const request = { url: SERVER.IPv4, protocol: 'UDP' }
      const { observation, tookMs } = await named.run({ checkType: 'TRACEROUTE', request })
      const facts = observation?.observed as unknown as TraceObserved
      const names = ['r1.example', 'r2.example', undefined, 'server.example']
      expect(facts.hops.map(({ name }) => name)).toEqual(names)
      expect(tookMs).toBeLessThan(1000)
      const bare = { ...request, ptrLookup: false }
      const without = await named.run({ checkType: 'TRACEROUTE', request: bare })
      const bareSeen = without.observation?.observed as unknown as TraceObserved
      expect(bareSeen.hops.filter((hop) => 'name' in hop)).toEqual([])
    })
  })

  test.each(FAMILIES)('SCTP over %s: a target without it, and its ports', async (family) => {
    const trace = async (port: number, portState: string) => {
      const { facts, codes } = await on.trace(family, 'SCTP', { port })
      expect(codes).toEqual([])
      expect(addressesOf(facts)).toEqual(WAY[family])
      expect(facts).toMatchObject({ port, portState, reached: true, lossPercent: 0 })
    }
    await trace(33_434, 'closed')
    await using listening = await startMonitorProcess(on.chain.prefix('server'))
    await listening.listen('sctp', family === 'IPv4' ? '0.0.0.0' : '::', 3868)
    await trace(3868, 'open')
    await trace(3869, 'closed')
  })

  describe('as nobody, without a capability', () => {
    let nobody: MonitorProcess
    beforeAll(async () => {
      const drop =
        '--reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs'
      nobody = await startMonitorProcess([
        ...on.chain.prefix('client'),
        ...IN_REACH,
        'setpriv',
        ...drop.split(' '),
      ])
      return () => nobody[Symbol.asyncDispose]()
    })

    test.each(CASES)('$protocol over $family knows every hop', async ({ family, protocol }) => {
      const request = { url: SERVER[family], protocol, ipFamily: family, ptrLookup: false }
      const { observation } = await nobody.run({ checkType: 'TRACEROUTE', request })
      expect(observation?.failures).toEqual([])
      expect(addressesOf(observation?.observed as unknown as TraceObserved)).toEqual(WAY[family])
    })

    test('SCTP says what it needs', async () => {
      const request = { url: SERVER.IPv4, protocol: 'SCTP', ptrLookup: false }
      const { observation } = await nobody.run({ checkType: 'TRACEROUTE', request })
      expect(observation?.failures.map(({ code }) => code)).toEqual(['TRACE_UNSUPPORTED'])
      expect(observation?.failures[0]?.message).toContain('NET_RAW')
    })

    test('ICMP says what to allow where the system gives it no socket', async () => {
      on.chain.run('client', 'sh', '-c', "echo '1 0' >/proc/sys/net/ipv4/ping_group_range")
      const request = { url: SERVER.IPv4, protocol: 'ICMP', ptrLookup: false }
      const { observation } = await nobody.run({ checkType: 'TRACEROUTE', request })
      expect(observation?.failures.map(({ code }) => code)).toEqual(['ICMP_NOT_PERMITTED'])
      // With the right to raw sockets, none is needed.
      for (const family of FAMILIES) {
        expect(addressesOf((await on.trace(family, 'ICMP')).facts)).toEqual(WAY[family])
      }
      on.chain.run('client', 'sh', '-c', "echo '0 2147483647' >/proc/sys/net/ipv4/ping_group_range")
    })
  })
})

/** The server's network, and the addresses of the two routers behind r1. */
function waysOf(family: Family): [to: string, r2: string, d2: string] {
  return [networkOf(family, 4), WAY[family][1] as string, DETOUR[family][1] as string]
}
