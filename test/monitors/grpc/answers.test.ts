// Aim: an answer that is not what it should be, and an answer of HTTP in the place of gRPC, ends a check with a
// code of its own, in bounded memory.
import { once } from 'node:events'
import { createServer as createHttp2Server } from 'node:http2'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { against, DEADLINE_MS, HEALTH } from '../../support/monitors/grpc/grpc-against.ts'
import { codes, runGrpc, type Options } from '../../support/monitors/grpc/grpc-run.ts'
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
} from '../../support/monitors/grpc/http2-frames.ts'

const PROTO =
  'syntax = "proto3"; message M { string a = 1; } service S { rpc Ask(M) returns (M); rpc Watch(M) returns (stream M); }'
const ASK = { serviceDefinition: 'PROTO_FILE', protoContent: PROTO, method: 'S/Ask' }
const WATCH = { ...ASK, method: 'S/Watch' }
const empty = message(Buffer.alloc(0))

describe('answers that are not what they should be', () => {
  const gzipped = [['grpc-encoding', 'gzip']] as const
  test.each<[string, Buffer[], string, Options?]>([
    ['no message', [answerHeaders(), trailers()], 'GRPC_MALFORMED'],
    [
      'two messages',
      [answerHeaders(), data(Buffer.concat([empty, empty])), trailers()],
      'GRPC_MALFORMED',
    ],
    [
      'half a message',
      [answerHeaders(), data(message(Buffer.alloc(2), 0, 5)), trailers()],
      'GRPC_MALFORMED',
    ],
    ['no trailers', [answerHeaders(), data(empty, END_STREAM)], 'GRPC_MALFORMED'],
    [
      'headers alone, without a status',
      [answerHeaders([], END_HEADERS | END_STREAM)],
      'GRPC_MALFORMED',
    ],
    [
      'a status that is no number',
      [answerHeaders(), data(empty), trailers('ok')],
      'GRPC_MALFORMED',
    ],
    ['a head that is none', [answerHeaders(), data(message(Buffer.alloc(0), 7))], 'GRPC_MALFORMED'],
    [
      'a message that is none',
      [answerHeaders(), data(message(Buffer.from([0xff]))), trailers()],
      'GRPC_MALFORMED',
    ],
    [
      'a state that is none',
      [answerHeaders(), data(message(Buffer.from([8, 77]))), trailers()],
      'GRPC_MALFORMED',
    ],
    [
      'a message of 4 GiB',
      [answerHeaders(), data(message(Buffer.alloc(0), 0, 0xffffffff))],
      'GRPC_MESSAGE_TOO_LARGE',
    ],
    [
      'compression that nobody named',
      [answerHeaders(), data(message(Buffer.alloc(1), 1)), trailers()],
      'GRPC_UNDECODABLE',
    ],
    [
      'compression that nobody asked for',
      [answerHeaders([['grpc-encoding', 'zstd']]), data(message(Buffer.alloc(1), 1)), trailers()],
      'GRPC_UNDECODABLE',
    ],
    [
      'noise instead of gzip',
      [answerHeaders(gzipped), data(message(Buffer.alloc(9), 1)), trailers()],
      'GRPC_UNDECODABLE',
    ],
    [
      'a bomb',
      [answerHeaders(gzipped), data(message(gzipSync(Buffer.alloc(8_000_000)), 1)), trailers()],
      'GRPC_MESSAGE_TOO_LARGE',
    ],
    [
      'noise instead of the type',
      [answerHeaders(), data(message(Buffer.from([10, 99]))), trailers()],
      'GRPC_MALFORMED',
      ASK,
    ],
  ])('%s', async (_, frames, code, config) => {
    const seen = await against(answering(...frames), config)
    expect(seen.code).toBe(code)
    expect(seen.tookMs).toBeLessThan(DEADLINE_MS)
  })

  test('gzip, as it should be', async () => {
    const packed = message(gzipSync(Buffer.from([8, 1])), 1)
    const { observation } = await against(
      answering(answerHeaders(gzipped), data(packed), trailers()),
    )
    expect(codes(observation)).toEqual([])
    expect(observation.observed).toMatchObject({
      healthStatus: 'SERVING',
      response: { encoding: 'gzip' },
    })
  })

  test('a stream of messages without end', async () => {
    const { code, tookMs } = await against(repeating([answerHeaders()], data(empty)), WATCH)
    expect(code).toBe('GRPC_STREAM_TOO_LARGE')
    expect(tookMs).toBeLessThan(DEADLINE_MS)
  })

  test('a stream of large messages without end', async () => {
    const large = data(Buffer.concat([message(Buffer.alloc(16_000, 1))]))
    const { code } = await against(repeating([answerHeaders()], large), WATCH)
    expect(['GRPC_STREAM_TOO_LARGE', 'TIMEOUT_DOWNLOAD', 'HTTP2_PROTOCOL']).toContain(code)
  })

  test.each<[string, number, string, string, number]>([
    ['502 of a proxy', 502, 'text/html', 'GRPC_HTTP_STATUS', 14],
    ['503 of a proxy', 503, 'text/html', 'GRPC_HTTP_STATUS', 14],
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
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as { port: number }
    const observation = await runGrpc({ port, config: HEALTH })
    server.close()
    expect(codes(observation)).toEqual([code])
    expect(observation.observed).toMatchObject({ httpStatus, statusCode, statusOrigin: 'client' })
    expect(observation.failures[0]?.details).toMatchObject({ httpStatus, server: 'proxy.test' })
  })

  test('a status of gRPC counts, whatever the HTTP status', async () => {
    const headers = [
      [':status', '503'],
      ['content-type', 'application/grpc'],
      ['grpc-status', '5'],
    ] as const
    const only = frame(FRAME.headers, END_HEADERS | END_STREAM, 1, section(headers))
    const { code, observation } = await against(answering(only))
    expect(code).toBe('GRPC_SERVICE_NOT_FOUND')
    expect(observation.observed).toMatchObject({ statusOrigin: 'server' })
  })
})
