// Aim: whatever a server does, a URL monitor ends with the right code, bounded memory and no socket left;
// and what it reports of phases, hops and certificates is what happened.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { createBrotliCompress, createDeflate, createGzip, createZstdCompress } from 'node:zlib'
import {
  brotliCompressSync,
  deflateRawSync,
  deflateSync,
  gzipSync,
  zstdCompressSync,
} from 'node:zlib'
import { describe, expect, test } from 'vitest'
import type { FailureCode } from '../../src/contract/failure.ts'
import { LIMITS } from '../../src/contract/versions.ts'
import type { HttpObserved } from '../../src/monitors/http-observed.ts'
import { url } from '../../src/monitors/url.ts'
import { createAuthority } from '../support/certificates.ts'
import {
  deadlineAfter,
  fixedResolver,
  testContext,
  type ContextWishes,
} from '../support/monitor-context.ts'
import { startOpensslServer } from '../support/openssl-server.ts'
import {
  listening,
  startHttpServer,
  startHttpsServer,
  startRawServer,
} from '../support/test-server.ts'

async function check(
  address: string,
  request: object = {},
  more: object = {},
  wishes: ContextWishes = {},
) {
  const monitor = url.schema.parse({
    id: 'm',
    name: 'm',
    checkType: 'URL',
    request: { url: address, ...request },
    ...more,
  })
  const seen = await url.run(monitor, testContext(wishes))
  const observed = seen.observed as unknown as HttpObserved
  return { ...seen, observed, codes: seen.failures.map((one) => one.code) }
}

const answer = (head: string, body = '') => `HTTP/1.1 ${head}\r\n\r\n${body}`

describe('hostile servers', () => {
  const after = (text: string | Buffer) => (socket: Socket) =>
    void socket.once('data', () => socket.write(text))
  const last = (text: string | Buffer) => (socket: Socket) =>
    void socket.once('data', () => socket.end(text))

  test.each<[string, (socket: Socket) => void, FailureCode]>([
    ['never answers', () => {}, 'TIMEOUT_FIRST_BYTE'],
    ['closes at once', (socket) => socket.end(), 'CONNECTION_CLOSED'],
    ['resets at once', (socket) => socket.resetAndDestroy(), 'CONNECTION_RESET'],
    [
      'resets on the request',
      (socket) => socket.once('data', () => socket.resetAndDestroy()),
      'CONNECTION_RESET',
    ],
    ['closes on the request', last(''), 'CONNECTION_CLOSED'],
    ['closes within the head', last('HTTP/1.1 200 OK\r\nContent-'), 'CONNECTION_CLOSED'],
    ['stops within the head', after('HTTP/1.1 200 OK\r\nContent-'), 'TIMEOUT_FIRST_BYTE'],
    [
      'stops within the body',
      after(answer('200 OK\r\nContent-Length: 9', 'abc')),
      'TIMEOUT_DOWNLOAD',
    ],
    [
      'closes within the body',
      last(answer('200 OK\r\nContent-Length: 9', 'abc')),
      'HTTP_BODY_INCOMPLETE',
    ],
    [
      'closes within the chunks',
      last(answer('200 OK\r\nTransfer-Encoding: chunked', '3\r\nabc\r\n')),
      'HTTP_BODY_INCOMPLETE',
    ],
    [
      'sends a broken chunk',
      last(answer('200 OK\r\nTransfer-Encoding: chunked', '3\r\nabc\r\nzz\r\n')),
      'HTTP_MALFORMED',
    ],
    [
      'sends a chunk of absurd size',
      last(answer('200 OK\r\nTransfer-Encoding: chunked', 'fffffffffffffffff\r\n')),
      'HTTP_MALFORMED',
    ],
    ['speaks something else', last('220 mail ESMTP\r\n'), 'HTTP_MALFORMED'],
    [
      'speaks of two lengths',
      last(answer('200 OK\r\nContent-Length: 1\r\nContent-Length: 2', 'a')),
      'HTTP_MALFORMED',
    ],
    [
      'smuggles',
      last(answer('200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked', '0\r\n\r\n')),
      'HTTP_MALFORMED',
    ],
    [
      'sends a header of 1 MB',
      last(answer(`200 OK\r\nX-Long: ${'x'.repeat(1 << 20)}`)),
      'HTTP_HEADERS_TOO_LARGE',
    ],
    [
      'sends a thousand headers',
      last(
        answer(
          `200 OK\r\n${'X-Many: 0123456789012345678901234567890123456789012345678901234567890123456789\r\n'.repeat(1000)}X: y`,
        ),
      ),
      'HTTP_HEADERS_TOO_LARGE',
    ],
    [
      'claims gzip',
      last(answer('200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5', 'plain')),
      'HTTP_BODY_UNDECODABLE',
    ],
    [
      'cuts gzip off',
      last(
        Buffer.concat([
          Buffer.from(answer('200 OK\r\nContent-Encoding: gzip')),
          gzipSync('x'.repeat(999)).subarray(0, 15),
        ]),
      ),
      'HTTP_BODY_UNDECODABLE',
    ],
    [
      'packs four times',
      last(answer('200 OK\r\nContent-Encoding: gzip, gzip, br, gzip', 'x')),
      'HTTP_BODY_UNDECODABLE',
    ],
    [
      'switches protocols unasked',
      last(answer('101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade')),
      'HTTP_MALFORMED',
    ],
    ['redirects nowhere', last(answer('302 Found\r\nContent-Length: 0')), 'HTTP_REDIRECT_INVALID'],
    [
      'redirects to a file',
      last(answer('302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0')),
      'HTTP_REDIRECT_INVALID',
    ],
    [
      'redirects to no URL',
      last(answer('302 Found\r\nLocation: http://[::\r\nContent-Length: 0')),
      'HTTP_REDIRECT_INVALID',
    ],
    [
      'redirects to itself for ever',
      last(answer('302 Found\r\nLocation: /\r\nContent-Length: 0')),
      'HTTP_REDIRECT_LIMIT',
    ],
    [
      'redirects to metadata',
      last(answer('302 Found\r\nLocation: http://0xa9fea9fe/latest\r\nContent-Length: 0')),
      'ADDRESS_BLOCKED',
    ],
  ])('one that %s', async (_, onConnection, code) => {
    await using server = await startRawServer(onConnection)
    const signal = code.startsWith('TIMEOUT') ? deadlineAfter(60) : new AbortController().signal
    const seen = await check(`http://${server.authority}/`, {}, {}, { signal })
    expect(seen.codes).toEqual([code])
    expect(seen.observed.hops.length).toBeGreaterThan(0)
    expect(seen.responseTimeMs).toBeUndefined()
  })

  test('a body without end is cut at the limit', async () => {
    await using server = await startHttpServer((_, response) => pour(response))
    const seen = await check(`http://${server.authority}/`)
    expect(seen.codes).toEqual(['HTTP_BODY_TOO_LARGE'])
    const { bytes } = seen.observed.response as { bytes: number }
    expect(bytes).toBeGreaterThan(LIMITS.bodyBytesMax)
    expect(bytes).toBeLessThan(LIMITS.bodyBytesMax + 1_048_576)
  })

  test.each([
    ['gzip', createGzip],
    ['br', createBrotliCompress],
    ['zstd', createZstdCompress],
    ['deflate', createDeflate],
  ] as const)('a bomb in %s is cut at the limit, and little of it is read', async (name, pack) => {
    await using server = await startHttpServer((_, response) => {
      response.writeHead(200, { 'content-encoding': name })
      const packer = pack()
      packer.pipe(response)
      response.on('close', () => packer.destroy())
      pour(packer)
    })
    const seen = await check(`http://${server.authority}/`)
    expect(seen.codes).toEqual(['HTTP_UNPACKED_TOO_LARGE'])
    const { bytes, unpackedBytes } = seen.observed.response as {
      bytes: number
      unpackedBytes: number
    }
    expect(unpackedBytes).toBeLessThan(LIMITS.unpackedBytesMax + 1_048_576)
    expect(bytes).toBeLessThan(1_048_576)
  })
})

/** Zeros for ever, as fast as they are taken. */
function pour(sink: NodeJS.WritableStream): void {
  const zeros = Buffer.alloc(65_536)
  const more = () => {
    while ((sink as unknown as { destroyed: boolean }).destroyed !== true && sink.write(zeros));
  }
  sink.on('drain', more)
  sink.on('error', () => {})
  more()
}

describe('answers', () => {
  test.each([
    ['identity', (text: string) => Buffer.from(text)],
    ['gzip', (text: string) => gzipSync(text)],
    ['br', (text: string) => brotliCompressSync(text)],
    ['zstd', (text: string) => zstdCompressSync(text)],
    ['deflate', (text: string) => deflateSync(text)],
    ['deflate', (text: string) => deflateRawSync(text)],
    ['gzip, br', (text: string) => brotliCompressSync(gzipSync(text))],
    ['made-up', (text: string) => Buffer.from(text)],
  ])('packed in %s are unpacked', async (name, pack) => {
    const body = pack('hello '.repeat(500))
    await using server = await startHttpServer((_, response) => {
      response.writeHead(500, { 'content-encoding': name, 'content-type': 'text/plain' })
      response.end(body)
    })
    const seen = await check(`http://${server.authority}/`)
    expect(seen.observed.response).toMatchObject({ bytes: body.length, unpackedBytes: 3000 })
    expect(seen.observed.response?.body).toBe('hello '.repeat(500))
    expect(seen.observed.response?.bodyTruncated).toBe(false)
  })

  test('the request is a plain one', async () => {
    let request: IncomingMessage | undefined
    await using server = await startHttpServer((incoming, response) => {
      request = incoming
      response.end()
    })
    await check(`http://user:pa%20ss@${server.authority}/a%20b?q=1#part`)
    expect(request?.method).toBe('GET')
    expect(request?.url).toBe('/a%20b?q=1')
    expect(request?.headers).toMatchObject({
      host: server.authority,
      connection: 'close',
      'accept-encoding': 'gzip, deflate, br, zstd',
      authorization: `Basic ${Buffer.from('user:pa ss').toString('base64')}`,
    })
    expect(request?.headers['user-agent']).toMatch(/^Vedette\/\d/)
  })

  test.each<[string, number, boolean, object[], FailureCode[]]>([
    ['200 is fine', 200, false, [], []],
    ['399 is fine', 399, false, [], []],
    ['400 fails', 400, false, [], ['HTTP_STATUS']],
    ['500 fails', 500, false, [], ['HTTP_STATUS']],
    ['404 is fine where it should fail', 404, true, [], []],
    ['200 is fine even where it should fail', 200, true, [], []],
    ['an assertion on it holds', 404, true, [status('EQUALS', 404)], []],
    ['a failed assertion fails', 200, true, [status('EQUALS', 404)], ['ASSERTION_FAILED']],
    ['both are told', 503, false, [status('LESS_THAN', 300)], ['HTTP_STATUS', 'ASSERTION_FAILED']],
  ])('status: %s', async (_, code, shouldFail, assertions, expected) => {
    await using server = await startHttpServer((_request, response) =>
      response.writeHead(code).end(),
    )
    const seen = await check(`http://${server.authority}/`, { assertions }, { shouldFail })
    expect(seen.codes).toEqual(expected)
    expect(seen.observed.statusCode).toBe(code)
  })

  test('a refused connection fails even where it should fail', async () => {
    const server = await startRawServer(() => {})
    await server.close()
    const seen = await check(`http://${server.authority}/`, {}, { shouldFail: true })
    expect(seen.codes).toEqual(['CONNECT_REFUSED'])
  })

  test('interim answers and what follows the end are ignored', async () => {
    const text = `${answer('103 Early Hints\r\nLink: </a>')}${answer('200 OK\r\nContent-Length: 2', 'ok')}surplus`
    await using server = await startRawServer((socket) =>
      socket.once('data', () => socket.end(text)),
    )
    const seen = await check(`http://${server.authority}/`)
    expect(seen.codes).toEqual([])
    expect(seen.observed).toMatchObject({ statusCode: 200, response: { bytes: 2 } })
  })

  test('odd headers harm nobody', async () => {
    const odd =
      'X: 1\r\nX: 2\r\n__proto__: y\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\nEmpty:\r\nLatin: \xe9'
    await using server = await startRawServer((socket) =>
      socket.once('data', () => socket.end(Buffer.from(answer(`200 OK\r\n${odd}`), 'latin1'))),
    )
    const seen = await check(`http://${server.authority}/`)
    expect(seen.codes).toEqual([])
    expect(seen.observed.response?.headers).toMatchObject({
      x: '1, 2',
      'set-cookie': ['a=b', 'c=d'],
    })
  })

  test('slow ones are degraded, too slow ones fail', async () => {
    await using server = await startHttpServer(
      (_, response) => void setTimeout(() => response.end(), 20),
    )
    const address = `http://${server.authority}/`
    const slow = await check(address, {}, { degradedResponseTime: 5 })
    expect([slow.degraded, slow.codes]).toEqual([true, []])
    const tooSlow = await check(address, {}, { degradedResponseTime: 1, maxResponseTime: 5 })
    expect(tooSlow.codes).toEqual(['RESPONSE_TIME_ABOVE_MAX'])
    const fine = await check(address, {}, { degradedResponseTime: 20_000, maxResponseTime: 20_000 })
    expect([fine.degraded, fine.codes]).toEqual([false, []])
  })

  test('phases add up, each where the server made it wait', async () => {
    await using server = await startHttpServer((_, response) => {
      setTimeout(() => {
        response.write('a')
        setTimeout(() => response.end('b'), 30)
      }, 50)
    })
    const { observed, responseTimeMs } = await check(`http://${server.authority}/`)
    const {
      dnsMs = -1,
      connectMs = -1,
      firstByteMs = -1,
      downloadMs = -1,
      totalMs,
    } = observed.phases
    expect(dnsMs).toBe(0)
    expect(firstByteMs).toBeGreaterThanOrEqual(48)
    expect(downloadMs).toBeGreaterThanOrEqual(28)
    expect(dnsMs + connectMs + firstByteMs + downloadMs).toBeLessThanOrEqual(totalMs)
    expect(Math.abs(totalMs - (responseTimeMs as number))).toBeLessThan(0.001)
  })
})

function status(comparison: string, target: number) {
  return { source: 'STATUS_CODE', comparison, target }
}

describe('redirects', () => {
  type Route = (request: IncomingMessage, response: ServerResponse) => void
  const to = (location: string, headers: Record<string, string | string[]> = {}): Route => {
    return (_, response) => response.writeHead(302, { location, ...headers }).end('moved')
  }
  const serve = (routes: Record<string, Route>) =>
    startHttpServer((request, response) =>
      (routes[request.url as string] ?? ((_, r) => r.end(JSON.stringify(request.headers))))(
        request,
        response,
      ),
    )

  test('every hop is reported with its phases', async () => {
    await using server = await serve({
      '/': to('a'),
      '/a': to('/b#x'),
      '/b': to(`//%6cocalhost:/c`),
    })
    await using other = await serve({ '/': to(`http://${server.authority}/end`) })
    const seen = await check(`http://${other.authority}/`)
    expect(seen.codes).toEqual([])
    expect(seen.observed.redirects).toBe(1)
    expect(seen.observed.hops).toMatchObject([
      { statusCode: 302, location: `http://${server.authority}/end`, address: '127.0.0.1' },
      { statusCode: 200, url: `http://${server.authority}/end` },
    ])
    const relative = await check(`http://${server.authority}/a`, { followRedirects: true })
    expect(relative.observed.hops[0]?.location).toBe(`http://${server.authority}/b`)
    const total = seen.observed.hops.reduce((sum, hop) => sum + hop.phases.totalMs, 0)
    expect(total).toBeLessThanOrEqual(seen.observed.phases.totalMs)
  })

  test('ten are followed, eleven are too many', async () => {
    const routes = Object.fromEntries(
      Array.from({ length: 11 }, (_, n) => [`/${n + 1}`, to(`/${n}`)]),
    )
    await using server = await serve(routes)
    const ten = await check(`http://${server.authority}/10`)
    expect([ten.codes, ten.observed.redirects]).toEqual([[], 10])
    const eleven = await check(`http://${server.authority}/11`)
    expect(eleven.codes).toEqual(['HTTP_REDIRECT_LIMIT'])
    expect(eleven.observed.hops).toHaveLength(11)
  })

  test('are the answer where they are not followed', async () => {
    await using server = await serve({ '/': to('/a') })
    const seen = await check(`http://${server.authority}/`, { followRedirects: false })
    expect([seen.codes, seen.observed.statusCode, seen.observed.redirects]).toEqual([[], 302, 0])
  })

  test('carry the cookies that they set', async () => {
    let cookie: string | undefined
    await using server = await serve({
      '/': to('/next', {
        'set-cookie': ['a=1; Path=/', 'b=2; Path=/other', 'c=3; Domain=evil.test'],
      }),
      '/next': (request, response) => {
        cookie = request.headers.cookie
        response.end()
      },
    })
    await check(`http://${server.authority}/`)
    expect(cookie).toBe('a=1')
  })

  test('a name that leads to a blocked address is stopped at its hop', async () => {
    await using server = await serve({ '/': to('http://rebound.test/latest/meta-data') })
    const resolver = fixedResolver({ 'rebound.test': ['169.254.169.254'] })
    const seen = await check(`http://${server.authority}/`, {}, {}, { resolver })
    expect(seen.codes).toEqual(['ADDRESS_BLOCKED'])
    expect(seen.failures[0]?.details).toMatchObject({ address: '169.254.169.254', hop: 1 })
  })
})

describe('TLS', () => {
  const authority = createAuthority()
  const tls = { ca: authority.ca }
  const fine = (_: IncomingMessage, response: ServerResponse) => void response.end('ok')

  test('the certificate is on record, and its metrics', async () => {
    await using server = await startHttpsServer(authority.issue(), fine)
    const seen = await check(`https://${server.authority}/`, { tls })
    expect(seen.codes).toEqual([])
    expect(seen.observed.tls).toMatchObject({ verified: true, alpn: 'http/1.1', daysLeft: 29 })
    expect(seen.observed.phases.tlsMs).toBeGreaterThan(0)
    const names = url.samples(seen.observed as unknown as Record<string, unknown>)
    const expiry = Date.parse(seen.observed.tls?.earliestExpiry as string) / 1000
    expect(names).toContainEqual({ name: 'probe_http_ssl', value: 1 })
    expect(names).toContainEqual({ name: 'probe_ssl_earliest_cert_expiry', value: expiry })
    expect(names).toContainEqual({
      name: 'probe_tls_version_info',
      value: 1,
      labels: { version: 'TLS 1.3' },
    })
  })

  test.each<[string, boolean, FailureCode[]]>([
    ['fails', false, ['TLS_EXPIRED']],
    ['passes with skipSSL', true, []],
  ])('an expired certificate %s, its facts in hand', async (_, skipSSL, codes) => {
    await using server = await startHttpsServer(authority.issue({ fromDays: -9, toDays: -2 }), fine)
    const seen = await check(`https://${server.authority}/`, { tls, skipSSL })
    expect(seen.codes).toEqual(codes)
    expect(seen.observed.tls).toMatchObject({ verified: false, error: 'CERT_HAS_EXPIRED' })
    expect(seen.observed.hops[0]?.tlsError).toBe('CERT_HAS_EXPIRED')
    expect(seen.observed.tls?.certificate?.subject).toBe('CN=leaf.test')
  })

  test('the alert for a missing client certificate may come late', async () => {
    const options = ['-Verify', '1', '-verify_return_error', '-tls1_3']
    await using server = await startOpensslServer(authority.issue(), authority.ca, options)
    const seen = await check(`https://127.0.0.1:${server.port}/`, { tls })
    expect(seen.codes).toEqual(['TLS_CLIENT_CERTIFICATE'])
    const client = authority.issue()
    const own = { ...tls, certificate: client.cert, privateKey: client.key }
    const shown = await check(`https://127.0.0.1:${server.port}/`, { tls: own })
    expect(shown.codes).toEqual([])
  })

  test('a way from https to http is followed and told', async () => {
    await using plain = await startHttpServer(fine)
    await using server = await startHttpsServer(authority.issue(), (_, response) => {
      response.writeHead(301, { location: `http://${plain.authority}/` }).end()
    })
    const seen = await check(`https://${server.authority}/`, { tls })
    expect(seen.codes).toEqual([])
    expect(seen.observed.hops[1]?.downgraded).toBe(true)
  })
})

describe('all addresses', () => {
  test('are probed, and one that fails fails the check', async () => {
    await using server = await startHttpServer((_, response) => response.end())
    const resolver = fixedResolver({
      'both.test': ['127.0.0.1', '127.0.0.2'],
      'one.test': ['127.0.0.1'],
    })
    const wishes = { resolver }
    const request = { allAddresses: true }
    const one = await check(`http://one.test:${server.port}/`, request, {}, wishes)
    expect(one.codes).toEqual([])
    expect(one.observed).toMatchObject({ addresses: [{ address: '127.0.0.1', failures: [] }] })
    const both = await check(`http://both.test:${server.port}/`, request, {}, wishes)
    expect(both.codes).toEqual(['CONNECT_REFUSED'])
    expect(both.failures[0]?.details).toMatchObject({ address: '127.0.0.2' })
    expect(both.observed).toMatchObject({
      addresses: [
        { address: '127.0.0.1', statusCode: 200, failures: [] },
        { address: '127.0.0.2', failures: ['CONNECT_REFUSED'] },
      ],
    })
  })

  test('of a name that does not resolve fail like one', async () => {
    const request = { allAddresses: true }
    const wishes = { resolver: fixedResolver({}), signal: deadlineAfter(40) }
    const seen = await check('http://nowhere.test/', request, {}, wishes)
    expect(seen.codes).toEqual(['TIMEOUT_DNS'])
  })
})

describe('an abort', () => {
  type Act = (socket: Socket) => void
  test.each<[string, string, Act, FailureCode]>([
    ['in the look-up', 'http://nowhere.test', () => {}, 'TIMEOUT_DNS'],
    ['in the handshake', 'https', () => {}, 'TIMEOUT_TLS'],
    ['before the first byte', 'http', () => {}, 'TIMEOUT_FIRST_BYTE'],
    [
      'in the download',
      'http',
      (socket) => socket.write(answer('200 OK\r\nContent-Length: 9')),
      'TIMEOUT_DOWNLOAD',
    ],
  ])(
    '%s leaves nothing: by the deadline a code, by cancelling the reason',
    async (_, scheme, act, code) => {
      await using server = await startRawServer(act)
      const address = scheme.includes(':') ? scheme : `${scheme}://${server.authority}/`
      const resolver = fixedResolver({ '127.0.0.1': ['127.0.0.1'] })
      const late = await check(address, {}, {}, { resolver, signal: deadlineAfter(60) })
      expect(late.codes).toEqual([code])
      expect(late.failures[0]?.details).toMatchObject({ deadlineMs: 60 })

      const controller = new AbortController()
      const reason = new Error('cancelled')
      const connected = scheme.includes(':') ? Promise.resolve() : server.connection()
      const pending = check(address, {}, {}, { resolver, signal: controller.signal })
      const outcome = expect(pending).rejects.toBe(reason)
      const socket = await connected
      const closed = new Promise((resolve) => socket?.once('close', resolve) ?? resolve(undefined))
      socket?.resume()
      controller.abort(reason)
      await outcome
      await closed
    },
  )

  test('already there stops before anything is dialled', async () => {
    await using server = await listening((await import('node:net')).createServer())
    const reason = new Error('cancelled')
    const pending = check(
      `http://${server.authority}/`,
      {},
      {},
      { signal: AbortSignal.abort(reason) },
    )
    await expect(pending).rejects.toBe(reason)
    expect(server.open()).toBe(0)
  })
})
