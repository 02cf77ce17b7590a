// Aim: when the target is not reached, a trace says how far packets came and who or what stopped them; it
// ends in time, and releases its resources at once when it is cancelled.
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { TraceObserved } from '../../../src/monitors/traceroute/report.ts'
import { createHopChain, SERVER, WAY, type HopChain } from '../../support/monitors/hop-chain.ts'
import { startMonitorProcess, type MonitorProcess } from '../../support/monitors/monitor-process.ts'
import {
  addressesOf,
  CASES,
  chainNeeds,
  createTracedChain,
  PROTOCOLS,
  type TracedChain,
} from '../../support/monitors/traced-chain.ts'

describe.skipIf(chainNeeds !== undefined)(`a chain of networks ${chainNeeds ?? ''}`, () => {
  let on: TracedChain
  beforeAll(async () => {
    on = await createTracedChain()
  })
  afterAll(() => on?.[Symbol.asyncDispose]())
  afterEach(() => on.restore())

  describe('a target that is not reached', () => {
    const REJECTS = [
      ['host unreachable', 'icmp', 'host-unreachable', '!H'],
      ['network unreachable', 'icmp', 'net-unreachable', '!N'],
      ['communication prohibited', 'icmp', 'admin-prohibited', '!X'],
      ['host prohibited', 'icmp', 'host-prohibited', '!Z'],
      ['address unreachable', 'icmpv6', 'addr-unreachable', '!H'],
      ['no route to destination', 'icmpv6', 'no-route', '!N'],
      ['communication prohibited', 'icmpv6', 'admin-prohibited', '!X'],
    ] as const

    test.each(REJECTS)('%s (%s %s)', async (name, kind, type, mark) => {
      on.firewall(
        'r3',
        'forward',
        `meta protocol ${kind === 'icmp' ? 'ip' : 'ip6'} reject with ${kind} type ${type}`,
      )
      const family = kind === 'icmp' ? 'IPv4' : 'IPv6'
      for (const protocol of PROTOCOLS) {
        const { facts, codes, message, tookMs } = await on.trace(family, protocol)
        expect(codes).toEqual(['DESTINATION_UNREACHED'])
        expect(facts).toMatchObject({ reached: false, end: 'refused', hopCount: 3 })
        expect(addressesOf(facts)).toEqual(WAY[family].slice(0, 3))
        expect(facts.hops[2]?.refusal).toEqual({ name, mark })
        expect(message).toContain(`hop 3 (${WAY[family][2]}) says “${name}” (${mark})`)
        expect(tookMs).toBeLessThan(1000)
      }
    })

    test('by a firewall on the target itself, which is named', async () => {
      on.firewall('server', 'input', 'reject with icmpx type admin-prohibited')
      for (const { family, protocol } of CASES) {
        const { codes, message, facts } = await on.trace(family, protocol)
        expect(codes).toEqual(['DESTINATION_UNREACHED'])
        expect(message).toContain('the target itself says “communication prohibited”')
        expect(addressesOf(facts).slice(0, 3)).toEqual(WAY[family].slice(0, 3))
      }
    })

    test('by a firewall before it that speaks of a closed port', async () => {
      on.firewall('r3', 'forward', 'reject with icmpx type port-unreachable')
      const { codes, facts } = await on.trace('IPv4', 'UDP')
      expect(codes).toEqual(['DESTINATION_UNREACHED'])
      expect(facts.hops[2]?.refusal).toEqual({ name: 'port unreachable', mark: '!p' })
    })

    test('since no host has the address, as the last router finds out after three seconds', async () => {
      for (const protocol of PROTOCOLS) {
        const { codes, facts } = await on.trace('IPv4', protocol, { url: '10.77.4.99' })
        expect(codes).toEqual(['DESTINATION_UNREACHED'])
        expect(addressesOf(facts)).toEqual(WAY.IPv4.slice(0, 3))
        expect(facts.hops[2]?.refusal).toEqual({ name: 'host unreachable', mark: '!H' })
      }
    })

    test.each(CASES)(
      '$protocol over $family: unresponsive hops end it',
      async ({ family, protocol }) => {
        on.blackhole(family)
        const options = { maxUnknownHops: 5 }
        const { facts, codes, message } = await on.trace(family, protocol, options)
        expect(codes).toEqual(['DESTINATION_UNREACHED'])
        expect(facts).toMatchObject({ reached: false, end: 'unknown-hops', hopCount: 2 })
        expect(addressesOf(facts)).toEqual([
          ...WAY[family].slice(0, 2),
          ...Array<null>(5).fill(null),
        ])
        expect(message).toContain('5 hops in a row are silent')
        expect(facts.targetLossPercent).toBe(100)
      },
    )

    test('since it is farther than maxHops', async () => {
      const { facts, codes } = await on.trace('IPv4', 'TCP', { maxHops: 3 })
      expect(codes).toEqual(['DESTINATION_UNREACHED'])
      expect(facts).toMatchObject({ end: 'max-hops', hopCount: 3 })
      expect(addressesOf(facts)).toEqual(WAY.IPv4.slice(0, 3))
    })

    test.each(CASES)('$protocol over $family: in a circle', async ({ family, protocol }) => {
      const back = family === 'IPv4' ? '10.77.3.1' : 'fd77:3::1'
      on.route(
        'r3',
        family,
        `add ${SERVER[family]} via ${back}`,
        `delete ${SERVER[family]} via ${back}`,
      )
      const { facts, codes, message, tookMs } = await on.trace(family, protocol)
      expect(codes).toEqual(['DESTINATION_UNREACHED'])
      expect(facts.end).toBe('circle')
      expect(message).toContain('routing loop')
      const r3 = facts.loops?.find(({ address }) => address === WAY[family][2])
      expect(r3?.hops.slice(0, 2)).toEqual([3, 5])
      expect(tookMs).toBeLessThan(1000)
    })
  })

  describe('what our own system would not send', () => {
    test.each(PROTOCOLS)('%s without a route', async (protocol) => {
      const { codes } = await on.trace('IPv4', protocol, { url: '203.0.113.1' })
      expect(codes).toEqual(['CONNECT_UNREACHABLE'])
    })

    test.each(['UDP', 'ICMP'] as const)('%s that its firewall forbids', async (protocol) => {
      on.firewall('client', 'output', `meta l4proto { udp, icmp } drop`)
      const { codes } = await on.trace('IPv4', protocol)
      expect(codes).toEqual(['ADDRESS_BLOCKED'])
    })
  })

  test.each(CASES)(
    '$protocol over $family lets go when cancelled',
    async ({ family, protocol }) => {
      on.blackhole(family)
      const before = await on.client.descriptors()
      for (const cancelMs of [0, 20, 300, 2500]) {
        const ran = await on.trace(family, protocol, { maxUnknownHops: 3 }, {}, { cancelMs })
        expect(ran.rejected).toBe('cancelled')
        expect(ran.overrunMs).toBeLessThan(50)
      }
      expect(await on.client.descriptors()).toBeLessThanOrEqual(before)
    },
  )

  test.each(PROTOCOLS)('%s reports its result so far when time runs out', async (protocol) => {
    on.blackhole('IPv4')
    const ran = await on.trace('IPv4', protocol, {}, {}, { deadlineMs: 500 })
    expect(ran.codes).toEqual(['TIMEOUT_TRACE'])
    expect(ran.facts).toMatchObject({ end: 'timeout', reached: false, hopCount: 2 })
    expect(ran.overrunMs).toBeLessThan(50)
  })
})

describe.skipIf(chainNeeds !== undefined)(
  `routers with the limits of Linux ${chainNeeds ?? ''}`,
  () => {
    let chain: HopChain
    let client: MonitorProcess
    beforeAll(async () => {
      chain = createHopChain('limits of Linux')
      client = await startMonitorProcess(chain.prefix('client'))
    })
    afterAll(async () => {
      await client?.[Symbol.asyncDispose]()
      chain?.[Symbol.dispose]()
    })

    async function observe(id: string, request: Record<string, unknown>) {
      const definition = { id, checkType: 'TRACEROUTE', request: { ptrLookup: false, ...request } }
      const { observation } = await client.run(definition)
      return {
        codes: observation?.failures.map(({ code }) => code),
        facts: observation?.observed as unknown as TraceObserved,
      }
    }

    async function trace(id: string, request: Record<string, unknown>): Promise<TraceObserved> {
      const { codes, facts } = await observe(id, request)
      expect(codes).toEqual([])
      return facts
    }

    // In this order: what each leaves behind is what the next meets.
    test('one trace loses nothing, and routers that answer no more are no change of the path', async () => {
      const first = await trace('first', { url: SERVER.IPv4, protocol: 'UDP' })
      expect(first).toMatchObject({ lossPercent: 0, targetLossPercent: 0, hopCount: 4 })
      for (let run = 0; run < 10; run++) {
        const { pathChanged } = await trace('first', { url: SERVER.IPv4, protocol: 'UDP' })
        expect(pathChanged).toBe(false)
      }
    })

    test('a router that sends few refusals is found at its hop', async () => {
      chain.route('r2', 'IPv4', 'add', 'unreachable', SERVER.IPv4)
      onTestFinished(() => chain.route('r2', 'IPv4', 'delete', 'unreachable', SERVER.IPv4))
      const request = { url: SERVER.IPv4, protocol: 'UDP', maxHops: 10 }
      const named: string[] = []
      // What one trace uses up of the router's allowance, the next lacks: not each of them is refused.
      for (let count = 0; count < 8 && named.length < 2; count++) {
        const { codes, facts } = await observe('refused', request)
        expect(codes).toEqual(['DESTINATION_UNREACHED'])
        for (const { hop, address, refusal } of facts.hops) {
          if (refusal !== undefined) named.push(`${hop} ${address} ${refusal.mark}`)
        }
      }
      expect([...new Set(named)]).toEqual([`2 ${WAY.IPv4[1]} !H`])
    })

    test('a router that answers once a second is given time for many probes', async () => {
      const request = { url: SERVER.IPv6, ipFamily: 'IPv6', protocol: 'ICMP' }
      const { hops } = await trace('many', { ...request, probesPerHop: 8, timeout: 30 })
      expect(hops.map(({ lossPercent }) => lossPercent)).toEqual([0, 0, 0, 0])
    })
  },
)
