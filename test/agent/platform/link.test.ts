// The platform's HTTP client: its requests, accepted answers, and failures that end in time with their own code.
import { text as textOf } from 'node:stream/consumers'
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import type { LinkErrorCode } from '../../../src/agent/platform/link-error.ts'
import type { LinkOptions, LinkRequest } from '../../../src/agent/platform/link.ts'
import { VERSION } from '../../../src/contract/versions.ts'
import { createAuthority, type KeyPair } from '../../support/network/certificates.ts'
import { FAKE_KEY } from '../../support/agent/fake-platform.ts'
import { anAsk, failureOf, hello, linkTo, opened } from '../../support/agent/platform-links.ts'
import { startStopwatch } from '../../support/stopwatch.ts'
import {
  startHttpServer,
  startHttpsServer,
  startRawServer,
  type TestServer,
} from '../../support/test-server.ts'

const authority = createAuthority()

/** A link to a server that is there until the end of the test. */
async function linkOf(starting: Promise<TestServer>) {
  const { authority: at } = await opened(starting)
  return linkTo(`http://${at}`)
}

/** A server with one answer. */
const answering = (status: number, headers: Record<string, string>, body?: string | Buffer) =>
  startHttpServer((_, response) => void response.writeHead(status, headers).end(body))
const packedAs = (packing: string, body: string | Buffer) =>
  answering(200, { 'content-encoding': packing }, body)

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
  const link = await linkOf(
    startHttpServer((request, response) =>
      response.end(request.url === '/large' ? Buffer.alloc(1_000_000) : 'small'),
    ),
  )
  const consume = () => Promise.reject(new Error('the disk is full'))
  // More than there are connections.
  for (let call = 0; call < 10; call++) {
    await expect(link.request(anAsk({ path: '/large', consume }))).rejects.toThrow('disk is full')
  }
  expect((await link.request(anAsk({ path: '/small' }))).body.toString()).toBe('small')
})

describe('an answer that comes slowly', () => {
  test('may last while its bytes keep coming', async () => {
    const link = await linkOf(trickling(12, 50))
    const ask = anAsk({ deadlineMs: 300, pace: { idleMs: 400, wholeMs: 10_000 } })
    expect((await link.request(ask)).body.toString()).toBe('x'.repeat(12))
  })

  test.each<[string, Promise<TestServer>, Partial<LinkRequest>]>([
    ['stops coming', trickling(3, 20, false), { pace: { idleMs: 200, wholeMs: 10_000 } }],
    ['goes on for too long', trickling(1e6, 20), { pace: { idleMs: 5_000, wholeMs: 300 } }],
    ['has to be there as a whole', trickling(1e6, 20), { deadlineMs: 300 }],
  ])('but not one that %s', async (_, starting, more) => {
    const link = await linkOf(starting)
    const ownMs = startStopwatch()
    expect((await failureOf(link, more)).code).toBe('TIMEOUT')
    expect(ownMs()).toBeLessThan(4_000)
  })
})

describe('a call', () => {
  test('carries the key, the version and what is sent, below the path of the address', async () => {
    const received: Record<string, unknown>[] = []
    const { authority: at } = await opened(
      startHttpServer((request, response) => {
        const { url, method, headers } = request
        void textOf(request).then((body) => {
          received.push({ url, method, ...headers, body })
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
      authorization: `Bearer ${FAKE_KEY}`,
      'user-agent': `Vedette/${VERSION}`,
      'content-length': '2',
      'content-encoding': 'gzip',
      body: '{}',
    })
  })

  test('can stream its body', async () => {
    const link = await linkOf(
      startHttpServer((request, response) => {
        void textOf(request).then((body) => response.end(`${request.method} ${body.length}`))
      }),
    )
    const body = Readable.from([Buffer.alloc(100_000), Buffer.alloc(50_000)])
    const answer = await link.request(anAsk({ method: 'PUT', body, bytes: 150_000 }))
    expect(answer.body.toString()).toBe('PUT 150000')
  })

  test('whose body is refused midway gets the answer, and the body ends', async () => {
    const link = await linkOf(answering(413, { connection: 'close' }, 'too large'))
    const body = Readable.from(
      (function* () {
        for (;;) yield Buffer.alloc(65_536)
      })(),
    )
    const answer = await link.request(anAsk({ method: 'PUT', body }))
    expect(answer.status).toBe(413)
    expect(body.destroyed).toBe(true)
  })

  test.each([
    ['gzip', gzipSync('packed')],
    ['br', brotliCompressSync('packed')],
  ])('unpacks %s', async (packing, packed) => {
    const link = await linkOf(packedAs(packing, packed))
    const { body } = await link.request(anAsk())
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
    const link = await linkOf(
      startRawServer((socket) => {
        socket.once('data', () => {
          answered++
          socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
          // The second request on this connection is cut without an answer.
          socket.once('data', () => socket.destroy())
        })
      }),
    )
    await link.request(anAsk())
    expect((await link.request(anAsk())).body.toString()).toBe('ok')
    expect(answered).toBe(2)
  })

  test('with any other status is an answer', async () => {
    const link = await linkOf(answering(503, { 'retry-after': '7' }))
    const answer = await link.request(anAsk())
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

const HALF = 'HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf'
const BOMB = gzipSync(Buffer.alloc(100_000, 'x'))
const SMALL = { answerBytesMax: 1000 }

describe('a failure', () => {
  test.each<[string, LinkErrorCode, () => Promise<TestServer>, Partial<LinkRequest>]>([
    ['a server that never answers', 'TIMEOUT', () => startRawServer(() => {}), { deadlineMs: 50 }],
    ['an answer that never ends', 'TIMEOUT', () => raw(HALF), { deadlineMs: 100 }],
    ['an answer that is cut', 'TRUNCATED', () => raw(HALF, true), {}],
    ['a packed one that is cut', 'TRUNCATED', () => packedAs('gzip', BOMB.subarray(0, 15)), {}],
    ['one that is not packed', 'NOT_UNDERSTOOD', () => packedAs('gzip', 'plain'), {}],
    ['an answer that is not HTTP', 'NOT_UNDERSTOOD', () => raw('SSH-2.0-OpenSSH_9.6\r\n'), {}],
    ['a connection that is cut', 'UNREACHABLE', () => raw('', true), {}],
    ['one that is too large', 'TOO_LARGE', () => answering(200, {}, Buffer.alloc(2000)), SMALL],
    ['one that unpacks to too much', 'TOO_LARGE', () => packedAs('gzip', BOMB), SMALL],
  ])('%s is %s', async (_, code, start, more) => {
    expect((await failureOf(await linkOf(start()), more)).code).toBe(code)
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
    const link = await linkOf(
      startHttpServer((_, response) => {
        asked++
        response.writeHead(302, { location: 'https://login.example.com/?token=secret' }).end()
      }),
    )
    const { code, message } = await failureOf(link)
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

  const { ca } = authority
  test.each<[string, string, () => KeyPair, Partial<LinkOptions>]>([
    ['an untrusted authority', 'NODE_EXTRA_CA_CERTS', () => authority.issue(), {}],
    ['another name', 'other names', () => authority.issue({ names: 'DNS:other.test' }), { ca }],
    ['an old one', 'has expired', () => authority.issue({ fromDays: -30, toDays: -1 }), { ca }],
  ])('a certificate of %s', async (_, expectedText, issue, more) => {
    const { authority: at } = await opened(startHttpsServer(issue(), hello))
    const { code, message } = await failureOf(linkTo(`https://${at}`, more))
    expect([code, message]).toEqual(['TLS', expect.stringContaining(expectedText)])
  })

  test('no TLS at all', async () => {
    const { authority: at } = await opened(startHttpServer(hello))
    expect((await failureOf(linkTo(`https://${at}`))).code).toBe('TLS')
  })
})
