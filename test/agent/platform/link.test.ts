// The HTTP client of the platform: its requests, accepted answers, and that each failure ends in
// time with its own code. Real servers, real certificates.
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import type { LinkErrorCode } from '../../../src/agent/platform/link-error.ts'
import type { LinkOptions, LinkRequest } from '../../../src/agent/platform/link.ts'
import { VERSION } from '../../../src/contract/versions.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { anAsk, failureOf, hello, KEY, linkTo, opened } from '../../support/agent/platform-links.ts'
import { startStopwatch } from '../../support/stopwatch.ts'
import {
  startHttpServer,
  startHttpsServer,
  startRawServer,
  type TestServer,
} from '../../support/test-server.ts'

const authority = createAuthority()

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

/** A server that begins its answer at once and sends a byte of it every `everyMs`, so many in all. */
function trickling(bytes: number, everyMs: number, isEnding = true): Promise<TestServer> {
  return startHttpServer((_, response) => {
    response.writeHead(200).flushHeaders()
    let sent = 0
    const timer = setInterval(() => {
      response.write('x')
      if (++sent < bytes) return
      clearInterval(timer)
      if (isEnding) response.end()
    }, everyMs)
    response.on('close', () => clearInterval(timer))
  })
}

test('an answer that nobody reads occupies no connection', async () => {
  const { authority: at } = await opened(
    startHttpServer((request, response) =>
      response.end(request.url === '/large' ? Buffer.alloc(1_000_000) : 'small'),
    ),
  )
  const link = linkTo(`http://${at}`)
  const consume = () => Promise.reject(new Error('the disk is full'))
  // More than there are connections.
  for (let call = 0; call < 10; call++) {
    await expect(link.request(anAsk({ path: '/large', consume }))).rejects.toThrow('disk is full')
  }
  expect((await link.request(anAsk({ path: '/small' }))).body.toString()).toBe('small')
})

describe('an answer that comes slowly', () => {
  test('may last while its bytes keep coming', async () => {
    const { authority: at } = await opened(trickling(12, 50))
    const ask = anAsk({ deadlineMs: 300, pace: { idleMs: 400, wholeMs: 10_000 } })
    expect((await linkTo(`http://${at}`).request(ask)).body.toString()).toBe('x'.repeat(12))
  })

  test.each<[string, Promise<TestServer>, Partial<LinkRequest>]>([
    ['stops coming', trickling(3, 20, false), { pace: { idleMs: 200, wholeMs: 10_000 } }],
    ['goes on for too long', trickling(1e6, 20), { pace: { idleMs: 5_000, wholeMs: 300 } }],
    ['has to be there as a whole', trickling(1e6, 20), { deadlineMs: 300 }],
  ])('but not one that %s', async (_, starting, more) => {
    const { authority: at } = await opened(starting)
    const ownMs = startStopwatch()
    expect((await failureOf(linkTo(`http://${at}`), more)).code).toBe('TIMEOUT')
    expect(ownMs()).toBeLessThan(4_000)
  })
})

describe('a call', () => {
  test('carries the key, the version and what is sent, below the path of the address', async () => {
    const received: Record<string, unknown>[] = []
    const { authority: at } = await opened(
      startHttpServer((request, response) => {
        void bodyOf(request).then((body) => {
          received.push({ url: request.url, method: request.method, ...request.headers, body })
          return response.end('ok')
        })
      }),
    )
    const link = linkTo(`http://${at}/vedette/`)
    const answer = await link.request(anAsk({ headers: { 'content-encoding': 'gzip' } }))
    expect(answer).toMatchObject({ status: 200, body: Buffer.from('ok') })
    expect(answer.answeredAtMs).toBeGreaterThanOrEqual(answer.sentAtMs)
    expect(received[0]).toMatchObject({
      url: '/vedette/agent/v1/sync',
      method: 'POST',
      authorization: `Bearer ${KEY}`,
      'user-agent': `Vedette/${VERSION}`,
      'content-length': '2',
      'content-encoding': 'gzip',
      body: '{}',
    })
  })

  test('can stream its body', async () => {
    const { authority: at } = await opened(
      startHttpServer((request, response) => {
        void bodyOf(request).then((body) => response.end(`${request.method} ${body.length}`))
      }),
    )
    const body = Readable.from([Buffer.alloc(100_000), Buffer.alloc(50_000)])
    const answer = await linkTo(`http://${at}`).request(
      anAsk({ method: 'PUT', body, bytes: 150_000 }),
    )
    expect(answer.body.toString()).toBe('PUT 150000')
  })

  test('whose body is refused midway gets the answer, and the body ends', async () => {
    const { authority: at } = await opened(
      startHttpServer((_, response) => {
        response.writeHead(413, { connection: 'close' }).end('too large')
      }),
    )
    const body = Readable.from(
      (function* () {
        for (;;) yield Buffer.alloc(65_536)
      })(),
    )
    const answer = await linkTo(`http://${at}`).request(anAsk({ method: 'PUT', body }))
    expect(answer.status).toBe(413)
    expect(body.destroyed).toBe(true)
  })

  test.each([
    ['gzip', gzipSync('packed')],
    ['br', brotliCompressSync('packed')],
  ])('unpacks %s', async (packing, packed) => {
    const { authority: at } = await opened(
      startHttpServer((_, response) => {
        response.writeHead(200, { 'content-encoding': packing }).end(packed)
      }),
    )
    const { body } = await linkTo(`http://${at}`).request(anAsk())
    expect(body.toString()).toBe('packed')
  })

  test('reuses its connection, over TLS too', async () => {
    const one = await opened(startHttpsServer(authority.issue(), hello))
    const link = linkTo(`https://${one.authority}`, { ca: authority.ca })
    for (let n = 0; n < 3; n++) expect((await link.request(anAsk())).status).toBe(200)
    expect(one.open()).toBe(1)
  })

  test('on a reused connection that was closed meanwhile is repeated', async () => {
    let answered = 0
    const { authority: at } = await opened(
      startRawServer((socket) => {
        socket.once('data', () => {
          answered++
          socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
          // The second request on this connection is cut without an answer.
          socket.once('data', () => socket.destroy())
        })
      }),
    )
    const link = linkTo(`http://${at}`)
    await link.request(anAsk())
    expect((await link.request(anAsk())).body.toString()).toBe('ok')
    expect(answered).toBe(2)
  })

  test('with any other status is an answer', async () => {
    const { authority: at } = await opened(
      startHttpServer((_, response) => void response.writeHead(503, { 'retry-after': '7' }).end()),
    )
    const answer = await linkTo(`http://${at}`).request(anAsk())
    expect(answer).toMatchObject({ status: 503, headers: { 'retry-after': '7' } })
  })
})

const raw = (text: string, end = false) =>
  startRawServer((socket: Socket) => {
    socket.once('data', () => {
      if (end) socket.end(text)
      else socket.write(text)
    })
  })

describe('a failure', () => {
  test.each<[string, LinkErrorCode, () => Promise<TestServer>, Partial<LinkRequest>]>([
    ['a server that never answers', 'TIMEOUT', () => startRawServer(() => {}), { deadlineMs: 50 }],
    [
      'an answer that never ends',
      'TIMEOUT',
      () => raw('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf'),
      { deadlineMs: 100 },
    ],
    [
      'an answer that is cut',
      'TRUNCATED',
      () => raw('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf', true),
      {},
    ],
    [
      'a packed answer that is cut',
      'TRUNCATED',
      () =>
        startHttpServer((_, response) => {
          const packed = gzipSync(Buffer.alloc(1000, 'x'))
          response.writeHead(200, { 'content-encoding': 'gzip' }).end(packed.subarray(0, 15))
        }),
      {},
    ],
    [
      'an answer that is not packed as it says',
      'NOT_UNDERSTOOD',
      () =>
        startHttpServer((_, response) => {
          response.writeHead(200, { 'content-encoding': 'gzip' }).end('plain')
        }),
      {},
    ],
    ['an answer that is not HTTP', 'NOT_UNDERSTOOD', () => raw('SSH-2.0-OpenSSH_9.6\r\n'), {}],
    ['a connection that is cut', 'UNREACHABLE', () => raw('', true), {}],
    [
      'an answer that is too large',
      'TOO_LARGE',
      () => startHttpServer((_, response) => void response.end(Buffer.alloc(2000))),
      { answerBytesMax: 1000 },
    ],
    [
      'an answer that unpacks to too much',
      'TOO_LARGE',
      () =>
        startHttpServer((_, response) => {
          const packed = gzipSync(Buffer.alloc(100_000))
          response.writeHead(200, { 'content-encoding': 'gzip' }).end(packed)
        }),
      { answerBytesMax: 1000 },
    ],
  ])('%s is %s', async (_, code, start, more) => {
    const { authority: at } = await opened(start())
    expect((await failureOf(linkTo(`http://${at}`), more)).code).toBe(code)
  })

  test('a port without a listener', async () => {
    const gone = await startRawServer(() => {})
    await gone.close()
    const { code, message } = await failureOf(linkTo(`http://${gone.authority}`))
    expect(code).toBe('UNREACHABLE')
    expect(message).toContain(gone.authority)
    expect(message).toContain('refused the connection')
  })

  test('a name that does not exist', async () => {
    const { code, message } = await failureOf(linkTo('http://nowhere.invalid'))
    expect(code).toBe('UNREACHABLE')
    expect(message).toContain('resolved')
  })

  test('a redirect, which is not followed', async () => {
    let asked = 0
    const { authority: at } = await opened(
      startHttpServer((_, response) => {
        asked++
        response.writeHead(302, { location: 'https://login.example.com/?token=secret' }).end()
      }),
    )
    const { code, message } = await failureOf(linkTo(`http://${at}`))
    expect(code).toBe('REDIRECTED')
    expect(message).toContain('https://login.example.com/')
    expect(message).not.toContain('secret')
    expect(asked).toBe(1)
  })

  test('a call that is given up, before it starts and while it waits', async () => {
    const unresponsive = await opened(startRawServer(() => {}))
    const link = linkTo(`http://${unresponsive.authority}`)
    expect((await failureOf(link, { signal: AbortSignal.abort() })).code).toBe('ABORTED')
    const stop = new AbortController()
    const failing = failureOf(link, { signal: stop.signal })
    await unresponsive.connection()
    stop.abort()
    expect((await failing).code).toBe('ABORTED')
  })

  test('a handshake that never ends', async () => {
    const unresponsive = await opened(startRawServer(() => {}))
    const link = linkTo(`https://${unresponsive.authority}`, { connectMs: 50 })
    expect((await failureOf(link)).code).toBe('TIMEOUT')
  })

  test.each<[string, string, () => Promise<TestServer>, Partial<LinkOptions>]>([
    [
      'an authority that is not trusted',
      'NODE_EXTRA_CA_CERTS',
      () => startHttpsServer(authority.issue(), hello),
      {},
    ],
    [
      'a certificate for another name',
      'other names',
      () => startHttpsServer(authority.issue({ names: 'DNS:other.test' }), hello),
      { ca: authority.ca },
    ],
    [
      'a certificate that has expired',
      'has expired',
      () => startHttpsServer(authority.issue({ fromDays: -30, toDays: -1 }), hello),
      { ca: authority.ca },
    ],
    ['no TLS at all', 'does not speak TLS', () => startHttpServer(hello), {}],
  ])('%s', async (_, expectedText, start, more) => {
    const { authority: at } = await opened(start())
    const { code, message } = await failureOf(linkTo(`https://${at}`, more))
    expect(code).toBe('TLS')
    expect(message).toContain(expectedText)
  })
})
