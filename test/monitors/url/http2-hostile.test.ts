// Aim: whatever a server does over HTTP/2 and whenever a run is aborted, URL and API monitors end with the right code,
// in time and in bounded memory, and leave no connection.
import { randomBytes } from 'node:crypto'
import type { Socket } from 'node:net'
import { createGzip, gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import type { FailureCode } from '../../../src/contract/failure.ts'
import { LIMITS } from '../../../src/contract/versions.ts'
import { api } from '../../../src/monitors/api/index.ts'
import type { HttpObserved } from '../../../src/monitors/http/observed.ts'
import { bodyBudget } from '../../../src/network/http/body-budget.ts'
import { DeadlineReached } from '../../../src/network/deadline.ts'
import { checkMonitor } from '../../support/monitors/check-monitor.ts'
import { checkUrl } from '../../support/monitors/check-monitor.ts'
import { closed } from '../../support/monitors/grpc/grpc-run.ts'
import {
  closing,
  saying,
  startTls,
  unresponsive,
  type Behaviour,
  pour,
} from '../../support/monitors/tcp-servers.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import {
  answering,
  END_HEADERS,
  END_STREAM,
  data,
  frame,
  FRAME,
  onRequest,
  repeating,
  section,
  setting,
  SETTINGS,
  uint32,
} from '../../support/network/http2-frames.ts'
import { startStopwatch } from '../../support/stopwatch.ts'
import { startHttp2Server } from '../../support/test-server.ts'

/** Limit of runs that end by it; the others end as soon as the server has done its worst. */
const LATE_MS = 200
const authority = createAuthority()
const pair = authority.issue()
const tls = { ca: authority.ca }
const HTTP2 = { ...pair, ALPNProtocols: ['h2'] }
const LARGE = { method: 'POST', bodyType: 'RAW', body: 'x'.repeat(300_000) }

/** Runs against a raw server behind TLS, with a deadline after the handshake; checks that no connection remains. */
async function against(behave: Behaviour, request: object = {}, lateMs = 10_000) {
  const sockets: Socket[] = []
  const deadline = new AbortController()
  await using server = await startTls(HTTP2, (socket) => {
    sockets.push(socket)
    setTimeout(() => deadline.abort(new DeadlineReached(lateMs)), lateMs).unref()
    behave(socket)
  })
  const whole = { method: 'GET', url: `https://${server.authority}/`, tls, ...request }
  const result = await checkMonitor(api, whole, {}, { signal: deadline.signal })
  await closed(server, sockets)
  expect(bodyBudget.usedBytes).toBe(0)
  return { ...result, observed: result.observed as unknown as HttpObserved }
}

type Pairs = readonly (readonly [string, string])[]
const headers = (content: Buffer, flags = 0) =>
  frame(FRAME.headers, END_HEADERS | flags, 1, content)
const head = (more: Pairs = [], flags = 0) => headers(section([[':status', '200'], ...more]), flags)
const answered = (...frames: Buffer[]) => answering(head([['content-length', '9']]), ...frames)
const some = data(Buffer.from('abc'))
const reset = (code: number) => frame(FRAME.reset, 0, 1, uint32(code))
const goAway = (code: number, text = '', lastStreamId = 0) =>
  frame(FRAME.goAway, 0, 0, Buffer.concat([uint32(lastStreamId), uint32(code), Buffer.from(text)]))
const thenEnding = (...frames: Buffer[]): Behaviour => {
  return (socket) => {
    socket.write(SETTINGS)
    onRequest(socket, () => socket.end(Buffer.concat(frames)))
  }
}
/** Header section in a HEADERS frame and CONTINUATION frames of at most 16,384 bytes. */
const inParts = (content: Buffer) => {
  const parts = Array.from({ length: Math.ceil(content.length / 16_384) }, (_, at) =>
    content.subarray(at * 16_384, (at + 1) * 16_384),
  )
  return parts.map((part, at) =>
    frame(
      at === 0 ? FRAME.headers : FRAME.continuation,
      at === parts.length - 1 ? END_HEADERS : 0,
      1,
      part,
    ),
  )
}
const long = (bytes: number): Pairs => [['x-long', 'x'.repeat(bytes)]]
const status = section([[':status', '200']])
/** One header of 3,000 bytes, put into the table of the decoder (RFC 7541, 6.2.1), and then its index. */
const bomb = (times: number) => {
  const entry = section([['x-bomb', 'x'.repeat(3000)]])
  entry[0] = 0x40
  return headers(Buffer.concat([status, entry, Buffer.alloc(times, 0xbe)]))
}

describe('servers that stall', () => {
  const noWindow = frame(FRAME.settings, 0, 0, setting(4, 0))
  const promise = Buffer.concat([uint32(2), section([[':path', '/']])])
  const push = frame(FRAME.push, END_HEADERS, 1, promise)
  test.each<[string, Behaviour, FailureCode, object?]>([
    ['after the handshake', unresponsive, 'TIMEOUT_FIRST_BYTE'],
    ['after the settings', answering(), 'TIMEOUT_FIRST_BYTE'],
    ['within the head', answering(frame(FRAME.headers, 0, 1, status)), 'TIMEOUT_FIRST_BYTE'],
    [
      'after an interim head',
      answering(headers(section([[':status', '103']]))),
      'TIMEOUT_FIRST_BYTE',
    ],
    ['after the head', answered(), 'TIMEOUT_DOWNLOAD'],
    ['within the body', answered(some), 'TIMEOUT_DOWNLOAD'],
    ['without a window for the body', saying(noWindow), 'TIMEOUT_SEND', LARGE],
    ['by a push that was switched off', answering(push), 'TIMEOUT_FIRST_BYTE'],
  ])('%s', async (_, behave, code, request) => {
    expect((await against(behave, request, LATE_MS)).codes).toEqual([code])
  })
})

describe('servers that end', () => {
  test.each<[string, Behaviour, FailureCode]>([
    ['at once', closing, 'CONNECTION_CLOSED'],
    ['on the request', thenEnding(), 'CONNECTION_CLOSED'],
    ['within the head', thenEnding(frame(FRAME.headers, 0, 1, status)), 'CONNECTION_CLOSED'],
    ['after the head', thenEnding(head()), 'HTTP_BODY_INCOMPLETE'],
    ['within the body', thenEnding(head(), some), 'HTTP_BODY_INCOMPLETE'],
    ['with GOAWAY', answering(goAway(0)), 'HTTP2_GOAWAY'],
    ['with GOAWAY and an error', answering(goAway(11, 'too_many')), 'HTTP2_GOAWAY'],
    ['with GOAWAY, within the body', answered(some, goAway(2)), 'HTTP_BODY_INCOMPLETE'],
    ['the body by RST_STREAM', answered(some, reset(2)), 'HTTP_BODY_INCOMPLETE'],
    ['the body by RST_STREAM: CANCEL', answered(some, reset(8)), 'HTTP_BODY_INCOMPLETE'],
    ['the body by RST_STREAM: NO_ERROR', answered(some, reset(0)), 'HTTP_BODY_INCOMPLETE'],
  ])('%s', async (_, behave, code) => {
    const { codes, observed } = await against(behave)
    expect(codes).toEqual([code])
    expect(observed.tls?.alpn).toBe('h2')
    expect(observed.hops).toHaveLength(1)
  })

  test.each([
    [0, 'NO_ERROR'],
    [1, 'PROTOCOL_ERROR'],
    [2, 'INTERNAL_ERROR'],
    [3, 'FLOW_CONTROL_ERROR'],
    [4, 'SETTINGS_TIMEOUT'],
    [5, 'STREAM_CLOSED'],
    [6, 'FRAME_SIZE_ERROR'],
    [7, 'REFUSED_STREAM'],
    [8, 'CANCEL'],
    [9, 'COMPRESSION_ERROR'],
    [10, 'CONNECT_ERROR'],
    [11, 'ENHANCE_YOUR_CALM'],
    [12, 'INADEQUATE_SECURITY'],
    [99, 'error 99'],
  ])('with RST_STREAM %d', async (code, errorCode) => {
    const { failures } = await against(answering(reset(code)))
    expect(failures).toMatchObject([{ code: 'HTTP2_STREAM_RESET', details: { errorCode } }])
  })

  test.each<[string, Buffer, FailureCode]>([
    ['RST_STREAM, are asked for HTTP/1.1, once', reset(13), 'TLS_PROTOCOL'],
    ['GOAWAY, are asked for HTTP/1.1, once', goAway(13), 'TLS_PROTOCOL'],
    ['GOAWAY, but may have processed the request, are not', goAway(13, '', 1), 'HTTP2_GOAWAY'],
  ])('with HTTP_1_1_REQUIRED in %s', async (_, refusal, code) => {
    let connections = 0
    const { codes } = await against((socket) => {
      connections += 1
      answering(refusal)(socket)
    })
    expect([codes, connections]).toEqual([[code], 1])
  })
})

describe('servers that break the rules', () => {
  const http1 = saying('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n')
  const widening = frame(FRAME.windowUpdate, 0, 0, uint32(0x7fffffff))
  const ended = (length: string) =>
    answering(head([['content-length', length]]), data(Buffer.from('abc'), END_STREAM))
  test.each<[string, Behaviour, FailureCode]>([
    ['HTTP/1.1 behind h2', http1, 'HTTP2_NOT_SPOKEN'],
    ['noise', saying(Buffer.alloc(5000, 0xa5)), 'HTTP2_NOT_SPOKEN'],
    ['noise after the settings', answering(Buffer.alloc(5000, 0xa5)), 'HTTP2_PROTOCOL'],
    ['noise within the body', answered(some, Buffer.alloc(5000, 0xa5)), 'HTTP2_PROTOCOL'],
    ['a frame that is too large', answering(data(Buffer.alloc(20_000))), 'HTTP2_PROTOCOL'],
    ['a head that cannot be unpacked', answering(headers(Buffer.alloc(9, 0xff))), 'HTTP2_PROTOCOL'],
    ['a window beyond 2³¹', answering(widening), 'HTTP2_PROTOCOL'],
    ['a body before its head', answering(some), 'HTTP2_PROTOCOL'],
    ['names in capitals', answering(head([['X-Bad', 'a']])), 'HTTP2_STREAM_RESET'],
    ['a head of HTTP/1.1', answering(head([['connection', 'close']])), 'HTTP2_STREAM_RESET'],
    ['no status', answering(headers(section([['a', 'b']]))), 'HTTP2_STREAM_RESET'],
    ['a switch', answering(headers(section([[':status', '101']]))), 'HTTP2_STREAM_RESET'],
    ['a body shorter than it says', ended('9'), 'HTTP_BODY_INCOMPLETE'],
    ['a body longer than it says', ended('2'), 'HTTP2_PROTOCOL'],
    [
      'a head of 70 KB',
      answering(...inParts(Buffer.concat([status, section(long(35_000)), section(long(35_000))]))),
      'HTTP_HEADERS_TOO_LARGE',
    ],
    ['a bomb of headers', answering(bomb(30)), 'HTTP_HEADERS_TOO_LARGE'],
    ['a larger bomb of headers', answering(bomb(3000)), 'HTTP_HEADERS_TOO_LARGE'],
    ['a bomb beyond all bounds', answering(bomb(10_000)), 'HTTP2_STREAM_RESET'],
  ])('%s', async (_, behave, code) => {
    const { codes, failures } = await against(behave)
    expect(codes).toEqual([code])
    expect(JSON.stringify(failures).length).toBeLessThan(1000)
  })

  test('data after the end is ignored', async () => {
    const end = data(Buffer.from('abc'), END_STREAM)
    const { codes, observed } = await against(answering(head(), end, some, some))
    expect([codes, observed.response?.bytes]).toEqual([[], 3])
  })

  const firstPart = frame(FRAME.headers, 0, 1, status)
  const part = frame(FRAME.continuation, 0, 1, section(long(1000)))
  const interim = headers(section([[':status', '103']]))
  test.each<[string, Behaviour, RegExp]>([
    ['CONTINUATION', repeating([firstPart], part), /^HTTP2_PROTOCOL$/],
    ['PING', repeating([], frame(FRAME.ping, 0, 0, Buffer.alloc(8))), /^HTTP2_PROTOCOL$/],
    ['SETTINGS', repeating([], SETTINGS), /^HTTP2_PROTOCOL$/],
    ['empty DATA', repeating([head()], data(Buffer.alloc(0))), /^HTTP2_PROTOCOL$/],
    // A fast machine takes so many that nghttp2 gives the stream up.
    ['interim heads', repeating([], interim), /^(?:TIMEOUT_FIRST_BYTE|HTTP2_STREAM_RESET)$/],
    ['unknown frames', repeating([], frame(77, 0, 0, Buffer.alloc(100))), /^HTTP2_PROTOCOL$/],
    ['GOAWAY', repeating([], goAway(0)), /^HTTP2_GOAWAY$/],
  ])('a flood of %s ends with a code, in little memory', async (_, behave, code) => {
    const before = process.memoryUsage().rss
    const { codes } = await against(behave, {}, 1000)
    expect(codes[0]).toMatch(code)
    expect(process.memoryUsage().rss - before).toBeLessThan(100 * 1024 * 1024)
  })
})

describe('bodies', () => {
  test('without end are cut at the limit', async () => {
    await using server = await startHttp2Server(pair, (_, response) => pour(response))
    const { codes, observed } = await checkUrl(`https://${server.authority}/`, { tls })
    expect(codes).toEqual(['HTTP_BODY_TOO_LARGE'])
    expect(observed.response?.bytes).toBeLessThan(LIMITS.bodyBytesMax + 1_048_576)
  })

  test('that are bombs are cut at the limit, and little of them is read', async () => {
    await using server = await startHttp2Server(pair, (_, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' })
      const packer = createGzip()
      packer.pipe(response)
      response.on('close', () => packer.destroy())
      pour(packer)
    })
    const { codes, observed } = await checkUrl(`https://${server.authority}/`, { tls })
    expect(codes).toEqual(['HTTP_UNPACKED_TOO_LARGE'])
    expect(observed.response?.bytes).toBeLessThan(1_048_576)
  })

  test('that are packed are read to their end where the server closes right behind them', async () => {
    // Bytes that do not pack: they arrive faster than they are unpacked.
    const content = randomBytes(500_000)
    const body = gzipSync(content)
    const frames = Array.from({ length: Math.ceil(body.length / 16_384) }, (_, at) =>
      data(body.subarray(at * 16_384, (at + 1) * 16_384)),
    )
    const packed = head([['content-encoding', 'gzip']])
    const end = [data(Buffer.alloc(0), END_STREAM), goAway(0, '', 1)]
    const { codes, observed } = await against(thenEnding(packed, ...frames, ...end))
    expect(codes).toEqual([])
    expect(observed.response?.unpackedBytes).toBe(content.length)
  })

  test.each<[string, Buffer[], FailureCode]>([
    [
      'that are not what they claim',
      [data(Buffer.from('plain'), END_STREAM)],
      'HTTP_BODY_UNDECODABLE',
    ],
    ['that are reset while they are unpacked', [some, reset(8)], 'HTTP_BODY_INCOMPLETE'],
  ])('%s', async (_, frames, code) => {
    const packed = head([['content-encoding', 'gzip']])
    expect((await against(answering(packed, ...frames))).codes).toEqual([code])
  })
})

describe('cancelled', () => {
  test.each<[string, Behaviour, object?]>([
    ['before the settings', unresponsive],
    ['before the head', answering()],
    ['within the body', answered(some)],
    ['in a flood', repeating([head()], some)],
    ['while sending', (socket) => void socket.pause(), LARGE],
  ])('%s', async (_, behave, request) => {
    const shaken = Promise.withResolvers<Socket>()
    await using server = await startTls(HTTP2, (socket) => {
      shaken.resolve(socket)
      behave(socket)
    })
    const controller = new AbortController()
    const { signal } = controller
    const whole = { method: 'GET', url: `https://${server.authority}/`, tls, ...request }
    const outcome = checkMonitor(api, whole, {}, { signal }).catch((error: unknown) => error)
    const socket = await shaken.promise
    // Some turns of the event loop later the stage is reached.
    for (let turn = 0; turn < 40; turn++) await new Promise((next) => setImmediate(next))
    const reason = new Error('cancelled by the test')
    const ownMs = startStopwatch()
    controller.abort(reason)
    expect(await outcome).toBe(reason)
    expect(ownMs()).toBeLessThan(50)
    await closed(server, [socket])
  })
})
