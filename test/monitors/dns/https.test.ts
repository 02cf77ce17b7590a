// Aim: DNS over HTTPS is spoken by both versions of HTTP and refuses what is no DNS message; and a cancelled or
// late check lets go of every protocol at once, without leaving a descriptor.
import { readdirSync } from 'node:fs'
import { createSecureServer, type Http2Server } from 'node:http2'
import { createServer as createHttpsServer } from 'node:https'
import { createServer as createTlsServer } from 'node:tls'
import { describe, expect, test } from 'vitest'
import { createAuthority } from '../../support/network/certificates.ts'
import { at, checkDns } from '../../support/monitors/dns/check-dns.ts'
import {
  ANSWER_AT,
  rightAnswer,
  startHostileNameServer,
  withTail,
} from '../../support/monitors/dns/hostile-name-server.ts'
import { startStopwatch } from '../../support/stopwatch.ts'
import { listening } from '../../support/test-server.ts'

const authority = createAuthority()
const pair = authority.issue()
const trusting = { protocol: 'DOH', tls: { ca: authority.ca } }

describe('DNS over HTTPS', () => {
  interface Page {
    status?: number
    type?: string
    body: (query: Buffer) => Buffer
  }
  const dnsMessage = 'application/dns-message'
  const right = (query: Buffer) => rightAnswer(query)
  const cases: [string, Page, string[]][] = [
    ['a right answer', { body: right }, []],
    ['a type with parameters', { type: `${dnsMessage}; x=y`, body: right }, []],
    ['another type', { type: 'text/html', body: right }, ['DNS_HTTP']],
    ['an error', { status: 503, body: () => Buffer.from('busy') }, ['DNS_HTTP']],
    ['a redirect', { status: 302, body: () => Buffer.alloc(0) }, ['DNS_HTTP']],
    ['no message', { body: () => Buffer.alloc(0) }, ['DNS_MISMATCH']],
    ['too large a message', { body: () => Buffer.alloc(1_000_000) }, ['DNS_HTTP']],
    ['garbage', { body: (query) => withTail(right(query), ANSWER_AT, 0xc0) }, ['DNS_MALFORMED']],
  ]

  function answer({ status = 200, type = dnsMessage, body }: Page) {
    return (
      request: NodeJS.ReadableStream,
      respond: (head: [number, object], end: Buffer) => void,
    ) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        respond([status, { 'content-type': type }], body(Buffer.concat(chunks)))
      })
    }
  }

  test.each(cases)('%s by HTTP/2', async (_, page, expected) => {
    const server: Http2Server = createSecureServer(pair)
    server.on('stream', (stream, headers) => {
      expect(headers).toMatchObject({ ':method': 'POST', 'content-type': dnsMessage })
      stream.on('error', () => {})
      answer(page)(stream, ([status, head], end) => {
        stream.respond({ ':status': status, ...head })
        stream.end(end)
      })
    })
    await using running = await listening(server)
    const { codes, observed } = await checkDns({ ...trusting, ...at(running.port) })
    expect(codes).toEqual(expected)
    expect(observed.tls?.alpn).toBe('h2')
  })

  test.each(cases)('%s by HTTP/1.1', async (_, page, expected) => {
    const server = createHttpsServer(pair, (request, response) => {
      expect(request.headers).toMatchObject({ accept: dnsMessage })
      answer(page)(request, ([status, head], end) =>
        response.writeHead(status, { ...head }).end(end),
      )
    })
    await using running = await listening(server)
    const { codes, observed } = await checkDns({ ...trusting, ...at(running.port) })
    expect(codes).toEqual(expected)
    expect(observed.tls?.alpn).not.toBe('h2')
  })

  test('a server that breaks off', async () => {
    const server = createSecureServer(pair)
    server.on('sessionError', () => {})
    server.on('session', (session) => session.destroy())
    await using running = await listening(server)
    const { codes } = await checkDns({ ...trusting, ...at(running.port) })
    expect(['CONNECTION_CLOSED', 'CONNECTION_RESET', 'HTTP2_GOAWAY']).toContain(codes[0])
  })

  test('a server that resets the stream', async () => {
    const server = createSecureServer(pair)
    server.on('stream', (stream) => {
      stream.on('error', () => {})
      stream.close(11)
    })
    await using running = await listening(server)
    const { codes } = await checkDns({ ...trusting, ...at(running.port) })
    expect(codes).toEqual(['HTTP2_STREAM_RESET'])
  })
})

describe('a cancelled run', () => {
  const descriptors = () => readdirSync('/proc/self/fd').length

  test.each<[string, () => Promise<AsyncDisposable & { port: number; reached: Promise<unknown> }>]>(
    [
      ['UDP', () => startHostileNameServer({})],
      ['TCP', () => startHostileNameServer({})],
      ['DOT', () => startHostileNameServer({})],
      ['DOT', () => withReached(createTlsServer(pair, (socket) => void socket.resume()))],
      ['DOH', () => withReached(createHttpsServer(pair, () => {}))],
      [
        'DOH',
        () => withReached(createSecureServer(pair).on('stream', (s) => s.on('error', () => {}))),
      ],
    ],
  )('over %s lets go at once and leaves no descriptor', async (protocol, start) => {
    const before = descriptors()
    {
      await using server = await start()
      const controller = new AbortController()
      const request = { protocol, tls: { ca: authority.ca }, ...at(server.port) }
      const running = checkDns(request, {}, { signal: controller.signal })
      const ending = running.catch((error: Error) => error.message)
      await server.reached
      const ownMs = startStopwatch()
      controller.abort(new Error('enough'))
      expect(await ending).toBe('enough')
      expect(ownMs()).toBeLessThan(50)
    }
    await expect.poll(descriptors).toBeLessThanOrEqual(before)
  })

  test.each<[string, string, string]>([
    ['UDP', 'without an answer', 'TIMEOUT_FIRST_BYTE'],
    ['TCP', 'without an answer', 'TIMEOUT_FIRST_BYTE'],
    ['DOT', 'in the handshake', 'TIMEOUT_TLS'],
    ['DOH', 'in the handshake', 'TIMEOUT_TLS'],
  ])('a deadline over %s %s', async (protocol, _, code) => {
    await using server = await startHostileNameServer({})
    const ownMs = startStopwatch()
    const { codes } = await checkDns({ protocol, ...at(server.port) }, { maxResponseTime: 100 })
    expect(codes).toEqual([code])
    expect(ownMs()).toBeLessThan(500)
  })
})

/** A server on a free port, which reports when the first connection has been secured or used. */
async function withReached(server: ReturnType<typeof createTlsServer> | Http2Server) {
  const { promise, resolve } = Promise.withResolvers<void>()
  server.once('secureConnection', () => setImmediate(resolve))
  const running = await listening(server)
  return Object.assign(running, { reached: promise })
}
