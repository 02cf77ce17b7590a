// Aim: in a real network of namespaces, ICMP monitors say what became of their echoes and who objected: over
// both families, without any privilege and with a raw socket; and they say what to allow where neither is.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { IcmpObserved } from '../../../src/monitors/icmp/observed.ts'
import type { Observation } from '../../../src/contract/observation.ts'
import { eventually } from '../../support/eventually.ts'
import { AS_NOBODY } from '../../support/as-nobody.ts'
import { startMonitorProcess } from '../../support/monitors/monitor-process.ts'
import {
  NETWORK_CASES,
  NO_FIREWALL,
  type NetworkCase,
} from '../../support/monitors/icmp/icmp-network-cases.ts'
import { missing } from '../../support/needs.ts'
import { createRoutedNetwork, type RoutedNetwork } from '../../support/network/routed-network.ts'

const why = missing('ip', 'nft') ?? (process.getuid?.() === 0 ? undefined : 'needs root')
const ALLOW = 'sysctl -qw net.ipv4.ping_group_range="0 2147483647"'
const FORBID = 'sysctl -qw net.ipv4.ping_group_range="1 0"'

let network: RoutedNetwork
beforeAll(() => {
  if (why === undefined) network = createRoutedNetwork()
})
afterAll(() => network?.remove())

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

type Kind = 'datagram' | 'raw'

function optionsOf({ family, to, request }: NetworkCase): IcmpOptions {
  const hostname = (to ?? ((one: RoutedNetwork) => one[family].target))(network)
  const ipFamily = family === 'v6' ? 'IPv6' : 'IPv4'
  return { request: { hostname, ipFamily, pingCount: 3, intervalMs: 20, ...request } }
}

function codesOf(observation: Observation | undefined): string[] {
  return (observation?.failures ?? []).map(({ code }) => code)
}

function observedOf(observation: Observation | undefined): IcmpObserved {
  return observation?.observed as unknown as IcmpObserved
}

/** Runs in the client as nobody with unprivileged echoes, or as root without them. */
function prefixFor(kind: Kind): string[] {
  network.run('client', kind === 'datagram' ? ALLOW : FORBID)
  return [...network.prefix('client'), ...(kind === 'datagram' ? AS_NOBODY : [])]
}

describe.skipIf(why !== undefined)(`in a network ${why ?? ''}`, () => {
  describe.each(['datagram', 'raw'] as const)('through a %s socket', (kind) => {
    test.each(NETWORK_CASES)('$family: $what', async (one) => {
      const { breaks = ['client', '', ''], codes, error, loss } = one
      const [place, command, undo] = breaks
      const prefix = prefixFor(kind)
      network.run(place, command)
      try {
        const [observation] = await observeElsewhere(prefix, [optionsOf(one)])
        expect(codesOf(observation)).toEqual(codes)
        const { packetLoss, errors, socket, packetsSent, packetsReceived, pingResults } =
          observedOf(observation)
        expect({ packetLoss, socket }).toEqual({ packetLoss: loss, socket: kind })
        expect(errors[0]).toEqual(
          error === undefined ? undefined : { ...error, count: packetsSent - packetsReceived },
        )
        expect(pingResults.filter(({ success }) => success)).toHaveLength(packetsReceived)
        // The router is one hop.
        const ttls = pingResults.flatMap(({ success, ttl }) => (success ? [ttl] : []))
        expect(ttls).toEqual(Array(packetsReceived).fill(63))
      } finally {
        network.run(place, undo)
      }
    })

    test('errors are distinguished when many targets fail at once', async () => {
      const { target, nobody, router } = network.v4
      const hosts = [target, '10.2.0.98', nobody, router]
      const options = hosts.flatMap((hostname) =>
        [1, 64].map((ttl) => ({
          request: { hostname, ttl, pingCount: 2, intervalMs: 30, timeoutMs: 500 },
        })),
      )
      const noWay = { request: { hostname: '10.9.0.1', pingCount: 1, timeoutMs: 500 } }
      const observations = await observeElsewhere(prefixFor(kind), [...options, noWay])
      const first = observations.map((one) => codesOf(one)[0] ?? 'passed')
      // Of a way that is missing the router speaks, however much else it has just objected to.
      expect(first.pop()).toBe('ICMP_UNREACHABLE')
      expect(first.filter((_, at) => at % 2 === 0)).toEqual([
        'ICMP_TTL_EXCEEDED',
        'ICMP_TTL_EXCEEDED',
        'ICMP_TTL_EXCEEDED',
        'passed',
      ])
      expect(first.filter((_, at) => at % 2 === 1)).toEqual([
        'passed',
        'ICMP_UNREACHABLE',
        'ICMP_UNREACHABLE',
        'passed',
      ])
    })
  })

  test('a cable that is pulled in the middle costs the echoes after it', async () => {
    const prefix = prefixFor('datagram')
    const before = echoesOf(network)
    const request = {
      hostname: network.v4.target,
      pingCount: 20,
      intervalMs: 100,
      timeoutMs: 300,
    }
    const observing = observeElsewhere(prefix, [{ request }])
    try {
      await eventually(() => echoesOf(network) >= before + 3)
      network.run('target', 'ip link set far down')
      const [observation] = await observing
      const { packetsSent, packetsReceived, pingResults } = observedOf(observation)
      expect(packetsSent).toBe(20)
      expect(packetsReceived).toBeGreaterThanOrEqual(3)
      expect(packetsReceived).toBeLessThan(20)
      const successes = pingResults.map(({ success }) => success)
      expect(successes).toEqual(successes.toSorted((a, b) => Number(b) - Number(a)))
      expect(codesOf(observation)).toContain('ICMP_PACKET_LOSS')
    } finally {
      network.run('target', 'ip link set far up; ip route add default via 10.2.0.1')
    }
  })

  const OURS = [
    {
      what: 'our own firewall',
      breaks: `nft 'table inet t { chain c { type filter hook output priority 0; icmp type echo-request drop; }; }'`,
      fixes: NO_FIREWALL,
    },
    {
      what: 'a prohibiting route of our own',
      breaks: 'ip route add prohibit 10.2.0.2/32',
      fixes: 'ip route delete prohibit 10.2.0.2/32',
    },
  ]
  test.each(OURS)(
    '$what is no fault of the target, and ends the run',
    async ({ breaks, fixes }) => {
      const prefix = prefixFor('datagram')
      network.run('client', breaks)
      try {
        const request = { hostname: network.v4.target, pingCount: 50 }
        const [observation] = await observeElsewhere(prefix, [{ request }])
        expect(codesOf(observation)).toEqual(['ADDRESS_BLOCKED'])
        expect(observedOf(observation)).toMatchObject({ packetsSent: 0, packetsReceived: 0 })
        expect(observedOf(observation).packetLoss).toBeUndefined()
      } finally {
        network.run('client', fixes)
      }
    },
  )

  test.each(['IPv4', 'IPv6'])('without any permission, %s says what to allow', async (ipFamily) => {
    network.run('client', FORBID)
    const prefix = [...network.prefix('client'), ...AS_NOBODY]
    const hostname = ipFamily === 'IPv6' ? network.v6.target : network.v4.target
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
function echoesOf({ run }: RoutedNetwork): number {
  const lines = run('target', 'cat /proc/net/snmp').split('\n')
  const [names = [], values = []] = lines
    .filter((line) => line.startsWith('Icmp: '))
    .map((line) => line.split(' '))
  return Number(values[names.indexOf('InEchos')])
}
