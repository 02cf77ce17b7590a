// Aim: the ICMP monitor on loopback: what it shows, how it evaluates, and that it lets go at every stage.
import { ICMP_LIMITS } from '../../../src/monitors/icmp/definition.ts'
import { readdirSync, readlinkSync } from 'node:fs'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Failure } from '../../../src/contract/failure.ts'
import { LIMITS } from '../../../src/contract/versions.ts'
import type { IcmpObserved } from '../../../src/monitors/icmp/observed.ts'
import { icmp } from '../../../src/monitors/icmp/index.ts'
import type { Context } from '../../../src/monitors/monitor.ts'
import type { Observation } from '../../../src/contract/observation.ts'
import { watchedNow } from '../../../src/network/native/readiness.ts'
import { METRICS } from '../../../src/monitors/definitions.ts'
import { definitionOf } from '../../support/definitions.ts'
import { eventually } from '../../support/eventually.ts'
import {
  deadlineAfter,
  fixedResolver,
  testContext,
} from '../../support/monitors/monitor-context.ts'
import { missing, withoutEchoes } from '../../support/needs.ts'
import {
  createNetworkNamespace,
  type NetworkNamespace,
} from '../../support/network/network-namespace.ts'
import { startStopwatch } from '../../support/stopwatch.ts'
import { execFileSync } from 'node:child_process'

type Options = Record<string, unknown>

const icmpMonitor = (options: Options) => icmp.schema.parse(definitionOf('ICMP', options))

function observe(options: Options, context: Context = testContext()): Promise<Observation> {
  return icmp.prepare(icmpMonitor(options))(context)
}

function codesOf({ failures }: { failures: readonly Failure[] }): string[] {
  return failures.map(({ code }) => code)
}

const QUICK = { pingCount: 4, intervalMs: 20 }
const HERE = { hostname: '127.0.0.1', ...QUICK }
const noEchoes = withoutEchoes()

describe('what is shown', () => {
  beforeEach(({ skip }) => skip(noEchoes !== undefined, noEchoes))

  test.each([
    ['IPv4', '127.0.0.1', 0],
    ['IPv6', '::1', 129],
  ])('of %s: the public result, with additions', async (ipFamily, hostname, type) => {
    const observation = await observe({ request: { hostname, ipFamily, ...QUICK } })
    expect(observation.failures).toEqual([])
    expect(observation.degraded).toBe(false)
    const observed = observation.observed as unknown as IcmpObserved
    const rtts = observed.pingResults.map(({ rtt = -1 }) => rtt)
    const mean = rtts.reduce((sum, rtt) => sum + rtt, 0) / rtts.length
    expect(observed).toEqual({
      hostname,
      resolvedIp: hostname,
      ipFamily,
      pingCount: 4,
      packetSize: 64,
      packetsSent: 4,
      packetsReceived: 4,
      packetLoss: 0,
      latency: {
        avg: expect.closeTo(mean, 2),
        min: Math.min(...rtts),
        max: Math.max(...rtts),
        stdDev: expect.any(Number),
      },
      jitter: expect.any(Number),
      duplicates: 0,
      outOfOrder: 0,
      corrupted: 0,
      late: 0,
      errors: [],
      dnsResolutionTime: expect.any(Number),
      setupTime: expect.any(Number),
      socket: expect.stringMatching(/^(datagram|raw)$/),
      pingResults: [0, 1, 2, 3].map((sequence) => ({
        sequence,
        success: true,
        type,
        code: 0,
        rtt: rtts[sequence],
        ttl: 64,
      })),
    })
    expect(Math.min(...rtts)).toBeGreaterThan(0)
    expect(Math.max(...rtts)).toBeLessThan(1000)
    expect(observation.responseTimeMs).toBe(observed.latency?.avg)
  })

  test('echoes keep their interval', async () => {
    const began = performance.now()
    await observe({ request: { hostname: '127.0.0.1', pingCount: 5, intervalMs: 50 } })
    expect(performance.now() - began).toBeGreaterThanOrEqual(200)
  })

  test.each([8, 1000, 65_507])('a payload of %i bytes', async (payloadBytes) => {
    const { failures, observed } = await observe({ request: { ...HERE, payloadBytes } })
    expect(failures).toEqual([])
    expect(observed).toMatchObject({ packetSize: payloadBytes + 8, packetsReceived: 4 })
  })

  test.each([
    ['a name: its first address is used', 'two.test', 'IPv4', '127.0.0.2'],
    // In the clothes of IPv6.
    ['an address of IPv4 as one of IPv6', '::ffff:127.0.0.1', 'IPv6', '127.0.0.1'],
  ])('%s', async (_, hostname, ipFamily, resolvedIp) => {
    const resolver = fixedResolver({
      'two.test': ['127.0.0.2', '127.0.0.3'],
      '::ffff:127.0.0.1': ['::ffff:127.0.0.1'],
    })
    const options = { request: { ...HERE, hostname, ipFamily } }
    const { observed, failures } = await observe(options, testContext({ resolver }))
    expect(failures).toEqual([])
    expect(observed).toMatchObject({ hostname, resolvedIp, ipFamily: 'IPv4' })
    expect(observed).not.toHaveProperty('addresses')
  })

  test('all addresses, where they are asked for', async () => {
    const addresses = Array.from({ length: 20 }, (_, n) => `127.0.1.${n + 1}`)
    const resolver = fixedResolver({ 'many.test': addresses })
    const options = { request: { ...HERE, hostname: 'many.test', allAddresses: true } }
    const { observed, failures } = await observe(options, testContext({ resolver }))
    expect(failures).toEqual([])
    const results = observed['addresses'] as { address: string; packetLoss: number }[]
    expect(results.map(({ address }) => address)).toEqual(addresses.slice(0, LIMITS.addressesMax))
    expect(results.every(({ packetLoss }) => packetLoss === 0)).toBe(true)
    expect(observed['addressesLeftOut']).toBe(20 - LIMITS.addressesMax)
  })

  test('samples, each with its meaning, and nothing invented when nothing was seen', async () => {
    const { observed } = await observe({ request: HERE })
    const samples = icmp.samples(observed)
    const { latency } = observed as unknown as IcmpObserved
    const values = samples.map(({ name, value, labels }) => [
      name + (labels?.['phase'] ?? ''),
      value,
    ])
    expect(Object.fromEntries(values)).toMatchObject({
      probe_ip_protocol: 4,
      probe_icmp_reply_hop_limit: 64,
      probe_icmp_packets_sent_count: 4,
      probe_icmp_packets_received_count: 4,
      probe_icmp_packet_loss_ratio: 0,
      probe_icmp_duration_secondsrtt: (latency?.avg ?? 0) / 1000,
      probe_icmp_duration_secondsresolve: expect.any(Number),
      probe_icmp_duration_secondssetup: expect.any(Number),
    })
    expect(samples.filter(({ name }) => !METRICS.has(name))).toEqual([])
    const none = await observe({ request: { ...HERE, hostname: '169.254.169.254' } })
    const names = icmp.samples(none.observed).map(({ name }) => name)
    expect(names).not.toContain('probe_icmp_packet_loss_ratio')
    expect(names).not.toContain('probe_icmp_reply_hop_limit')
  })
})

describe('assertions', () => {
  beforeEach(({ skip }) => skip(noEchoes !== undefined, noEchoes))

  test.each([
    ['LATENCY avg LESS_THAN 1000', []],
    ['LATENCY max GREATER_THAN 1000', ['ASSERTION_FAILED']],
    ['LATENCY min GREATER_THAN 0', []],
    ['LATENCY stdDev LESS_THAN 1000', []],
    ['JSON_RESPONSE $.packetsReceived EQUALS 4', []],
    ['JSON_RESPONSE $.pingResults[*].ttl CONTAINS 64', []],
    ['JSON_RESPONSE $.dnsResolutionTime LESS_THAN 1000', []],
    ['JSON_RESPONSE $.latency.max LESS_THAN 0', ['ASSERTION_FAILED']],
  ])('%s', async (line, codes) => {
    const [source, property, comparison, target] = line.split(' ')
    const assertions = [{ source, property, comparison, target }]
    expect(codesOf(await observe({ request: { ...HERE, assertions } }))).toEqual(codes)
  })
})

test.each(['evil.test', '127.0.0.77'])('the policy forbids %s', async (hostname) => {
  const resolver = fixedResolver({
    'evil.test': ['127.0.0.1', '169.254.169.254'],
    '127.0.0.77': ['127.0.0.77'],
  })
  const context = testContext({ resolver, blocked: ['127.0.0.77/32'] })
  const observation = await observe({ request: { ...HERE, hostname } }, context)
  expect(codesOf(observation)).toEqual(['ADDRESS_BLOCKED'])
  expect(observation.observed).toMatchObject({ packetsSent: 0 })
})

/** Sockets of this process. */
function sockets(): number {
  return readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith('socket:')
    } catch {
      return false
    }
  }).length
}

const why = missing('ip') ?? (process.getuid?.() === 0 ? undefined : 'needs root')

describe.skipIf(why !== undefined)(`a target that keeps silent ${why ?? ''}`, () => {
  let silent: NetworkNamespace
  let hostname: string
  beforeAll(() => {
    silent = createNetworkNamespace()
    const [program = '', ...prefix] = silent.prefix
    execFileSync(program, [...prefix, 'sysctl', '-qw', 'net.ipv4.icmp_echo_ignore_all=1'])
    hostname = silent.address
  })
  afterAll(() => silent.remove())

  test('has failed when its echoes are lost, and passes where it should fail', async () => {
    const request = { hostname, ...QUICK, timeoutMs: 100 }
    const failed = await observe({ request })
    expect(codesOf(failed)).toEqual(['ICMP_PACKET_LOSS'])
    expect(failed.observed).toMatchObject({ packetsSent: 4, packetsReceived: 0, packetLoss: 100 })
    expect(failed.responseTimeMs).toBeUndefined()
    const expected = await observe({ request, shouldFail: true })
    expect(codesOf(expected)).toEqual([])
    expect(expected.degraded).toBeFalsy()
  })

  test('one address of several that is silent fails the check', async () => {
    const resolver = fixedResolver({ 'some.test': ['127.0.0.1', hostname] })
    const request = { ...QUICK, timeoutMs: 100, hostname: 'some.test', allAddresses: true }
    const { failures, observed } = await observe({ request }, testContext({ resolver }))
    expect(failures.map(({ code, details }) => [code, details?.['address']])).toEqual([
      ['ICMP_PACKET_LOSS', hostname],
    ])
    expect(observed).toMatchObject({ resolvedIp: hostname, packetLoss: 100 })
  })

  test.each([
    ['while it waits for a reply', { timeoutMs: 10_000, pingCount: 1 }],
    ['between two echoes', { timeoutMs: 100, intervalMs: 9000, pingCount: 2 }],
    ['with many echoes under way', { timeoutMs: 5000, intervalMs: 10, pingCount: 50 }],
  ])('is let go of %s', async (_, request) => {
    const controller = new AbortController()
    const running = observe(
      { request: { hostname, ...request } },
      testContext({ signal: controller.signal }),
    )
    await new Promise((resolve) => setTimeout(resolve, 200))
    const ownMs = startStopwatch()
    controller.abort(new Error('cancelled'))
    await expect(running).rejects.toThrow('cancelled')
    expect(ownMs()).toBeLessThan(50)
    await eventually(() => watchedNow() === 0, { ms: 1000 })
  })

  test('an agent too busy to send all says so at its deadline', async () => {
    const context = testContext({ signal: deadlineAfter(150) })
    const request = { hostname, pingCount: 3, intervalMs: 100, timeoutMs: 20 }
    const observation = await observe({ request }, context)
    expect(codesOf(observation)).toEqual(['RESOURCES_EXHAUSTED'])
    expect(observation.observed).toMatchObject({ packetsSent: 2, packetsReceived: 0 })
  })
})

describe('letting go', () => {
  afterEach(() => {
    vi.useRealTimers()
  })

  test('the look-up has a time of its own, so that it costs no echoes', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const context = testContext({ resolver: fixedResolver({}) })
    const running = observe({ request: { ...HERE, hostname: 'slow.test' } }, context)
    await vi.advanceTimersByTimeAsync(ICMP_LIMITS.icmpLookupMs)
    expect(codesOf(await running)).toEqual(['TIMEOUT_DNS'])
  })

  test('thousands of runs at once share few sockets, and all are closed when nobody needs them', async ({
    skip,
  }) => {
    skip(noEchoes !== undefined, noEchoes)
    await eventually(() => watchedNow() === 0)
    const before = sockets()
    const runs = Array.from({ length: 2000 }, (_, n) =>
      observe({
        request: { hostname: `127.1.${n >> 8}.${n & 255}`, pingCount: 2, intervalMs: 50 },
      }),
    )
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(sockets() - before).toBeLessThanOrEqual(16)
    const observations = await Promise.all(runs)
    expect(observations.flatMap(codesOf)).toEqual([])
    expect(observations.every(({ observed }) => observed['packetLoss'] === 0)).toBe(true)
    // The sockets of this file's runs, of both families, are among them.
    await eventually(() => sockets() <= before && watchedNow() === 0, { ms: 8000 })
  })
})
