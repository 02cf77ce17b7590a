// Aim: the ICMP monitor on loopback: what it shows, how it evaluates, and that it lets go at every stage.
import { execFileSync } from 'node:child_process'
import { readdirSync, readlinkSync } from 'node:fs'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { LIMITS } from '../../../src/contract/versions.ts'
import { ICMP_LIMITS } from '../../../src/monitors/icmp/definition.ts'
import { icmp } from '../../../src/monitors/icmp/index.ts'
import type { IcmpObserved } from '../../../src/monitors/icmp/observed.ts'
import { watchedNow } from '../../../src/network/native/readiness.ts'
import { eventually } from '../../support/eventually.ts'
import {
  assertion,
  cancelAt,
  checkMonitor,
  codesOf,
  sampleValues,
} from '../../support/monitors/check-monitor.ts'
import {
  type ContextOptions,
  deadlineAfter,
  fixedResolver,
} from '../../support/monitors/monitor-context.ts'
import { missing, withoutEchoes } from '../../support/needs.ts'
import {
  createNetworkNamespace,
  type NetworkNamespace,
} from '../../support/network/network-namespace.ts'

/** Four echoes to loopback, within some moments. */
const QUICK = { hostname: '127.0.0.1', pingCount: 4, intervalMs: 20 }

/** Without a deadline: thousands at once take long on a busy machine. */
async function observe(request: object, options: ContextOptions = {}, more: object = {}) {
  const context = { signal: new AbortController().signal, ...options }
  const observation = await checkMonitor(icmp, { ...QUICK, ...request }, more, context)
  return { ...observation, observed: observation.observed as unknown as IcmpObserved }
}

const noEchoes = withoutEchoes()

describe('what is shown', () => {
  beforeEach(({ skip }) => skip(noEchoes !== undefined, noEchoes))

  test.each([
    ['IPv4', '127.0.0.1', 0],
    ['IPv6', '::1', 129],
  ])('of %s: the public result, with additions', async (ipFamily, hostname, type) => {
    const { observed, codes, degraded, responseTimeMs } = await observe({ hostname, ipFamily })
    expect([codes, degraded]).toEqual([[], false])
    const rtts = observed.pingResults.map(({ rtt = -1 }) => rtt)
    const [min, max] = [Math.min(...rtts), Math.max(...rtts)]
    const mean = rtts.reduce((sum, rtt) => sum + rtt, 0) / rtts.length
    const some = expect.any(Number) as number
    expect(observed).toEqual({
      hostname,
      resolvedIp: hostname,
      ipFamily,
      pingCount: 4,
      packetSize: 64,
      packetsSent: 4,
      packetsReceived: 4,
      packetLoss: 0,
      latency: { avg: expect.closeTo(mean, 2) as number, min, max, stdDev: some },
      jitter: some,
      duplicates: 0,
      outOfOrder: 0,
      corrupted: 0,
      late: 0,
      errors: [],
      dnsResolutionTime: some,
      setupTime: some,
      socket: expect.stringMatching(/^(datagram|raw)$/) as string,
      pingResults: rtts.map((rtt, sequence) => {
        return { sequence, success: true, type, code: 0, rtt, ttl: 64 }
      }),
    })
    expect(min).toBeGreaterThan(0)
    expect(max).toBeLessThan(1000)
    expect(responseTimeMs).toBe(observed.latency?.avg)
  })

  test.each([8, 65_507])('a payload of %i bytes', async (payloadBytes) => {
    const { codes, observed } = await observe({ payloadBytes })
    expect(codes).toEqual([])
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
    const { observed, codes } = await observe({ hostname, ipFamily }, { resolver })
    expect(codes).toEqual([])
    expect(observed).toMatchObject({ hostname, resolvedIp, ipFamily: 'IPv4' })
    expect(observed).not.toHaveProperty('addresses')
  })

  test('all addresses, where they are asked for', async () => {
    const addresses = Array.from({ length: 20 }, (_, n) => `127.0.1.${n + 1}`)
    const resolver = fixedResolver({ 'many.test': addresses })
    const request = { hostname: 'many.test', allAddresses: true }
    const { observed, codes } = await observe(request, { resolver })
    expect(codes).toEqual([])
    const within = addresses.slice(0, LIMITS.addressesMax)
    expect(observed).toMatchObject({
      addresses: within.map((address) => ({ address, packetLoss: 0 })),
      addressesLeftOut: 20 - LIMITS.addressesMax,
    })
  })

  test('samples, each with its meaning, and nothing invented when nothing was seen', async () => {
    const { observed } = await observe({})
    expect(sampleValues(icmp, observed)).toMatchObject({
      probe_ip_protocol: 4,
      probe_icmp_reply_hop_limit: 64,
      probe_icmp_packets_sent_count: 4,
      probe_icmp_packets_received_count: 4,
      probe_icmp_packet_loss_ratio: 0,
      'probe_icmp_duration_seconds rtt': (observed.latency?.avg ?? 0) / 1000,
      'probe_icmp_duration_seconds resolve': expect.any(Number),
      'probe_icmp_duration_seconds setup': expect.any(Number),
    })
    const none = sampleValues(icmp, (await observe({ hostname: '169.254.169.254' })).observed)
    expect(none).not.toHaveProperty('probe_icmp_packet_loss_ratio')
    expect(none).not.toHaveProperty('probe_icmp_reply_hop_limit')
  })

  test.each([
    ['LATENCY avg LESS_THAN 1000', []],
    ['LATENCY max GREATER_THAN 1000', ['ASSERTION_FAILED']],
    ['JSON_RESPONSE $.packetsReceived EQUALS 4', []],
    ['JSON_RESPONSE $.pingResults[*].ttl CONTAINS 64', []],
  ])('%s', async (line, codes) => {
    expect(await codesOf(observe({ assertions: [assertion(line)] }))).toEqual(codes)
  })

  test('thousands of runs share few sockets, and all are closed when nobody needs them', async () => {
    await eventually(() => watchedNow() === 0)
    const before = sockets()
    const runs = Array.from({ length: 2000 }, (_, n) =>
      observe({ hostname: `127.1.${n >> 8}.${n & 255}`, pingCount: 2, intervalMs: 50 }),
    )
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(sockets() - before).toBeLessThanOrEqual(16)
    const observations = await Promise.all(runs)
    expect(observations.flatMap(({ codes }) => codes)).toEqual([])
    expect(observations.every(({ observed }) => observed.packetLoss === 0)).toBe(true)
    // The sockets of this file's runs, of both families, are among them.
    await eventually(() => sockets() <= before && watchedNow() === 0, { ms: 8000 })
  })
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
    const request = { hostname, timeoutMs: 100 }
    const failed = await observe(request)
    expect(failed.codes).toEqual(['ICMP_PACKET_LOSS'])
    expect(failed.observed).toMatchObject({ packetsSent: 4, packetsReceived: 0, packetLoss: 100 })
    expect(failed.responseTimeMs).toBeUndefined()
    const expected = await observe(request, {}, { shouldFail: true })
    expect([expected.codes, expected.degraded ?? false]).toEqual([[], false])
  })

  test('one address of several that is silent fails the check', async () => {
    const resolver = fixedResolver({ 'some.test': ['127.0.0.1', hostname] })
    const request = { timeoutMs: 100, hostname: 'some.test', allAddresses: true }
    const { failures, observed } = await observe(request, { resolver })
    const details = { address: hostname }
    expect(failures).toMatchObject([{ code: 'ICMP_PACKET_LOSS', details }])
    expect(observed).toMatchObject({ resolvedIp: hostname, packetLoss: 100 })
  })

  test.each([
    ['while it waits for a reply', { timeoutMs: 10_000, pingCount: 1 }],
    ['between two echoes', { timeoutMs: 100, intervalMs: 9000, pingCount: 2 }],
  ])('is let go of %s', async (_, request) => {
    const waiting = new Promise((resolve) => setTimeout(resolve, 200))
    const whole = { hostname, ...request }
    const outcome = await cancelAt(waiting, (signal) => observe(whole, { signal }))
    expect(outcome).toBe('let go')
    await eventually(() => watchedNow() === 0, { ms: 1000 })
  })

  test('an agent too busy to send all says so at its deadline', async () => {
    const request = { hostname, pingCount: 3, intervalMs: 100, timeoutMs: 20 }
    const { codes, observed } = await observe(request, { signal: deadlineAfter(150) })
    expect(codes).toEqual(['RESOURCES_EXHAUSTED'])
    expect(observed).toMatchObject({ packetsSent: 2, packetsReceived: 0 })
  })
})

test('the look-up has a time of its own, so that it costs no echoes', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const running = observe({ hostname: 'slow.test' }, { resolver: fixedResolver({}) })
  await vi.advanceTimersByTimeAsync(ICMP_LIMITS.icmpLookupMs)
  expect(await codesOf(running)).toEqual(['TIMEOUT_DNS'])
})
