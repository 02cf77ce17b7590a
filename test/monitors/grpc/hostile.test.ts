// Aim: whatever a server does, a gRPC check ends with a stable code, within its deadline, in bounded memory,
// and leaves no connection; when it is cancelled it lets go within 50 ms, at every stage.
import { describe, expect, test } from 'vitest'
import { createAuthority } from '../../support/network/certificates.ts'
import { eventually } from '../../support/eventually.ts'
import { against, closed, DEADLINE_MS, HEALTH } from '../../support/monitors/grpc/grpc-against.ts'
import { codes, runGrpc, type Options } from '../../support/monitors/grpc/grpc-run.ts'
import {
  answerHeaders,
  answering,
  data,
  END_HEADERS,
  frame,
  FRAME,
  message,
  onRequest,
  repeating,
  section,
  setting,
  SETTINGS,
  uint32,
} from '../../support/monitors/grpc/http2-frames.ts'
import { fixedResolver, testContext } from '../../support/monitors/monitor-context.ts'
import {
  closing,
  flooding,
  resetting,
  saying,
  unresponsive,
  startTls,
  type Behaviour,
} from '../../support/monitors/tcp-servers.ts'
import { startStopwatch } from '../../support/stopwatch.ts'
import { startRawServer, type TestServer } from '../../support/test-server.ts'

const PROTO =
  'syntax = "proto3"; message M { string a = 1; } service S { rpc Ask(M) returns (M); rpc Watch(M) returns (stream M); }'
const ASK = { serviceDefinition: 'PROTO_FILE', protoContent: PROTO, method: 'S/Ask' }
const empty = message(Buffer.alloc(0))
const http1 = saying('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n')
const goAway = (code: number, words = '') =>
  frame(FRAME.goAway, 0, 0, Buffer.concat([uint32(0), uint32(code), Buffer.from(words)]))
const reset = (code: number) => frame(FRAME.reset, 0, 1, uint32(code))
const long = (bytes: number) => [['x-long', 'x'.repeat(bytes)]] as const

describe('stalls', () => {
  test.each<[string, Behaviour, string, Options?]>([
    ['after the connection', unresponsive, 'TIMEOUT_FIRST_BYTE'],
    ['after the settings', answering(), 'TIMEOUT_FIRST_BYTE'],
    ['after the headers', answering(answerHeaders()), 'TIMEOUT_DOWNLOAD'],
    [
      'within the head of a message',
      answering(answerHeaders(), data(Buffer.from([0, 0]))),
      'TIMEOUT_DOWNLOAD',
    ],
    [
      'within a message',
      answering(answerHeaders(), data(message(Buffer.alloc(3), 0, 9))),
      'TIMEOUT_DOWNLOAD',
    ],
    ['before the trailers', answering(answerHeaders(), data(empty)), 'TIMEOUT_DOWNLOAD'],
    [
      'within a frame',
      answering(frame(FRAME.headers, 4, 1, Buffer.alloc(3), 100)),
      'TIMEOUT_FIRST_BYTE',
    ],
    [
      'without a window for the request',
      (socket) => {
        socket.write(frame(FRAME.settings, 0, 0, setting(4, 0)))
        socket.resume()
      },
      'TIMEOUT_FIRST_BYTE',
    ],
  ])('%s', async (_, behave, code, config) => {
    const seen = await against(behave, config)
    expect(seen.code).toBe(code)
    expect(seen.tookMs).toBeLessThan(DEADLINE_MS + 150)
    expect(seen.observation.observed).toMatchObject({ status: 'DEADLINE_EXCEEDED' })
  })

  test('while the request is sent', async () => {
    const config = { ...ASK, message: JSON.stringify({ a: 'x'.repeat(900_000) }) }
    expect((await against((socket) => void socket.pause(), config)).code).toBe('TIMEOUT_SEND')
  })
})

describe('what is not HTTP/2', () => {
  test.each<[string, Behaviour, string]>([
    ['an end', closing, 'CONNECTION_CLOSED'],
    [
      'an end after the request',
      (socket) => onRequest(socket, () => socket.end()),
      'CONNECTION_CLOSED',
    ],
    ['a reset', resetting, 'CONNECTION_RESET'],
    ['HTTP/1.1', http1, 'HTTP2_NOT_SPOKEN'],
    ['a banner', saying('SSH-2.0-OpenSSH_9.6\r\n'), 'HTTP2_NOT_SPOKEN'],
    ['noise', saying(Buffer.alloc(5000, 0xa5)), 'HTTP2_NOT_SPOKEN'],
    ['a flood', flooding, 'HTTP2_NOT_SPOKEN'],
    ['zeroes', saying(Buffer.alloc(100)), 'HTTP2_NOT_SPOKEN'],
  ])('%s', async (_, behave, code) => {
    expect((await against(behave)).code).toBe(code)
  })

  const pair = createAuthority().issue()
  test.each<[string, string[] | undefined]>([
    ['TLS without ALPN', undefined],
    ['TLS that wants HTTP/1.1', ['http/1.1']],
  ])('%s', async (_, protocols) => {
    const options = protocols === undefined ? pair : { ...pair, ALPNProtocols: protocols }
    await using server = await startTls(options, unresponsive)
    const config = { ...HEALTH, tls: true }
    const observation = await runGrpc({ port: server.port, config, request: { skipSSL: true } })
    expect(codes(observation)).toEqual(['HTTP2_NOT_SPOKEN'])
    await eventually(() => server.open() === 0)
  })
})

describe('HTTP/2 with broken rules', () => {
  test.each<[string, Behaviour, string | RegExp]>([
    [
      'a frame that is too large',
      answering(frame(FRAME.data, 0, 1, Buffer.alloc(20_000))),
      'HTTP2_PROTOCOL',
    ],
    [
      'a frame of 16 MiB',
      answering(frame(FRAME.data, 0, 1, Buffer.alloc(9), 0xffffff)),
      'HTTP2_PROTOCOL',
    ],
    ['noise after the settings', answering(Buffer.alloc(5000, 0xa5)), 'HTTP2_PROTOCOL'],
    [
      'headers that cannot be unpacked',
      answering(frame(FRAME.headers, END_HEADERS, 1, Buffer.alloc(9, 0xff))),
      'HTTP2_PROTOCOL',
    ],
    ['data before headers', answering(data(empty)), /HTTP2_(PROTOCOL|STREAM_RESET)/],
    [
      'a push that was switched off',
      answering(
        frame(FRAME.push, END_HEADERS, 1, Buffer.concat([uint32(2), section([[':path', '/']])])),
      ),
      'TIMEOUT_FIRST_BYTE',
    ],
    [
      'a window beyond 2³¹',
      answering(frame(FRAME.windowUpdate, 0, 0, uint32(0x7fffffff))),
      'HTTP2_PROTOCOL',
    ],
    [
      'headers in capitals',
      answering(answerHeaders([['X-Bad', 'a']])),
      /HTTP2_(PROTOCOL|STREAM_RESET)/,
    ],
    [
      'headers without a status',
      answering(frame(FRAME.headers, END_HEADERS, 1, section([['a', 'b']]))),
      /HTTP2_(PROTOCOL|STREAM_RESET)/,
    ],
    [
      'headers that are too large',
      answering(answerHeaders(long(15_000)), answerHeaders(long(15_000))),
      /./,
    ],
    ['GOAWAY', answering(goAway(0)), 'HTTP2_GOAWAY'],
    ['GOAWAY with an error', answering(goAway(11, 'too_many_pings')), 'HTTP2_GOAWAY'],
    ['a stream that is reset: REFUSED_STREAM', answering(reset(7)), 'HTTP2_STREAM_RESET'],
    ['a stream that is reset: CANCEL', answering(reset(8)), 'HTTP2_STREAM_RESET'],
    ['a stream that is reset: NO_ERROR', answering(reset(0)), 'HTTP2_STREAM_RESET'],
    [
      'a stream that is reset after its headers',
      answering(answerHeaders(), reset(2)),
      'HTTP2_STREAM_RESET',
    ],
  ])('%s', async (_, behave, code) => {
    expect((await against(behave)).code).toMatch(code)
  })

  test('a reset says which, and counts as the status of gRPC', async () => {
    const { observation } = await against(answering(reset(7)))
    expect(observation.failures[0]?.details).toMatchObject({ errorCode: 'REFUSED_STREAM' })
    expect(observation.observed).toMatchObject({ status: 'UNAVAILABLE', statusOrigin: 'client' })
  })

  test('GOAWAY says why', async () => {
    const { observation } = await against(answering(goAway(11, 'too_many_pings')))
    expect(observation.failures[0]?.details).toMatchObject({
      errorCode: 'ENHANCE_YOUR_CALM',
      debug: 'too_many_pings',
    })
  })

  test.each<[string, Behaviour]>([
    [
      'CONTINUATION',
      repeating(
        [frame(FRAME.headers, 0, 1, section(long(100)))],
        frame(FRAME.continuation, 0, 1, section(long(1000))),
      ),
    ],
    ['PING', repeating([], frame(FRAME.ping, 0, 0, Buffer.alloc(8)))],
    ['SETTINGS', repeating([], SETTINGS)],
    ['empty DATA', repeating([answerHeaders()], data(Buffer.alloc(0)))],
    [
      'informational headers',
      repeating([], frame(FRAME.headers, END_HEADERS, 1, section([[':status', '103']]))),
    ],
    ['frames of unknown types', repeating([], frame(77, 0, 0, Buffer.alloc(100)))],
    ['WINDOW_UPDATE', repeating([], frame(FRAME.windowUpdate, 0, 1, uint32(1)))],
    ['resets of other streams', repeating([], frame(FRAME.reset, 0, 3, uint32(0)))],
    ['GOAWAY', repeating([], goAway(0))],
  ])('a flood of %s ends with a code, in time and in little memory', async (_, behave) => {
    const before = process.memoryUsage().rss
    const { code, tookMs } = await against(behave)
    expect(code).toMatch(/^(HTTP2_|TIMEOUT_|HTTP_HEADERS)/)
    expect(tookMs).toBeLessThan(DEADLINE_MS + 150)
    expect(process.memoryUsage().rss - before).toBeLessThan(100 * 1024 * 1024)
  })
})

describe('cancelled', () => {
  const stages: [string, Behaviour, Options?][] = [
    ['while connecting', unresponsive],
    ['before the settings', unresponsive],
    ['before the headers', answering()],
    ['before the message', answering(answerHeaders())],
    ['before the trailers', answering(answerHeaders(), data(empty))],
    ['in a flood', repeating([answerHeaders()], data(Buffer.alloc(0)))],
    [
      'while sending',
      (socket) => void socket.pause(),
      { ...ASK, message: JSON.stringify({ a: 'x'.repeat(900_000) }) },
    ],
    ['in reflection', answering(), { method: 'S/Ask' }],
    ['in reflection, after its headers', answering(answerHeaders()), { method: 'S/Ask' }],
  ]

  /** Milliseconds from the cancellation to the end, and what the run rejected with. */
  async function cancel(server: TestServer, config: Options, request: Options = {}) {
    const controller = new AbortController()
    const context = testContext({ signal: controller.signal })
    const connected = server.connection()
    const run = runGrpc({ port: server.port, config, request, context })
    const outcome = run.then(
      () => undefined,
      (error: unknown) => error,
    )
    const socket = await connected
    // Some turns of the event loop later the stage is reached.
    for (let turn = 0; turn < 20; turn++) await new Promise((next) => setImmediate(next))
    const reason = new Error('cancelled by the test')
    const ownMs = startStopwatch()
    controller.abort(reason)
    const error = await outcome
    const tookMs = ownMs()
    await closed(server, [socket])
    return { isReason: error === reason, tookMs }
  }

  test.each(stages)('%s', async (_, behave, config = HEALTH) => {
    await using server = await startRawServer(behave)
    const { isReason, tookMs } = await cancel(server, config)
    expect(isReason).toBe(true)
    expect(tookMs).toBeLessThan(50)
  })

  test('in the TLS handshake', async () => {
    await using server = await startRawServer(unresponsive)
    const { isReason, tookMs } = await cancel(server, { ...HEALTH, tls: true })
    expect(isReason).toBe(true)
    expect(tookMs).toBeLessThan(50)
  })

  test('while the name is looked up, and before anything', async () => {
    const controller = new AbortController()
    const context = testContext({ signal: controller.signal, resolver: fixedResolver({}) })
    const order = { port: 1, config: HEALTH, request: { url: 'nowhere.test' }, context }
    const run = runGrpc(order)
    const reason = new Error('cancelled by the test')
    controller.abort(reason)
    await expect(run).rejects.toBe(reason)
    await expect(runGrpc(order)).rejects.toBe(reason)
  })
})
