// Aim: a trace keeps to its definition: thresholds, assertions, policy, deadline, names of hops and metrics;
// it says what is wrong with the settings and with our own system, and leaves nothing behind. What it finds
// on a real path is in traceroute-chain.test.ts.
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import type { Context } from '../../../src/monitors/monitor.ts'
import type { Observation } from '../../../src/contract/observation.ts'
import { watchedNow } from '../../../src/network/native/readiness.ts'
import { METRICS } from '../../../src/monitors/definitions.ts'
import type { TracerouteMonitor } from '../../../src/monitors/traceroute/definition.ts'
import type { TraceObserved } from '../../../src/monitors/traceroute/report.ts'
import { evaluateTrace } from '../../../src/monitors/traceroute/verdict.ts'
import { traceroute } from '../../../src/monitors/traceroute/index.ts'
import {
  deadlineAfter,
  fixedResolver,
  testContext,
} from '../../support/monitors/monitor-context.ts'
import { closing, unresponsive } from '../../support/monitors/tcp-servers.ts'
import { startMonitorProcess } from '../../support/monitors/monitor-process.ts'
import { startStopwatch } from '../../support/stopwatch.ts'
import { startRawServer } from '../../support/test-server.ts'

type Options = Record<string, unknown>

const LOOPBACK = { IPv4: '127.0.0.1', IPv6: '::1' } as const
const FAMILIES = ['IPv4', 'IPv6'] as const

let monitors = 0

function definition(request: Options, settings: Options = {}): Options {
  return {
    id: `m${monitors++}`,
    name: 'm',
    checkType: 'TRACEROUTE',
    request: { url: '127.0.0.1', protocol: 'UDP', ptrLookup: false, ...request },
    ...settings,
  }
}

const parse = (request: Options, settings: Options = {}) =>
  traceroute.schema.parse(definition(request, settings))

/** Runs a traceroute monitor with its deadline. */
async function run(
  request: Options,
  settings: Options = {},
  context: Partial<Context> = {},
): Promise<Observation & { facts: TraceObserved; codes: string[] }> {
  const monitor = parse(request, settings)
  const signal = deadlineAfter(traceroute.deadlineMs(monitor))
  const observation = await traceroute.prepare(monitor)({ ...testContext({ signal }), ...context })
  return {
    ...observation,
    facts: observation.observed as unknown as TraceObserved,
    codes: observation.failures.map(({ code }) => code),
  }
}

const some = expect.any(Number) as number
const TIMES = { min: some, avg: some, max: some, stdDev: some }

const descriptors = () => readdirSync('/proc/self/fd').length

describe('a target that is one hop away', () => {
  test.each(FAMILIES)('a closed UDP port over %s', async (ipFamily) => {
    const { facts, failures, responseTimeMs, degraded } = await run({
      url: LOOPBACK[ipFamily],
      ipFamily,
    })
    expect(failures).toEqual([])
    expect(facts).toEqual({
      protocol: 'UDP',
      port: 33_434,
      address: LOOPBACK[ipFamily],
      family: ipFamily,
      sourcePort: some,
      reached: true,
      end: 'reached',
      portState: 'closed',
      hopCount: 1,
      hops: [
        {
          hop: 1,
          address: LOOPBACK[ipFamily],
          sent: some,
          received: some,
          lossPercent: 0,
          responseTime: TIMES,
        },
      ],
      responseTime: TIMES,
      targetLossPercent: 0,
      lossPercent: 0,
      pathHash: expect.stringMatching(/^[0-9a-f]{8}$/),
      phases: { dnsMs: some, traceMs: some, totalMs: some },
    })
    expect(responseTimeMs).toBe(facts.responseTime?.avg)
    expect(degraded).toBe(false)
  })

  test.each([
    ['that answers', 'open'],
    ['that is silent', 'silent'],
  ])('an open UDP port %s', async (_, kind) => {
    const socket = createSocket('udp4')
    socket.on('message', (_message, { port, address }) => {
      if (kind === 'open') socket.send('some answer', port, address)
    })
    socket.bind(0, '127.0.0.1')
    await once(socket, 'listening')
    const { port } = socket.address()
    const { facts, codes } = await run({ port, maxHops: 2 }, {}, { signal: deadlineAfter(250) })
    socket.close()
    expect(codes).toEqual(kind === 'open' ? [] : ['TIMEOUT_TRACE'])
    expect(facts.reached).toBe(kind === 'open')
  })

  test('a TCP port that is open, and one that is closed', async () => {
    await using server = await startRawServer(unresponsive)
    const open = await run({ protocol: 'TCP', port: server.port })
    expect(open.codes).toEqual([])
    expect(open.facts).toMatchObject({ reached: true, portState: 'open', hopCount: 1 })
    const free = createServer().listen(0, '127.0.0.1')
    await once(free, 'listening')
    const { port } = free.address() as AddressInfo
    free.close()
    await once(free, 'close')
    const closed = await run({ protocol: 'TCP', port })
    expect(closed.facts).toMatchObject({ reached: true, portState: 'closed', hopCount: 1 })
  })

  test.each([
    ['says nothing', unresponsive],
    ['closes at once', closing],
    ['resets at once', (socket: Socket) => void socket.resetAndDestroy()],
  ])('a TCP server that %s sees few connections, and none of them stays', async (_, behaviour) => {
    let connections = 0
    await using server = await startRawServer((socket) => {
      connections++
      behaviour(socket)
    })
    for (let round = 0; round < 5; round++) {
      const { facts } = await run({ protocol: 'TCP', port: server.port })
      expect(facts).toMatchObject({ reached: true, portState: 'open', lossPercent: 0 })
    }
    // Four of each run; the server, which runs in this process, receives the last ones later.
    await expect.poll(() => connections).toBe(20)
  })
})

describe('what comes out', () => {
  test.each([
    [10, 20, 9, [], false],
    [10, 20, 11, [], true],
    [10, 20, 21, ['RESPONSE_TIME_ABOVE_MAX'], true],
  ])('thresholds of %i and %i ms, an average of %i ms', async (...row) => {
    const [degradedResponseTime, maxResponseTime, avg, codes, degraded] = row
    const monitor = parse({}, { degradedResponseTime, maxResponseTime }) as TracerouteMonitor
    const { facts } = await run({})
    const slow = { ...facts, responseTime: { min: 1, avg, max: 1000, stdDev: 1 } }
    const evaluated = await evaluateTrace(monitor, slow, {}, new AbortController().signal)
    expect(evaluated.failures.map(({ code }) => code)).toEqual(codes)
    expect(evaluated).toMatchObject({ degraded, responseTimeMs: avg })
  })

  const assertion = (line: string) => {
    const [source, comparison, target, property = ''] = line.split(' ')
    return { source, comparison, target, property }
  }
  test.each([
    ['HOP_COUNT EQUALS 1', true],
    ['HOP_COUNT GREATER_THAN 1', false],
    ['PACKET_LOSS EQUALS 0', true],
    ['PACKET_LOSS GREATER_THAN 0', false],
    ['RESPONSE_TIME LESS_THAN 1000 avg', true],
    ['RESPONSE_TIME GREATER_THAN 1000 max', false],
    ['RESPONSE_TIME LESS_THAN 1000 min', true],
    ['RESPONSE_TIME GREATER_THAN 1000 stdDev', false],
  ])('%s', async (line, holds) => {
    const { codes } = await run({ assertions: [assertion(line)] })
    expect(codes).toEqual(holds ? [] : ['ASSERTION_FAILED'])
  })

  const UNREACHED = { reached: false, end: 'max-hops' as const, hops: [], hopCount: 0 }

  test.each([
    [false, ['DESTINATION_UNREACHED', 'ASSERTION_FAILED']],
    // An unreached target is then what is wanted.
    [true, ['ASSERTION_FAILED']],
  ])('of a target that is not reached, with shouldFail %s', async (shouldFail, codes) => {
    const lines = [
      'RESPONSE_TIME LESS_THAN 1000 avg',
      'PACKET_LOSS EQUALS 100',
      'HOP_COUNT GREATER_THAN 0',
    ]
    const monitor = parse({ assertions: lines.map(assertion) }, { shouldFail }) as TracerouteMonitor
    const { responseTime: _, ...facts } = (await run({})).facts
    const unreached = { ...facts, ...UNREACHED, targetLossPercent: 100 }
    const { failures } = await evaluateTrace(monitor, unreached, {}, new AbortController().signal)
    expect(failures.map(({ code }) => code)).toEqual(codes)
    expect(failures.at(-1)?.details).toMatchObject({ source: 'HOP_COUNT' })
  })

  test('metrics, by the names of Grafana’s agent where it has them', async () => {
    const { observed, facts } = await run({})
    const samples = traceroute.samples(observed)
    expect(samples.map(({ name }) => name).filter((name) => !METRICS.has(name))).toEqual([])
    const values = Object.fromEntries(samples.map(({ name, value }) => [name, value]))
    expect(values).toMatchObject({
      probe_traceroute_total_hops: 1,
      probe_traceroute_route_hash: Number.parseInt(facts.pathHash, 16),
      probe_traceroute_packet_loss_percent: 0,
      probe_traceroute_target_loss_percent: 0,
      probe_traceroute_reached: 1,
      probe_traceroute_route_changed: 0,
      probe_ip_protocol: 4,
    })
    const times = samples.filter(({ name }) => name === 'probe_traceroute_duration_seconds')
    expect(times.map(({ labels }) => labels?.['statistic'])).toEqual([
      'min',
      'avg',
      'max',
      'stddev',
    ])
    expect(values).toHaveProperty('probe_dns_lookup_time_seconds')
    expect(traceroute.samples({ protocol: 'TCP' })).toEqual([])
    const withoutHops = traceroute.samples({ family: 'IPv6', phases: { dnsMs: 1 } })
    expect(withoutHops).toEqual([{ name: 'probe_ip_protocol', value: 6 }])
  })

  test('the second run knows the path of the first', async () => {
    const id = 'same'
    expect((await run({}, { id })).facts).not.toHaveProperty('pathChanged')
    expect((await run({}, { id })).facts.pathChanged).toBe(false)
  })
})

describe('what is refused', () => {
  test('an address that the policy forbids, as literal and as name', async () => {
    const { dial } = testContext({ blocked: ['127.0.0.0/8'] })
    for (const url of ['127.0.0.1', '0x7f000001', 'localhost', '169.254.169.254']) {
      const { codes, facts } = await run({ url }, {}, { dial })
      expect(codes).toEqual(['ADDRESS_BLOCKED'])
      expect(facts).toEqual({ protocol: 'UDP', port: 33_434 })
    }
  })

  test.each([
    ['port 0', { port: 0 }],
    ['a size of TCP probes', { protocol: 'TCP', packetSize: 1500 }],
    ['a size without room for the mark', { packetSize: 63 }],
    ['no probes', { probesPerHop: 0 }],
    ['eleven probes a hop', { probesPerHop: 11 }],
    ['an unknown field', { probes: 3 }],
  ])('%s', (_, request) => {
    const parsed = traceroute.schema.safeParse(definition(request))
    expect(parsed.success).toBe(false)
  })
})

describe('time', () => {
  test('a name that is never resolved is TIMEOUT_DNS', async () => {
    const context = testContext({ resolver: fixedResolver({}), signal: deadlineAfter(50) })
    const ownMs = startStopwatch()
    expect((await run({ url: 'never.test' }, {}, context)).codes).toEqual(['TIMEOUT_DNS'])
    expect(ownMs()).toBeLessThan(100)
  })

  test('a run that is cancelled while answers are awaited lets go at once', async () => {
    const socket = createSocket('udp4').bind(0, '127.0.0.1')
    await once(socket, 'listening')
    const { port } = socket.address()
    const before = descriptors()
    const controller = new AbortController()
    const outcome = run({ port }, {}, { signal: controller.signal }).catch(
      (error: Error) => error.message,
    )
    await expect.poll(watchedNow).toBe(1)
    const ownMs = startStopwatch()
    controller.abort(new Error('cancelled'))
    expect(await outcome).toBe('cancelled')
    expect(ownMs()).toBeLessThan(50)
    expect(descriptors()).toBe(before)
    expect(watchedNow()).toBe(0)
    socket.close()
  })
})

test('100 traces at a time leave no descriptor and wait for nothing', async () => {
  await using server = await startRawServer(unresponsive)
  const one = (index: number) =>
    index % 2 === 0 ? run({ protocol: 'TCP', port: server.port }) : run({ url: '127.0.0.2' })
  // The descriptors that stay: the condition of the poll, and what the first load opens.
  await one(0)
  const before = descriptors()
  const all = await Promise.all(Array.from({ length: 100 }, (_, index) => one(index)))
  expect(all.flatMap(({ codes }) => codes)).toEqual([])
  expect(watchedNow()).toBe(0)
  await expect.poll(descriptors).toBeLessThanOrEqual(before)
})

test.each(['TCP', 'UDP'])(
  '%s: an agent that is busy for a while loses nothing by it',
  async (protocol) => {
    await using server = await startMonitorProcess()
    const port = await server.listen(protocol === 'TCP' ? 'tcp' : 'udp', '127.0.0.1')
    await run({ protocol, port })
    const running = run({ protocol, port })
    // The first probes are sent without a turn of the event loop; their answers come while nobody listens.
    for (let step = 0; step < 50; step++) await Promise.resolve()
    const startedAt = performance.now()
    while (performance.now() - startedAt < 1100);
    const { facts, codes } = await running
    expect(codes).toEqual([])
    expect(facts).toMatchObject({ reached: true, portState: 'open', hopCount: 1, lossPercent: 0 })
    expect(facts.hops[0]?.sent).toBeLessThanOrEqual(5)
  },
)
