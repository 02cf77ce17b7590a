// The way to the platform: what it sends, what it takes, and that each thing that can go wrong on it ends in
// time with its own code. Real servers, real proxies, real certificates.
import { Readable } from 'node:stream'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { afterEach, describe, expect, test } from 'vitest'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { LINK_ERRORS, type LinkErrorCode } from '../../src/agent/link-error.ts'
import { createPlatformLink, type LinkOptions } from '../../src/agent/platform-link.ts'
import type { LinkRequest, PlatformLink } from '../../src/agent/platform-link.ts'
import { VERSION } from '../../src/contract/versions.ts'
import { createAuthority } from '../support/certificates.ts'
import { startConnectProxy } from '../support/connect-proxy.ts'
import {
  listening,
  startHttpServer,
  startHttpsServer,
  startRawServer,
  type TestServer,
} from '../support/test-server.ts'
import { createServer } from 'node:http'

const KEY = 'pl_0123456789abcdef'
const authority = createAuthority()
const open: { close(): unknown }[] = []
afterEach(async () => {
  await Promise.all(open.splice(0).map((one) => one.close()))
})

async function server(starting: Promise<TestServer>): Promise<TestServer> {
  const one = await starting
  open.push(one)
  return one
}

function linkTo(platformUrl: string, more: Partial<LinkOptions> = {}): PlatformLink {
  const link = createPlatformLink({ platformUrl, apiKey: KEY, ...more })
  open.unshift(link)
  return link
}

function ask(more: Partial<LinkRequest> = {}): LinkRequest {
  return {
    method: 'POST',
    path: '/agent/v1/sync',
    body: Buffer.from('{}'),
    deadlineMs: 5000,
    signal: new AbortController().signal,
    ...more,
  }
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

const hello = (_: IncomingMessage, response: ServerResponse) => void response.end('hello')

/** The code and message of the error that a call ends with. */
async function failureOf(link: PlatformLink, more: Partial<LinkRequest> = {}) {
  const error = await link.request(ask(more)).then(
    () => undefined,
    (reason: unknown) => reason as Error & { code: LinkErrorCode },
  )
  expect(error?.message).not.toContain(KEY)
  expect(Object.keys(LINK_ERRORS)).toContain(error?.code)
  return { code: error?.code, message: error?.message ?? '' }
}

describe('a call', () => {
  test('carries the key, the version and what is sent, below the path of the address', async () => {
    const seen: Record<string, unknown>[] = []
    const { authority: at } = await server(
      startHttpServer((request, response) => {
        void bodyOf(request).then((body) => {
          seen.push({ url: request.url, method: request.method, ...request.headers, body })
          response.end('ok')
        })
      }),
    )
    const link = linkTo(`http://${at}/vedette/`)
    const answer = await link.request(ask({ headers: { 'content-encoding': 'gzip' } }))
    expect(answer).toMatchObject({ status: 200, body: Buffer.from('ok') })
    expect(answer.answeredAtMs).toBeGreaterThanOrEqual(answer.sentAtMs)
    expect(seen[0]).toMatchObject({
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
    const { authority: at } = await server(
      startHttpServer((request, response) => {
        void bodyOf(request).then((body) => response.end(`${request.method} ${body.length}`))
      }),
    )
    const body = Readable.from([Buffer.alloc(100_000), Buffer.alloc(50_000)])
    const answer = await linkTo(`http://${at}`).request(
      ask({ method: 'PUT', body, bytes: 150_000 }),
    )
    expect(answer.body.toString()).toBe('PUT 150000')
  })

  test('whose body is refused midway gets the answer, and the body ends', async () => {
    const { authority: at } = await server(
      startHttpServer((_, response) => {
        response.writeHead(413, { connection: 'close' }).end('too large')
      }),
    )
    const body = Readable.from(
      (function* () {
        for (;;) yield Buffer.alloc(65_536)
      })(),
    )
    const answer = await linkTo(`http://${at}`).request(ask({ method: 'PUT', body }))
    expect(answer.status).toBe(413)
    expect(body.destroyed).toBe(true)
  })

  test.each([
    ['gzip', gzipSync('packed')],
    ['br', brotliCompressSync('packed')],
  ])('unpacks %s', async (packing, packed) => {
    const { authority: at } = await server(
      startHttpServer((_, response) => {
        response.writeHead(200, { 'content-encoding': packing }).end(packed)
      }),
    )
    const { body } = await linkTo(`http://${at}`).request(ask())
    expect(body.toString()).toBe('packed')
  })

  test('keeps its connection, over TLS too, and IPv6 works', async () => {
    let connections = 0
    const one = await server(startHttpsServer(authority.issue(), hello))
    const link = linkTo(`https://${one.authority}`, { ca: authority.ca })
    for (let n = 0; n < 3; n++) expect((await link.request(ask())).status).toBe(200)
    expect(one.open()).toBe(1)
    const six = await server(
      listening(
        createServer(hello).on('connection', () => connections++),
        '::1',
      ),
    )
    const over6 = linkTo(`http://${six.authority}`)
    await over6.request(ask())
    await over6.request(ask())
    expect(connections).toBe(1)
  })

  test('on a kept connection that was closed meanwhile is made anew', async () => {
    let answered = 0
    const { authority: at } = await server(
      startRawServer((socket) => {
        socket.once('data', () => {
          answered++
          socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
          // The second request on this connection is cut without a word.
          socket.once('data', () => socket.destroy())
        })
      }),
    )
    const link = linkTo(`http://${at}`)
    await link.request(ask())
    expect((await link.request(ask())).body.toString()).toBe('ok')
    expect(answered).toBe(2)
  })

  test('with any other status is an answer', async () => {
    const { authority: at } = await server(
      startHttpServer((_, response) => void response.writeHead(503, { 'retry-after': '7' }).end()),
    )
    const answer = await linkTo(`http://${at}`).request(ask())
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

describe('what goes wrong', () => {
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
      'an answer in chunks that is cut',
      'TRUNCATED',
      () => raw('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n', true),
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
    const { authority: at } = await server(start())
    expect((await failureOf(linkTo(`http://${at}`), more)).code).toBe(code)
  })

  test('a port that nobody listens on', async () => {
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
    const { authority: at } = await server(
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
    const silent = await server(startRawServer(() => {}))
    const link = linkTo(`http://${silent.authority}`)
    expect((await failureOf(link, { signal: AbortSignal.abort() })).code).toBe('ABORTED')
    const stop = new AbortController()
    const failing = failureOf(link, { signal: stop.signal })
    await silent.connection()
    stop.abort()
    expect((await failing).code).toBe('ABORTED')
  })

  test('a handshake that never ends', async () => {
    const silent = await server(startRawServer(() => {}))
    const link = linkTo(`https://${silent.authority}`, { connectMs: 50 })
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
      'a certificate of its own making',
      'NODE_EXTRA_CA_CERTS',
      () => startHttpsServer(authority.selfSigned(), hello),
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
  ])('%s', async (_, words, start, more) => {
    const { authority: at } = await server(start())
    const { code, message } = await failureOf(linkTo(`https://${at}`, more))
    expect(code).toBe('TLS')
    expect(message).toContain(words)
  })
})

describe('a proxy', () => {
  const CREDENTIALS = 'user:p@ss word'
  const withCredentials = (at: string, scheme = 'http') => `${scheme}://user:p%40ss%20word@${at}`

  test.each([['http'], ['https']])(
    'that is %s makes tunnels to an https platform',
    async (scheme) => {
      const platform = await server(startHttpsServer(authority.issue(), hello))
      const proxy = await startConnectProxy({
        credentials: CREDENTIALS,
        ...(scheme === 'https' ? { tls: authority.issue() } : {}),
      })
      open.push(proxy)
      const link = linkTo(`https://${platform.authority}`, {
        proxyUrl: withCredentials(proxy.authority, scheme),
        ca: authority.ca,
      })
      expect((await link.request(ask())).body.toString()).toBe('hello')
      expect((await link.request(ask())).body.toString()).toBe('hello')
      expect(proxy.seen).toEqual([`CONNECT ${platform.authority}`])
    },
  )

  test.each([['http'], ['https']])('that is %s forwards to an http platform', async (scheme) => {
    const platform = await server(startHttpServer(hello))
    const proxy = await startConnectProxy({
      credentials: CREDENTIALS,
      ...(scheme === 'https' ? { tls: authority.issue() } : {}),
    })
    open.push(proxy)
    const link = linkTo(`http://${platform.authority}`, {
      proxyUrl: withCredentials(proxy.authority, scheme),
      ca: authority.ca,
    })
    expect((await link.request(ask())).body.toString()).toBe('hello')
    expect(proxy.seen).toEqual([`POST http://${platform.authority}/agent/v1/sync`])
  })

  test('is not used for hosts of NO_PROXY', async () => {
    const platform = await server(startHttpsServer(authority.issue(), hello))
    const proxy = await startConnectProxy()
    open.push(proxy)
    const link = linkTo(`https://${platform.authority}`, {
      proxyUrl: `http://${proxy.authority}`,
      noProxy: ['127.0.0.0/8'],
      ca: authority.ca,
    })
    await link.request(ask())
    expect(proxy.seen).toEqual([])
  })

  test.each([['http'], ['https']])(
    'that wants other credentials is named, without the password, for %s',
    async (scheme) => {
      const proxy = await startConnectProxy({ credentials: 'user:other' })
      open.push(proxy)
      const proxyUrl = withCredentials(proxy.authority)
      const { code, message } = await failureOf(linkTo(`${scheme}://127.0.0.1:9`, { proxyUrl }))
      expect(code).toBe('PROXY')
      expect(message).toContain('407')
      expect(message).toContain(proxy.authority)
      expect(message).not.toMatch(/p@ss|p%40ss/)
    },
  )

  test.each<[string, LinkErrorCode, { answer?: string; silent?: boolean }]>([
    ['refuses', 'PROXY', { answer: 'HTTP/1.1 403 Forbidden\r\n\r\n' }],
    ['cannot reach the platform', 'PROXY', { answer: 'HTTP/1.1 502 Bad Gateway\r\n\r\n' }],
    ['answers in another language', 'PROXY', { answer: 'SSH-2.0-OpenSSH_9.6\r\n\r\n' }],
    ['never answers', 'TIMEOUT', { silent: true }],
  ])('that %s is %s', async (_, code, wishes) => {
    const proxy = await startConnectProxy(wishes)
    open.push(proxy)
    const proxyUrl = `http://${proxy.authority}`
    const link = linkTo('https://platform.test', { proxyUrl, connectMs: 200 })
    expect((await failureOf(link)).code).toBe(code)
  })

  test.each([['http'], ['https']])(
    'that is not there is told from a platform that is not, %s',
    async (scheme) => {
      const gone = await startRawServer(() => {})
      await gone.close()
      const proxyUrl = `http://user:secret@${gone.authority}`
      const { code, message } = await failureOf(linkTo(`${scheme}://platform.test`, { proxyUrl }))
      expect(code).toBe('PROXY')
      expect(message).toContain(gone.authority)
      expect(message).not.toContain('secret')
    },
  )

  test('with a certificate that is not trusted', async () => {
    const proxy = await startConnectProxy({ tls: authority.selfSigned() })
    open.push(proxy)
    const proxyUrl = `https://${proxy.authority}`
    const { code, message } = await failureOf(linkTo('https://platform.test', { proxyUrl }))
    expect(code).toBe('TLS')
    expect(message).toContain(`the proxy ${proxyUrl}`)
  })
})
