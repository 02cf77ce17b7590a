// Aim: a TCP check says exactly what the target did, within its deadline and with bounded memory, leaves
// no connection behind, and lets go at once when it is cancelled.
import { TCP_LIMITS } from '../../../src/monitors/tcp/definition.ts'
import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { LIMITS } from '../../../src/contract/versions.ts'
import type { Resolver } from '../../../src/network/dns/resolver.ts'
import { tcp } from '../../../src/monitors/tcp/index.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { checkMonitor, codesOf } from '../../support/monitors/check-monitor.ts'
import {
  type ContextOptions,
  deadlineAfter,
  fixedResolver,
} from '../../support/monitors/monitor-context.ts'
import { startStopwatch } from '../../support/stopwatch.ts'
import {
  closing,
  echoing,
  flooding,
  resetting,
  saying,
  unresponsive,
  startTls,
  trickling,
  type Behaviour,
} from '../../support/monitors/tcp-servers.ts'
import { startRawServer } from '../../support/test-server.ts'
import { freePort } from '../../support/network/free-port.ts'

Object.assign(TCP_LIMITS, { tcpQuietMs: 150 })

type Options = Record<string, unknown>

/** Runs a TCP monitor against this machine. */
const run = (request: Options, settings?: Options, options?: ContextOptions) =>
  checkMonitor(tcp, { hostname: '127.0.0.1', ...request }, settings, options)

/** More than the buffers of both ends hold. */
const overflowing = {
  data: '€'.repeat(1_048_576),
  dialogue: Array.from({ length: 50 }, () => ({ send: '€'.repeat(65_536) })),
}

const wants = (comparison: string, target = '', property = '') => ({
  assertions: [{ source: 'RESPONSE_DATA', comparison, target, property }],
})

test.each(['http://127.0.0.1/', '127.0.0.1:9', 'two words', 'user@a.test'])(
  '%s is no host name',
  (hostname) => {
    const monitor = { id: 'm', name: 'm', checkType: 'TCP' }
    for (const request of [{ hostname }, { url: hostname }]) {
      const parsed = tcp.schema.safeParse({ ...monitor, request: { ...request, port: 9 } })
      expect(parsed.error?.issues.map(({ path }) => path)).toEqual([
        ['request', Object.keys(request)[0]],
      ])
    }
  },
)

describe('connecting', () => {
  test('a port that answers', async () => {
    await using server = await startRawServer(unresponsive)
    const ms = expect.any(Number) as number
    expect(await run({ port: server.port })).toEqual({
      observed: {
        port: server.port,
        address: '127.0.0.1',
        family: 'IPv4',
        phases: { dnsMs: ms, connectMs: ms, totalMs: ms },
      },
      failures: [],
      codes: [],
      responseTimeMs: ms,
      degraded: false,
    })
  })

  test('a port that refuses', async () => {
    expect(await codesOf(run({ port: await freePort() }))).toEqual(['CONNECT_REFUSED'])
  })

  test('a name that is never found', async () => {
    const context = { resolver: fixedResolver({}), signal: deadlineAfter(30) }
    const observation = await run({ hostname: 'nowhere.test', port: 80 }, {}, context)
    expect(observation.codes).toEqual(['TIMEOUT_DNS'])
  })

  test('shouldFail: a refused connection is what was wanted, a wrong answer is not', async () => {
    const shouldFail = { shouldFail: true }
    expect(await codesOf(run({ port: await freePort() }, shouldFail))).toEqual([])
    await using server = await startRawServer(saying('hello'))
    const request = { port: server.port, ...wants('EQUALS', 'bye') }
    const settings = { ...shouldFail, maxResponseTime: 300 }
    expect(await codesOf(run(request, settings))).toEqual(['ASSERTION_FAILED'])
  })

  test('shouldFail does not excuse a policy that forbids the address', async () => {
    const context = { blocked: ['127.0.0.0/8'] }
    expect(await codesOf(run({ port: 80 }, { shouldFail: true }, context))).toEqual([
      'ADDRESS_BLOCKED',
    ])
  })
})

describe('response time', () => {
  const { signal } = new AbortController()
  const late = fixedResolver({ 'late.test': ['127.0.0.1'] })
  const resolver: Resolver = {
    resolve: async (...question) => {
      await new Promise((resolve) => setTimeout(resolve, 30))
      return late.resolve(...question)
    },
  }

  test.each([
    ['above degradedResponseTime', { degradedResponseTime: 5 }, [], true],
    ['above maxResponseTime', { maxResponseTime: 5 }, ['RESPONSE_TIME_ABOVE_MAX'], false],
  ])('%s', async (_, settings, failures, degraded) => {
    await using server = await startRawServer(unresponsive)
    const request = { hostname: 'late.test', port: server.port }
    const observation = await run(request, settings, { resolver, signal })
    expect(observation.codes).toEqual(failures)
    expect(observation.degraded).toBe(degraded)
  })

  test('can be asserted', async () => {
    await using server = await startRawServer(unresponsive)
    const assertions = [{ source: 'RESPONSE_TIME', comparison: 'GREATER_THAN', target: 4000 }]
    expect(await codesOf(run({ port: server.port, assertions }))).toEqual(['ASSERTION_FAILED'])
  })
})

describe('what the target sends', () => {
  const lost = ['CONNECTION_RESET', 'ASSERTION_FAILED']
  const FLOOD = ['TCP_DATA_TOO_LARGE']
  const bomb = `${'a'.repeat(60)}!`
  test.each<[string, Behaviour, Options, string[]]>([
    ['a banner', saying('SSH-2.0-x\r\n'), wants('CONTAINS', 'SSH'), []],
    ['an echo', echoing, { data: 'ping', ...wants('EQUALS', 'ping') }, []],
    ['line ends as they are', echoing, { data: 'a\r\nb', ...wants('EQUALS', 'a\r\nb') }, []],
    ['the wrong banner', saying('HTTP'), wants('CONTAINS', 'SSH'), ['ASSERTION_FAILED']],
    ['a number', saying('load 7'), wants('LESS_THAN', '5', 'load (\\d+)'), ['ASSERTION_FAILED']],
    ['an answer in many pieces', trickling('one two three'), wants('CONTAINS', 'three'), []],
    ['the end of an answer in pieces', trickling('123'), wants('EQUALS', '123'), []],
    ['nothing, and none is awaited', unresponsive, {}, []],
    ['nothing, and none is awaited after data', unresponsive, { data: 'x' }, []],
    ['nothing, as wanted', unresponsive, wants('IS_EMPTY'), []],
    ['nothing, though it was wanted', unresponsive, wants('NOT_EMPTY'), ['TIMEOUT_FIRST_BYTE']],
    ['the end at once', closing, wants('NOT_EMPTY'), ['CONNECTION_CLOSED']],
    ['the end at once, as wanted', closing, wants('IS_EMPTY'), []],
    ['the end at once, and no answer is awaited', closing, {}, []],
    ['a reset', resetting, { data: 'x', ...wants('NOT_EMPTY') }, lost],
    ['a flood', flooding, wants('CONTAINS', 'y'), FLOOD],
    ['a flood, and none is awaited', flooding, {}, []],
    // Evaluated in the thread: the connection has ended by then.
    ['a flood, not an answer', flooding, { dialogue: [{ expect: '(y|z)+' }] }, FLOOD],
    ['a flood, and reads nothing', flooding, overflowing, FLOOD],
    ['a bomb', saying(bomb), wants('NOT_EMPTY', '', '(a+)+$'), ['ASSERTION_REGEX_TIMEOUT']],
  ])('%s', async (_, behaviour, request, expected) => {
    await using server = await startRawServer(behaviour)
    // A wrong answer takes all of the time; a flood is over by itself.
    const maxResponseTime = behaviour === flooding ? 10_000 : 1000
    // What has an answer ends by itself before the deadline, which a busy machine may be late for.
    const options = { signal: deadlineAfter(2 * maxResponseTime) }
    const observation = await run({ port: server.port, ...request }, { maxResponseTime }, options)
    expect(observation.codes).toEqual(expected)
  })

  test.each(['CONTAINS', 'EQUALS'])('%s: a trickle without end is over in time', async (how) => {
    await using server = await startRawServer(trickling('x'.repeat(1_000_000)))
    const request = { port: server.port, ...wants(how, 'y') }
    const ownMs = startStopwatch()
    // It ends by itself before the deadline, which a busy machine may be late for.
    const options = { signal: new AbortController().signal }
    const { failures } = await run(request, { maxResponseTime: 400 }, options)
    expect(failures).toMatchObject([
      { code: 'ASSERTION_FAILED', details: { actual: expect.stringContaining('xxx') as string } },
    ])
    expect(ownMs()).toBeLessThan(1000)
  })

  test.each(['CONTAINS', 'EQUALS'])('%s: is awaited beyond a pause, and timed', async (how) => {
    const pauseMs = 2 * TCP_LIMITS.tcpQuietMs
    await using server = await startRawServer((socket) => {
      socket.write('22')
      setTimeout(() => socket.write('0 hello'), pauseMs)
    })
    const request = { port: server.port, ...wants(how, '220 hello') }
    const { codes, responseTimeMs = 0 } = await run(request, { maxResponseTime: 10_000 })
    expect(codes).toEqual([])
    expect(responseTimeMs).toBeGreaterThan(pauseMs - 5)
    expect(responseTimeMs).toBeLessThan(5000)
  })

  test.each([
    ['NOT_CONTAINS', 'error'],
    ['IS_EMPTY', ''],
  ])('%s does not hold again: the check ends with the pause', async (how, target) => {
    await using server = await startRawServer(saying('error\r\n'))
    const request = { port: server.port, ...wants(how, target) }
    const ownMs = startStopwatch()
    const codes = await codesOf(run(request, { maxResponseTime: 30_000 }))
    expect(codes).toEqual(['ASSERTION_FAILED'])
    expect(ownMs()).toBeLessThan(15_000)
  })

  test('the idle timeout is never counted, nor longer than the deadline allows', async () => {
    await using server = await startRawServer(saying('hello'))
    const request = { port: server.port, ...wants('EQUALS', 'hello') }
    const options = { signal: new AbortController().signal }
    const observation = await run(request, { maxResponseTime: 300 }, options)
    expect(observation.codes).toEqual([])
    expect(observation.responseTimeMs).toBeLessThan(TCP_LIMITS.tcpQuietMs)
  })

  test('an answer after a long pause ends with the idle timeout too', async () => {
    const late: Behaviour = (socket) =>
      void setTimeout(() => socket.write('late'), 2 * TCP_LIMITS.tcpQuietMs + 100)
    await using server = await startRawServer(late)
    const request = { port: server.port, ...wants('EQUALS', 'late') }
    expect(await codesOf(run(request))).toEqual([])
  })

  test('binary answers are shown escaped and cut', async () => {
    const answer = Buffer.concat([Buffer.from([0, 0xff, 10]), Buffer.alloc(10_000, 'é')])
    await using server = await startRawServer((socket) => socket.end(answer))
    const request = { port: server.port, ...wants('CONTAINS', 'zzz') }
    const { observed } = await run(request)
    const response = observed['response'] as { data: string; bytes: number; truncated: boolean }
    expect(response.data).toMatch(/^\\x00\\xff\\n\\xc3\\xa9/)
    expect(response).toMatchObject({ bytes: 10_003, truncated: true })
  })
})

describe('TLS', () => {
  const authority = createAuthority()
  const good = authority.issue({ toDays: 10 })
  const greeting = saying('hi')

  test.each([
    ['expired', authority.issue({ fromDays: -20, toDays: -10 }), ['TLS_EXPIRED']],
    ['good', good, []],
  ])('a certificate that is %s', async (_, pair, expected) => {
    await using server = await startTls(pair, greeting)
    const tls = { ca: authority.ca }
    const { assertions } = wants('CONTAINS', 'hi')
    const strict = await run({ port: server.port, tls, assertions })
    expect(strict.codes).toEqual(expected)
    const lax = await run({ port: server.port, tls, assertions, skipSSL: true })
    expect(lax.codes).toEqual([])
    for (const { observed } of [strict, lax]) {
      expect(observed['tls']).toMatchObject({
        protocol: 'TLSv1.3',
        certificate: { validTo: expect.stringMatching(/^20/) },
        verified: expected.length === 0,
      })
    }
  })

  test('a port that does not speak it', async () => {
    await using server = await startRawServer(saying('220 hello\r\n'))
    expect(await codesOf(run({ port: server.port, tls: true }))).toEqual(['TLS_NOT_SPOKEN'])
  })

  test('a port that never answers the handshake', async () => {
    await using server = await startRawServer(unresponsive)
    const observation = await run({ port: server.port, tls: true }, { maxResponseTime: 100 })
    expect(observation.codes).toEqual(['TIMEOUT_TLS'])
  })

  test('samples speak blackbox_exporter’s language', async () => {
    await using server = await startTls(good, greeting)
    const { observed } = await run({ port: server.port, tls: { ca: authority.ca } })
    const samples = new Map(tcp.samples(observed).map((one) => [one.name, one]))
    const inTenDays = Date.now() / 1000 + 10 * 86_400
    expect(samples.get('probe_ip_protocol')?.value).toBe(4)
    expect(samples.get('probe_failed_due_to_regex')?.value).toBe(0)
    expect(samples.get('probe_tls_version_info')?.labels).toEqual({ version: 'TLS 1.3' })
    const expiry = samples.get('probe_ssl_earliest_cert_expiry')?.value ?? 0
    expect(Math.abs(expiry - inTenDays)).toBeLessThan(86_400)
  })
})

describe('every address', () => {
  const resolver = fixedResolver({ 'two.test': ['127.0.0.1', '127.0.0.2'] })

  test('one that fails, fails the check, and is named', async () => {
    await using server = await startRawServer(unresponsive)
    const request = { hostname: 'two.test', port: server.port, allAddresses: true }
    const { failures, observed } = await run(request, {}, { resolver })
    expect(failures).toMatchObject([{ code: 'CONNECT_REFUSED', details: { address: '127.0.0.2' } }])
    expect(observed['addresses']).toMatchObject([
      { address: '127.0.0.1', failures: [] },
      { address: '127.0.0.2', failures: [{ code: 'CONNECT_REFUSED' }] },
    ])
  })

  test('no more of them than the limit are dialled', async () => {
    const many = Array.from({ length: LIMITS.addressesMax + 3 }, (_, at) => `127.0.0.${at + 1}`)
    const context = { resolver: fixedResolver({ 'many.test': many }) }
    const request = { hostname: 'many.test', port: await freePort(), allAddresses: true }
    const { failures, observed } = await run(request, {}, context)
    expect(failures).toHaveLength(LIMITS.addressesMax)
    expect(observed['addressesLeftOut']).toBe(3)
  })
})

describe('a cancelled run', () => {
  test.each<[string, Options]>([
    ['in the handshake', { tls: true }],
    ['while sending', overflowing],
    ['waiting for the first byte', { ...wants('NOT_EMPTY') }],
    ['waiting for what is expected', { dialogue: [{ expect: 'hello' }] }],
  ])('%s lets go at once', async (_, request) => {
    // Never reads: what is sent to it stays in the way.
    await using server = await startRawServer((socket) => void socket.pause())
    const controller = new AbortController()
    const connected = server.connection()
    const context = { signal: controller.signal }
    const running = run({ port: server.port, ...request }, {}, context)
    const ending = running.catch((error: Error) => error.message)
    const socket = await connected
    await new Promise((resolve) => setImmediate(resolve))
    const ownMs = startStopwatch()
    controller.abort(new Error('enough'))
    expect(await ending).toBe('enough')
    expect(ownMs()).toBeLessThan(50)
    const closed = once(socket, 'close')
    socket.resume()
    await closed
    expect(server.open()).toBe(0)
  })
})
