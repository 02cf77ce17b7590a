// Aim: a trace keeps to its definition: thresholds, assertions, policy, deadline, names of hops and metrics;
// it says what is wrong with the settings and with our own system, and leaves nothing behind. What it finds
// on a real path is in chain.full.test.ts.
import { describe, expect, test } from 'vitest'
import { TracerouteMonitor } from '../../../src/monitors/traceroute/definition.ts'
import { traceroute } from '../../../src/monitors/traceroute/index.ts'
import type { TraceObserved } from '../../../src/monitors/traceroute/report.ts'
import { evaluateTrace } from '../../../src/monitors/traceroute/verdict.ts'
import { definitionOf, type Fields } from '../../support/definitions.ts'
import {
  assertion,
  checkMonitor,
  codesOf,
  sampleValues,
} from '../../support/monitors/check-monitor.ts'
import { startMonitorProcess } from '../../support/monitors/monitor-process.ts'
import { startRawServer } from '../../support/test-server.ts'

const LOOPBACK = { IPv4: '127.0.0.1', IPv6: '::1' } as const

let monitors = 0

/** Runs a monitor that has never run before. */
async function run(request: Fields) {
  const whole = { url: '127.0.0.1', protocol: 'UDP', ptrLookup: false, ...request }
  const observation = await checkMonitor(traceroute, whole, { id: `m${monitors++}` })
  return { ...observation, facts: observation.observed as unknown as TraceObserved }
}

/** The verdict of a monitor on a trace with these facts. */
async function evaluated(settings: Fields, changes: Partial<TraceObserved>) {
  const monitor = TracerouteMonitor.parse(definitionOf('TRACEROUTE', settings))
  const { responseTime: _, ...facts } = (await run({})).facts
  const { signal } = new AbortController()
  const verdict = await evaluateTrace(monitor, { ...facts, ...changes }, {}, signal)
  return { ...verdict, codes: verdict.failures.map(({ code }) => code) }
}

const some = expect.any(Number) as number
const TIMES = { min: some, avg: some, max: some, stdDev: some }

test.each(['IPv4', 'IPv6'] as const)(
  'a target that is one hop away: a closed UDP port over %s',
  async (ipFamily) => {
    const address = LOOPBACK[ipFamily]
    const { facts, codes, responseTimeMs, degraded } = await run({ url: address, ipFamily })
    expect(codes).toEqual([])
    expect(facts).toEqual({
      protocol: 'UDP',
      port: 33_434,
      address,
      family: ipFamily,
      sourcePort: some,
      reached: true,
      end: 'reached',
      portState: 'closed',
      hopCount: 1,
      hops: [{ hop: 1, address, sent: some, received: some, lossPercent: 0, responseTime: TIMES }],
      responseTime: TIMES,
      targetLossPercent: 0,
      lossPercent: 0,
      pathHash: expect.stringMatching(/^[0-9a-f]{8}$/),
      phases: { dnsMs: some, traceMs: some, totalMs: some },
    })
    expect(responseTimeMs).toBe(facts.responseTime?.avg)
    expect(degraded).toBe(false)
  },
)

test('a target that is one hop away: a TCP server that resets at once sees few connections', async () => {
  let connections = 0
  await using server = await startRawServer((socket) => {
    connections++
    socket.resetAndDestroy()
  })
  for (let round = 0; round < 5; round++) {
    const { facts } = await run({ protocol: 'TCP', port: server.port })
    expect(facts).toMatchObject({ reached: true, portState: 'open', lossPercent: 0 })
  }
  // Four of each run; the server, which runs in this process, receives the last ones later.
  await expect.poll(() => connections).toBe(20)
})

describe('what comes out', () => {
  test.each([
    [10, 20, 9, [], false],
    [10, 20, 11, [], true],
    [10, 20, 21, ['RESPONSE_TIME_ABOVE_MAX'], true],
  ])('thresholds of %i and %i ms, an average of %i ms', async (...row) => {
    const [degradedResponseTime, maxResponseTime, avg, codes, degraded] = row
    const responseTime = { min: 1, avg, max: 1000, stdDev: 1 }
    const verdict = await evaluated({ degradedResponseTime, maxResponseTime }, { responseTime })
    expect(verdict).toMatchObject({ codes, degraded, responseTimeMs: avg })
  })

  test.each([
    ['HOP_COUNT  EQUALS 1', []],
    ['PACKET_LOSS  EQUALS 0', []],
    ['RESPONSE_TIME min LESS_THAN 1000', []],
    ['RESPONSE_TIME stdDev GREATER_THAN 1000', ['ASSERTION_FAILED']],
  ])('%s', async (line, codes) => {
    expect(await codesOf(run({ assertions: [assertion(line)] }))).toEqual(codes)
  })

  test.each([
    [false, ['DESTINATION_UNREACHED', 'ASSERTION_FAILED']],
    // An unreached target is then what is wanted.
    [true, ['ASSERTION_FAILED']],
  ])('of a target that is not reached, with shouldFail %s', async (shouldFail, codes) => {
    const lines = ['RESPONSE_TIME avg LESS_THAN 1000', 'PACKET_LOSS  EQUALS 100']
    const assertions = [...lines, 'HOP_COUNT  GREATER_THAN 0'].map(assertion)
    const unreached = { reached: false, hops: [], hopCount: 0, targetLossPercent: 100 }
    const changes: Partial<TraceObserved> = { ...unreached, end: 'max-hops' }
    const verdict = await evaluated({ request: { assertions }, shouldFail }, changes)
    expect(verdict.codes).toEqual(codes)
    expect(verdict.failures.at(-1)?.details).toMatchObject({ source: 'HOP_COUNT' })
  })

  test('metrics, by the names of Grafana’s agent where it has them', async () => {
    const { observed, facts } = await run({})
    expect(sampleValues(traceroute, observed)).toMatchObject({
      probe_traceroute_total_hops: 1,
      probe_traceroute_route_hash: Number.parseInt(facts.pathHash, 16),
      probe_traceroute_packet_loss_percent: 0,
      probe_traceroute_target_loss_percent: 0,
      probe_traceroute_reached: 1,
      probe_traceroute_route_changed: 0,
      probe_ip_protocol: 4,
      probe_dns_lookup_time_seconds: some,
      'probe_traceroute_duration_seconds min': some,
      'probe_traceroute_duration_seconds avg': some,
      'probe_traceroute_duration_seconds max': some,
      'probe_traceroute_duration_seconds stddev': some,
    })
    const withoutHops = traceroute.samples({ family: 'IPv6', phases: { dnsMs: 1 } })
    expect(withoutHops).toEqual([{ name: 'probe_ip_protocol', value: 6 }])
  })
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
