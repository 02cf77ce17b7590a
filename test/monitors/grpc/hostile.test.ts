// Aim: whatever a server does or answers, a gRPC check ends with a stable code, within its deadline, in bounded memory,
// and leaves no connection; when it is cancelled it lets go within 50 ms, at every stage.
import { createServer as createHttp2Server } from 'node:http2'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { createAuthority } from '../../support/network/certificates.ts'
import { eventually } from '../../support/eventually.ts'
import { cancelAt, codesOf } from '../../support/monitors/check-monitor.ts'
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
  repeating,
  section,
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
import { listening, startRawServer } from '../../support/test-server.ts'

/** Limit of runs that end by it; the others end as soon as the server has done its worst. */
const LATE_MS = 200
const PROTO = `syntax = "proto3"; message M { string a = 1; }
  service S { rpc Ask(M) returns (M); rpc Watch(M) returns (stream M); }`
const ASK = { serviceDefinition: 'PROTO_FILE', protoContent: PROTO, method: 'S/Ask' }
const WATCH = { ...ASK, method: 'S/Watch' }
const empty = message(Buffer.alloc(0))
const reset = (code: number) => frame(FRAME.reset, 0, 1, uint32(code))
const answered = (...frames: Buffer[]) => answering(answerHeaders(), ...frames)
const LARGE = { ...ASK, message: JSON.stringify({ a: 'x'.repeat(900_000) }) }
const neverReading: Behaviour = (socket) => void socket.pause()
const long = (bytes: number) => [['x-long', 'x'.repeat(bytes)]] as const

test.each<[string, Behaviour, string, Options?]>([
  ['after the connection', unresponsive, 'TIMEOUT_FIRST_BYTE'],
  ['within a frame', answering(frame(FRAME.headers, 4, 1, empty, 100)), 'TIMEOUT_FIRST_BYTE'],
  ['within a message', answered(data(message(empty, 0, 9))), 'TIMEOUT_DOWNLOAD'],
  ['before the trailers', answered(data(empty)), 'TIMEOUT_DOWNLOAD'],
  ['while the request is sent', neverReading, 'TIMEOUT_SEND', LARGE],
])('stalls: %s', async (_, behave, code, config) => {
  const { codes, observed } = await against(behave, config, LATE_MS)
  expect([codes, observed.status]).toEqual([[code], 'DEADLINE_EXCEEDED'])
})

test.each<[string, Behaviour, string]>([
  ['an end', closing, 'CONNECTION_CLOSED'],
  ['a reset', resetting, 'CONNECTION_RESET'],
  ['HTTP/1.1', saying('HTTP/1.1 400 Bad Request\r\n\r\n'), 'HTTP2_NOT_SPOKEN'],
  ['a flood', flooding, 'HTTP2_NOT_SPOKEN'],
])('what is not HTTP/2: %s', async (_, behave, code) => {
  expect(await codesOf(against(behave))).toEqual([code])
})

test('what is not HTTP/2: TLS that wants HTTP/1.1', async () => {
  const options = { ...createAuthority().issue(), ALPNProtocols: ['http/1.1'] }
  await using server = await startTls(options, unresponsive)
  const config = { ...HEALTH, tls: true }
  const checking = runGrpc({ port: server.port, config, request: { skipSSL: true } })
  expect(await codesOf(checking)).toEqual(['HTTP2_NOT_SPOKEN'])
  await eventually(() => server.open() === 0)
})

describe('HTTP/2 with broken rules', () => {
  const large = answerHeaders(long(15_000))
  test.each<[string, Behaviour, string | RegExp]>([
    ['noise after the settings', answering(Buffer.alloc(5000, 0xa5)), 'HTTP2_PROTOCOL'],
    ['data before headers', answering(data(empty)), /HTTP2_(PROTOCOL|STREAM_RESET)/],
    ['headers that are too large', answering(large, large), /./],
    ['a stream that is reset after its headers', answered(reset(2)), 'HTTP2_STREAM_RESET'],
  ])('%s', async (_, behave, code) => {
    expect((await against(behave)).codes[0]).toMatch(code)
  })

  test('a reset says which, and counts as the status of gRPC', async () => {
    const { failures, observed } = await against(answering(reset(7)))
    const details = { errorCode: 'REFUSED_STREAM' }
    expect(failures).toMatchObject([{ code: 'HTTP2_STREAM_RESET', details }])
    expect(observed).toMatchObject({ status: 'UNAVAILABLE', statusOrigin: 'client' })
  })

  test('GOAWAY says why', async () => {
    const reason = Buffer.concat([uint32(0), uint32(11), Buffer.from('too_many_pings')])
    const { failures } = await against(answering(frame(FRAME.goAway, 0, 0, reason)))
    const details = { errorCode: 'ENHANCE_YOUR_CALM', debug: 'too_many_pings' }
    expect(failures).toMatchObject([{ code: 'HTTP2_GOAWAY', details }])
  })

  test('a long text of GOAWAY has an ellipsis where it is cut, where scrubbing looks for parts', async () => {
    const reason = Buffer.concat([uint32(0), uint32(11), Buffer.from('x'.repeat(300))])
    const { failures } = await against(answering(frame(FRAME.goAway, 0, 0, reason)))
    expect(failures[0]?.message).toMatch(/"x{200}…"\)$/)
  })

  const firstPart = frame(FRAME.headers, 0, 1, section(long(100)))
  test.each<[string, Behaviour]>([
    ['CONTINUATION', repeating([firstPart], frame(FRAME.continuation, 0, 1, section(long(1000))))],
    ['PING', repeating([], frame(FRAME.ping, 0, 0, Buffer.alloc(8)))],
    ['empty DATA', repeating([answerHeaders()], data(Buffer.alloc(0)))],
    ['WINDOW_UPDATE', repeating([], frame(FRAME.windowUpdate, 0, 1, uint32(1)))],
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
  const bomb = message(gzipSync(Buffer.alloc(8_000_000)), 1)
  const huge = message(Buffer.alloc(0), 0, 0xffffffff)
  test.each<[string, Buffer[], string, Options?]>([
    ['no message', [answerHeaders(), trailers()], 'GRPC_MALFORMED'],
    ['two messages', answer(Buffer.concat([empty, empty])), 'GRPC_MALFORMED'],
    ['half a message', answer(message(Buffer.alloc(2), 0, 5)), 'GRPC_MALFORMED'],
    ['no trailers', [answerHeaders(), data(empty, END_STREAM)], 'GRPC_MALFORMED'],
    ['a head that is none', answer(message(Buffer.alloc(0), 7)), 'GRPC_MALFORMED'],
    ['a message that is none', answer(message(Buffer.from([0xff]))), 'GRPC_MALFORMED'],
    ['noise instead of the type', answer(message(Buffer.from([10, 99]))), 'GRPC_MALFORMED', ASK],
    ['a message of 4 GiB', answer(huge), 'GRPC_MESSAGE_TOO_LARGE'],
    ['a bomb', answer(bomb, gzipped), 'GRPC_MESSAGE_TOO_LARGE'],
    ['foreign compression', answer(message(Buffer.alloc(1), 1), zstd), 'GRPC_UNDECODABLE'],
    ['noise instead of gzip', answer(message(Buffer.alloc(9), 1), gzipped), 'GRPC_UNDECODABLE'],
  ])('%s', async (_, frames, code, config) => {
    expect(await codesOf(against(answering(...frames), config))).toEqual([code])
  })

  test('a stream of messages without end', async () => {
    const checking = against(repeating([answerHeaders()], data(empty)), WATCH)
    expect(await codesOf(checking)).toEqual(['GRPC_STREAM_TOO_LARGE'])
  })

  test.each<[string, number, string, string, number]>([
    ['502 of a proxy', 502, 'text/html', 'GRPC_HTTP_STATUS', 14],
    ['404 of a web server', 404, 'text/html', 'GRPC_HTTP_STATUS', 12],
    ['a redirect', 302, 'text/html', 'GRPC_HTTP_STATUS', 2],
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

test.each<[string, Behaviour, Options?]>([
  ['before the settings', unresponsive],
  ['before the trailers', answered(data(empty))],
  ['while sending', neverReading, LARGE],
  ['in reflection', answering(), { method: 'S/Ask' }],
])('cancelled %s', async (_, behave, config = HEALTH) => {
  await using server = await startRawServer(behave)
  const connected = server.connection()
  const cancelled = cancelAt(connected, (signal) =>
    runGrpc({ port: server.port, config, context: { signal } }),
  )
  expect(await cancelled).toBe('let go')
  const socket = await connected
  await closed(server, [socket])
})
