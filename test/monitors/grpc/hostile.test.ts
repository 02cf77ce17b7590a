// Aim: whatever a server does or answers, a gRPC check ends with a stable code, within its deadline, in bounded memory,
// and leaves no connection; when it is cancelled it lets go within 50 ms, at every stage.
import { createServer as createHttp2Server } from 'node:http2'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { createAuthority } from '../../support/network/certificates.ts'
import { eventually } from '../../support/eventually.ts'
import { codesOf } from '../../support/monitors/check-monitor.ts'
import {
  against,
  closed,
  HEALTH,
  type Options,
  runGrpc,
} from '../../support/monitors/grpc/grpc-run.ts'
import {
  answerHeaders,
  answering,
  data,
  END_HEADERS,
  END_STREAM,
  frame,
  FRAME,
  message,
  onRequest,
  repeating,
  section,
  setting,
  SETTINGS,
  trailers,
  uint32,
} from '../../support/network/http2-frames.ts'
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
import { listening, startRawServer } from '../../support/test-server.ts'

/** Limit of runs that end by it; the others end as soon as the server has done its worst. */
const LATE_MS = 200
const PROTO = `syntax = "proto3"; message M { string a = 1; }
  service S { rpc Ask(M) returns (M); rpc Watch(M) returns (stream M); }`
const ASK = { serviceDefinition: 'PROTO_FILE', protoContent: PROTO, method: 'S/Ask' }
const WATCH = { ...ASK, method: 'S/Watch' }
const empty = message(Buffer.alloc(0))
const http1 = saying('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n')
const goAway = (code: number, words = '') =>
  frame(FRAME.goAway, 0, 0, Buffer.concat([uint32(0), uint32(code), Buffer.from(words)]))
const reset = (code: number) => frame(FRAME.reset, 0, 1, uint32(code))
const answered = (...frames: Buffer[]) => answering(answerHeaders(), ...frames)
const LARGE = { ...ASK, message: JSON.stringify({ a: 'x'.repeat(900_000) }) }
const neverReading: Behaviour = (socket) => void socket.pause()
const long = (bytes: number) => [['x-long', 'x'.repeat(bytes)]] as const

describe('stalls', () => {
  const promise = Buffer.concat([uint32(2), section([[':path', '/']])])
  const push = frame(FRAME.push, END_HEADERS, 1, promise)
  const noWindow = frame(FRAME.settings, 0, 0, setting(4, 0))
  test.each<[string, Behaviour, string, Options?]>([
    ['after the connection', unresponsive, 'TIMEOUT_FIRST_BYTE'],
    ['after the settings', answering(), 'TIMEOUT_FIRST_BYTE'],
    ['within a frame', answering(frame(FRAME.headers, 4, 1, empty, 100)), 'TIMEOUT_FIRST_BYTE'],
    ['without a window for the request', saying(noWindow), 'TIMEOUT_FIRST_BYTE'],
    ['after the headers', answered(), 'TIMEOUT_DOWNLOAD'],
    ['within the head of a message', answered(data(Buffer.from([0, 0]))), 'TIMEOUT_DOWNLOAD'],
    ['within a message', answered(data(message(empty, 0, 9))), 'TIMEOUT_DOWNLOAD'],
    ['before the trailers', answered(data(empty)), 'TIMEOUT_DOWNLOAD'],
    ['while the request is sent', neverReading, 'TIMEOUT_SEND', LARGE],
    ['by a push that was switched off', answering(push), 'TIMEOUT_FIRST_BYTE'],
  ])('%s', async (_, behave, code, config) => {
    const { codes, observed } = await against(behave, config, LATE_MS)
    expect([codes, observed.status]).toEqual([[code], 'DEADLINE_EXCEEDED'])
  })
})

describe('what is not HTTP/2', () => {
  const endingThen: Behaviour = (socket) => onRequest(socket, () => socket.end())
  test.each<[string, Behaviour, string]>([
    ['an end', closing, 'CONNECTION_CLOSED'],
    ['an end after the request', endingThen, 'CONNECTION_CLOSED'],
    ['a reset', resetting, 'CONNECTION_RESET'],
    ['HTTP/1.1', http1, 'HTTP2_NOT_SPOKEN'],
    ['a banner', saying('SSH-2.0-OpenSSH_9.6\r\n'), 'HTTP2_NOT_SPOKEN'],
    ['noise', saying(Buffer.alloc(5000, 0xa5)), 'HTTP2_NOT_SPOKEN'],
    ['a flood', flooding, 'HTTP2_NOT_SPOKEN'],
    ['zeroes', saying(Buffer.alloc(100)), 'HTTP2_NOT_SPOKEN'],
  ])('%s', async (_, behave, code) => {
    expect(await codesOf(against(behave))).toEqual([code])
  })

  const pair = createAuthority().issue()
  test.each<[string, string[] | undefined]>([
    ['TLS without ALPN', undefined],
    ['TLS that wants HTTP/1.1', ['http/1.1']],
  ])('%s', async (_, protocols) => {
    const options = protocols === undefined ? pair : { ...pair, ALPNProtocols: protocols }
    await using server = await startTls(options, unresponsive)
    const config = { ...HEALTH, tls: true }
    const checking = runGrpc({ port: server.port, config, request: { skipSSL: true } })
    expect(await codesOf(checking)).toEqual(['HTTP2_NOT_SPOKEN'])
    await eventually(() => server.open() === 0)
  })
})

describe('HTTP/2 with broken rules', () => {
  const isBroken = /HTTP2_(PROTOCOL|STREAM_RESET)/
  const noise = Buffer.alloc(9, 0xff)
  const headers = (content: Buffer) => frame(FRAME.headers, END_HEADERS, 1, content)
  const large = answerHeaders(long(15_000))
  const widening = frame(FRAME.windowUpdate, 0, 0, uint32(0x7fffffff))
  test.each<[string, Behaviour, string | RegExp]>([
    ['a frame that is too large', answering(data(Buffer.alloc(20_000))), 'HTTP2_PROTOCOL'],
    ['a frame of 16 MiB', answering(frame(FRAME.data, 0, 1, empty, 0xffffff)), 'HTTP2_PROTOCOL'],
    ['noise after the settings', answering(Buffer.alloc(5000, 0xa5)), 'HTTP2_PROTOCOL'],
    ['headers that cannot be unpacked', answering(headers(noise)), 'HTTP2_PROTOCOL'],
    ['data before headers', answering(data(empty)), isBroken],
    ['a window beyond 2³¹', answering(widening), 'HTTP2_PROTOCOL'],
    ['headers in capitals', answering(answerHeaders([['X-Bad', 'a']])), isBroken],
    ['headers without a status', answering(headers(section([['a', 'b']]))), isBroken],
    ['headers that are too large', answering(large, large), /./],
    ['GOAWAY', answering(goAway(0)), 'HTTP2_GOAWAY'],
    ['GOAWAY with an error', answering(goAway(11, 'too_many_pings')), 'HTTP2_GOAWAY'],
    ['a stream that is reset: CANCEL', answering(reset(8)), 'HTTP2_STREAM_RESET'],
    ['a stream that is reset: NO_ERROR', answering(reset(0)), 'HTTP2_STREAM_RESET'],
    ['a stream that is reset after its headers', answered(reset(2)), 'HTTP2_STREAM_RESET'],
  ])('%s', async (_, behave, code) => {
    expect((await against(behave)).codes[0]).toMatch(code)
  })

  test('a reset says which, and counts as the status of gRPC', async () => {
    const { failures, observed } = await against(answering(reset(7)))
    expect(failures[0]?.details).toMatchObject({ errorCode: 'REFUSED_STREAM' })
    expect(observed).toMatchObject({ status: 'UNAVAILABLE', statusOrigin: 'client' })
  })

  test('GOAWAY says why', async () => {
    const { failures } = await against(answering(goAway(11, 'too_many_pings')))
    expect(failures[0]?.details).toMatchObject({
      errorCode: 'ENHANCE_YOUR_CALM',
      debug: 'too_many_pings',
    })
  })

  const firstPart = frame(FRAME.headers, 0, 1, section(long(100)))
  test.each<[string, Behaviour]>([
    ['CONTINUATION', repeating([firstPart], frame(FRAME.continuation, 0, 1, section(long(1000))))],
    ['PING', repeating([], frame(FRAME.ping, 0, 0, Buffer.alloc(8)))],
    ['SETTINGS', repeating([], SETTINGS)],
    ['empty DATA', repeating([answerHeaders()], data(Buffer.alloc(0)))],
    ['informational headers', repeating([], headers(section([[':status', '103']])))],
    ['frames of unknown types', repeating([], frame(77, 0, 0, Buffer.alloc(100)))],
    ['WINDOW_UPDATE', repeating([], frame(FRAME.windowUpdate, 0, 1, uint32(1)))],
    ['resets of other streams', repeating([], frame(FRAME.reset, 0, 3, uint32(0)))],
    ['GOAWAY', repeating([], goAway(0))],
  ])('a flood of %s ends with a code, in time and in little memory', async (_, behave) => {
    const before = process.memoryUsage().rss
    const { codes } = await against(behave, HEALTH, LATE_MS)
    expect(codes[0]).toMatch(/^(HTTP2_|TIMEOUT_|HTTP_HEADERS)/)
    expect(process.memoryUsage().rss - before).toBeLessThan(100 * 1024 * 1024)
  })
})

describe('answers that are not what they should be', () => {
  const gzipped = [['grpc-encoding', 'gzip']] as const
  const zstd = [['grpc-encoding', 'zstd']] as const
  const answer = (sent: Buffer, headers: readonly (readonly [string, string])[] = []) => [
    answerHeaders(headers),
    data(sent),
    trailers(),
  ]
  const packed = message(Buffer.alloc(1), 1)
  const bomb = message(gzipSync(Buffer.alloc(8_000_000)), 1)
  const huge = message(Buffer.alloc(0), 0, 0xffffffff)
  test.each<[string, Buffer[], string, Options?]>([
    ['no message', [answerHeaders(), trailers()], 'GRPC_MALFORMED'],
    ['two messages', answer(Buffer.concat([empty, empty])), 'GRPC_MALFORMED'],
    ['half a message', answer(message(Buffer.alloc(2), 0, 5)), 'GRPC_MALFORMED'],
    ['no trailers', [answerHeaders(), data(empty, END_STREAM)], 'GRPC_MALFORMED'],
    ['headers without a status', [answerHeaders([], END_HEADERS | END_STREAM)], 'GRPC_MALFORMED'],
    ['no number as status', [answerHeaders(), data(empty), trailers('ok')], 'GRPC_MALFORMED'],
    ['a head that is none', answer(message(Buffer.alloc(0), 7)), 'GRPC_MALFORMED'],
    ['a message that is none', answer(message(Buffer.from([0xff]))), 'GRPC_MALFORMED'],
    ['a state that is none', answer(message(Buffer.from([8, 77]))), 'GRPC_MALFORMED'],
    ['noise instead of the type', answer(message(Buffer.from([10, 99]))), 'GRPC_MALFORMED', ASK],
    ['a message of 4 GiB', answer(huge), 'GRPC_MESSAGE_TOO_LARGE'],
    ['a bomb', answer(bomb, gzipped), 'GRPC_MESSAGE_TOO_LARGE'],
    ['compression that nobody named', answer(packed), 'GRPC_UNDECODABLE'],
    ['compression that nobody asked for', answer(packed, zstd), 'GRPC_UNDECODABLE'],
    ['noise instead of gzip', answer(message(Buffer.alloc(9), 1), gzipped), 'GRPC_UNDECODABLE'],
  ])('%s', async (_, frames, code, config) => {
    expect(await codesOf(against(answering(...frames), config))).toEqual([code])
  })

  test('gzip, as it should be', async () => {
    const good = answer(message(gzipSync(Buffer.from([8, 1])), 1), gzipped)
    const { codes, observed } = await against(answering(...good))
    expect(codes).toEqual([])
    expect(observed).toMatchObject({ healthStatus: 'SERVING', response: { encoding: 'gzip' } })
  })

  test('a stream of messages without end', async () => {
    const checking = against(repeating([answerHeaders()], data(empty)), WATCH)
    expect(await codesOf(checking)).toEqual(['GRPC_STREAM_TOO_LARGE'])
  })

  test('a stream of large messages without end', async () => {
    const large = data(message(Buffer.alloc(16_000, 1)))
    const { codes } = await against(repeating([answerHeaders()], large), WATCH)
    expect(['GRPC_STREAM_TOO_LARGE', 'HTTP2_PROTOCOL']).toContain(codes[0])
  })

  test.each<[string, number, string, string, number]>([
    ['502 of a proxy', 502, 'text/html', 'GRPC_HTTP_STATUS', 14],
    ['404 of a web server', 404, 'text/html', 'GRPC_HTTP_STATUS', 12],
    ['401', 401, 'application/json', 'GRPC_HTTP_STATUS', 16],
    ['403', 403, 'application/json', 'GRPC_HTTP_STATUS', 7],
    ['400', 400, 'text/plain', 'GRPC_HTTP_STATUS', 13],
    ['a redirect', 302, 'text/html', 'GRPC_HTTP_STATUS', 2],
    ['a web page', 200, 'text/html', 'GRPC_NOT_SPOKEN', 2],
    ['gRPC-Web', 200, 'application/grpc-web+proto', 'GRPC_NOT_SPOKEN', 2],
    ['429 that says it is gRPC', 429, 'application/grpc', 'GRPC_HTTP_STATUS', 14],
  ])('HTTP: %s', async (_, httpStatus, contentType, code, statusCode) => {
    const server = createHttp2Server((_request, response) => {
      response.writeHead(httpStatus, { 'content-type': contentType, server: 'proxy.test' })
      response.end('<html>')
    })
    await using running = await listening(server)
    const { failures, observed } = await runGrpc({ port: running.port, config: HEALTH })
    expect(failures).toMatchObject([{ code, details: { httpStatus, server: 'proxy.test' } }])
    expect(observed).toMatchObject({ httpStatus, statusCode, statusOrigin: 'client' })
  })

  test('a status of gRPC counts, whatever the HTTP status', async () => {
    const headers = [
      [':status', '503'],
      ['content-type', 'application/grpc'],
      ['grpc-status', '5'],
    ] as const
    const only = frame(FRAME.headers, END_HEADERS | END_STREAM, 1, section(headers))
    const { codes, observed } = await against(answering(only))
    expect([codes, observed.statusOrigin]).toEqual([['GRPC_SERVICE_NOT_FOUND'], 'server'])
  })
})

describe('cancelled', () => {
  const stages: [string, Behaviour, Options?][] = [
    ['before the settings', unresponsive],
    ['before the headers', answering()],
    ['before the message', answered()],
    ['before the trailers', answered(data(empty))],
    ['in a flood', repeating([answerHeaders()], data(Buffer.alloc(0)))],
    ['while sending', neverReading, LARGE],
    ['in reflection', answering(), { method: 'S/Ask' }],
    ['in reflection, after its headers', answered(), { method: 'S/Ask' }],
    ['in the TLS handshake', unresponsive, { ...HEALTH, tls: true }],
  ]

  test.each(stages)('%s', async (_, behave, config = HEALTH) => {
    await using server = await startRawServer(behave)
    const controller = new AbortController()
    const context = { signal: controller.signal }
    const connected = server.connection()
    const outcome = runGrpc({ port: server.port, config, context }).catch((error: unknown) => error)
    const socket = await connected
    // Some turns of the event loop later the stage is reached.
    for (let turn = 0; turn < 20; turn++) await new Promise((next) => setImmediate(next))
    const reason = new Error('cancelled by the test')
    const ownMs = startStopwatch()
    controller.abort(reason)
    expect(await outcome).toBe(reason)
    expect(ownMs()).toBeLessThan(50)
    await closed(server, [socket])
  })
})
