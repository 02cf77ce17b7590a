// Aim: over TLS, URL and API monitors speak the protocol that the server selects, and what they send, follow and
// report over HTTP/2 is what it is over HTTP/1.1.
import { once } from 'node:events'
import type { Http2ServerRequest, Http2ServerResponse, ServerHttp2Stream } from 'node:http2'
import type { TLSSocket } from 'node:tls'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { LIMITS } from '../../../src/contract/versions.ts'
import { api } from '../../../src/monitors/api/index.ts'
import { url } from '../../../src/monitors/url/index.ts'
import { checkMonitor } from '../../support/monitors/check-monitor.ts'
import { checkUrl } from '../../support/monitors/check-monitor.ts'
import { deadlineAfter } from '../../support/monitors/monitor-context.ts'
import { missing } from '../../support/needs.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { startConnectProxy } from '../../support/network/connect-proxy.ts'
import { startTlsNginx } from '../../support/network/nginx-tls.ts'
import { eventually } from '../../support/eventually.ts'
import { startHttp2Server, startHttpsServer, type TestServer } from '../../support/test-server.ts'

const authority = createAuthority()
const pair = authority.issue()
const tls = { ca: authority.ca }

type Answer = (request: Http2ServerRequest, response: Http2ServerResponse) => void
const serve = (answer: Answer) => startHttp2Server(pair, answer)
const fine: Answer = (_, response) => void response.end('ok')
const address = (server: TestServer, path = '/') => `https://${server.authority}${path}`

const checkApi = (server: TestServer, request: object) =>
  checkMonitor(api, { method: 'GET', url: address(server), tls, ...request })

const headerPairs = (headers: Record<string, string>) =>
  Object.entries(headers).map(([key, value]) => ({ key, value }))

const why = missing('nginx')

describe('the protocol', () => {
  test('is HTTP/2 where the server offers nothing else', async () => {
    await using server = await serve((_, response) => {
      response.writeHead(201, { 'X-Own': 'a', 'set-cookie': ['a=b', 'c=d'] }).end('created')
    })
    const result = await checkUrl(address(server), { tls })
    expect(result.codes).toEqual([])
    const { observed } = result
    expect(observed).toMatchObject({
      httpVersion: '2',
      statusCode: 201,
      tls: { alpn: 'h2', protocol: 'TLSv1.3' },
      response: { bytes: 7, headers: { 'x-own': 'a', 'set-cookie': ['a=b', 'c=d'] } },
    })
    expect(observed.statusMessage).toBeUndefined()
    const headers = observed.response?.headers ?? {}
    expect(Object.keys(headers).filter((name) => !/^[a-z-]+$/.test(name))).toEqual([])
    const samples = url.samples({ ...observed })
    expect(samples).toContainEqual({ name: 'probe_http_version', value: 2 })
    expect(samples).toContainEqual({ name: 'probe_http_ssl', value: 1 })
    await eventually(() => server.open() === 0)
  })

  test.each([
    ['an origin of HTTP/1.1 that knows no ALPN', { ALPNProtocols: undefined }],
    ['an origin that selects HTTP/1.1', { ALPNProtocols: ['http/1.1'] }],
  ])('is HTTP/1.1 with %s', async (_, options) => {
    await using server = await startHttpsServer({ ...pair, ...options }, (_request, response) =>
      response.end('ok'),
    )
    const { codes, observed } = await checkUrl(address(server), { tls })
    expect([codes, observed.httpVersion, observed.statusMessage]).toEqual([[], '1.1', 'OK'])
  })

  test('is HTTP/1.1 where a header asks for another one', async () => {
    await using server = await startHttp2Server(
      { ...pair, allowHTTP1: true },
      (request, response) => response.end(request.httpVersion),
    )
    const headers = headerPairs({ Upgrade: 'foo', Connection: 'Upgrade' })
    const { observed } = await checkApi(server, { headers })
    expect(observed).toMatchObject({ httpVersion: '1.1', response: { body: '1.1' } })
  })

  test('is HTTP/1.1 where the server requires it', async () => {
    const versions: string[] = []
    await using server = await startHttp2Server(
      { ...pair, allowHTTP1: true },
      (request, response) => {
        versions.push(request.httpVersion)
        if (request.httpVersion === '2.0') request.stream.close(13)
        else response.end('ok')
      },
    )
    const { codes, observed } = await checkUrl(address(server), { tls })
    expect(codes).toEqual([])
    expect(versions).toEqual(['2.0', '1.1'])
    expect(observed).toMatchObject({ httpVersion: '1.1', redirects: 0, tls: { alpn: 'http/1.1' } })
    const {
      dnsMs = 0,
      connectMs = 0,
      tlsMs = 0,
      firstByteMs = 0,
      downloadMs = 0,
      totalMs,
    } = observed.phases
    const sumMs = dnsMs + connectMs + tlsMs + firstByteMs + downloadMs
    expect(Math.abs(totalMs - sumMs)).toBeLessThan(0.01)
  })

  test.skipIf(why !== undefined)(`is HTTP/2 with nginx ${why ?? ''}`, async () => {
    const nginx = await startTlsNginx(pair, 'TLSv1.2 TLSv1.3', true)
    try {
      const to = `https://127.0.0.1:${nginx.port}/none`
      const { codes, observed } = await checkUrl(to, { tls }, { shouldFail: true })
      expect([codes, observed.httpVersion, observed.statusCode]).toEqual([[], '2', 404])
      expect(observed.response?.headers['server']).toContain('nginx')
      const posted = await checkMonitor(api, {
        method: 'POST',
        url: to,
        tls,
        body: 'x'.repeat(100_000),
        bodyType: 'RAW',
        assertions: [{ source: 'STATUS_CODE', comparison: 'EQUALS', target: '404' }],
      })
      expect(posted.codes).toEqual(['HTTP_STATUS'])
      expect(posted.observed['httpVersion']).toBe('2')
    } finally {
      await nginx.close()
    }
  })

  test('goes through the tunnel of a proxy', async () => {
    await using server = await serve(fine)
    await using proxy = await startConnectProxy()
    const options = { proxyUrl: `http://${proxy.authority}` }
    const { codes, observed } = await checkUrl(address(server), { tls }, {}, options)
    expect([codes, observed.httpVersion]).toEqual([[], '2'])
    expect(proxy.requestLines).toEqual([`CONNECT ${server.authority}`])
  })

  test('leaves the settings of TLS as they are', async () => {
    await using server = await startHttp2Server(
      { ...pair, maxVersion: 'TLSv1.2' },
      (request, response) => response.end(String((request.socket as TLSSocket).servername)),
    )
    const refused = await checkUrl(address(server), { tls: { ...tls, minVersion: 'TLSv1.3' } })
    expect(refused.codes).toEqual(['TLS_PROTOCOL'])
    const named = { ...tls, serverName: 'localhost' }
    const { observed } = await checkApi(server, { tls: named })
    expect(observed).toMatchObject({
      tls: { protocol: 'TLSv1.2' },
      response: { body: 'localhost' },
    })
  })

  test('leaves client certificates as they are', async () => {
    const own = authority.issue({ subject: '/CN=client' })
    await using server = await startHttp2Server(
      { ...pair, ca: authority.ca, requestCert: true, rejectUnauthorized: true },
      fine,
    )
    const without = await checkUrl(address(server), { tls })
    expect(without.codes).toEqual(['TLS_CLIENT_CERTIFICATE'])
    const certificate = { certificate: own.cert, privateKey: own.key }
    const { codes, observed } = await checkUrl(address(server), { tls: { ...tls, ...certificate } })
    expect([codes, observed.httpVersion]).toEqual([[], '2'])
  })
})

describe('a request', () => {
  async function received(request: object) {
    const seen: { method?: string; headers?: object; raw?: string[]; body: string } = { body: '' }
    await using server = await serve((incoming, response) => {
      seen.method = incoming.method
      seen.headers = incoming.headers
      seen.raw = incoming.rawHeaders
      incoming.on('data', (chunk: Buffer) => (seen.body += chunk.toString()))
      incoming.on('end', () => response.end())
    })
    const { codes, observed } = await checkApi(server, request)
    expect([codes, observed['httpVersion']]).toEqual([[], '2'])
    return { ...seen, authority: server.authority }
  }

  test.each(['GET', 'POST', 'PUT', 'HEAD', 'DELETE', 'PATCH', 'OPTIONS'])(
    'of %s',
    async (method) => {
      const body = { body: '{"a":"é"}', bodyType: 'JSON' }
      const seen = await received({ method, ...body })
      expect(seen).toMatchObject({ method, body: '{"a":"é"}' })
      expect(seen.headers).toMatchObject({
        ':authority': seen.authority,
        ':scheme': 'https',
        'accept-encoding': 'gzip, deflate, br, zstd',
        'content-length': '10',
        'content-type': 'application/json',
      })
    },
  )

  test('without a body says so, where the method usually has one', async () => {
    const { headers } = await received({ method: 'POST' })
    expect(headers).toMatchObject({ 'content-length': '0' })
  })

  test('has the headers of the user, but those of an HTTP/1.1 connection', async () => {
    const headers = [
      ...headerPairs({ Connection: 'close', 'Keep-Alive': 'max=1', TE: 'gzip', Host: 'own.test' }),
      ...headerPairs({ 'X-Own': 'a', Cookie: 'a=b' }),
      ...headerPairs({ 'x-own': 'c', 'Content-Type': 'text/a' }),
      ...headerPairs({ 'content-type': 'text/b' }),
    ]
    const seen = await received({ headers, basicAuth: { username: 'u', password: 'p' } })
    expect(seen.headers).toMatchObject({
      ':authority': 'own.test',
      'x-own': 'a, c',
      cookie: 'a=b',
      authorization: `Basic ${Buffer.from('u:p').toString('base64')}`,
    })
    expect(seen.raw).not.toContain('host')
    expect(seen.raw).not.toContain('connection')
    expect(seen.raw).not.toContain('te')
    expect(seen.raw?.filter((one) => one.startsWith('text/'))).toEqual(['text/a', 'text/b'])
  })

  test('of large headers is sent', async () => {
    const settings = { maxHeaderListSize: 300_000 }
    await using server = await startHttp2Server({ ...pair, settings }, (incoming, response) =>
      response.end(String(incoming.rawHeaders.join('').length > 100_000)),
    )
    const value = 'x'.repeat(30_000)
    const headers = headerPairs({ 'X-A': value, 'X-B': value, 'X-C': value, 'X-D': value })
    const { observed } = await checkApi(server, { headers })
    expect(observed).toMatchObject({ response: { body: 'true' } })
  })

  test('of a large body is sent whole, and its phase is shown', async () => {
    const body = 'x'.repeat(3_000_000)
    let bytes = 0
    await using server = await serve((incoming, response) => {
      incoming.on('data', (chunk: Buffer) => (bytes += chunk.length))
      incoming.on('end', () => response.end())
    })
    const { observed } = await checkApi(server, { method: 'POST', body, bodyType: 'RAW' })
    expect(bytes).toBe(body.length)
    expect((observed['phases'] as { sendMs: number }).sendMs).toBeGreaterThan(0)
  })

  test('that is answered before it was sent is a complete one', async () => {
    await using server = await serve((_, response) => {
      response.writeHead(413).end('too large', () => response.stream.close(0))
    })
    const body = { body: 'x'.repeat(3_000_000), bodyType: 'RAW' }
    const { codes, observed } = await checkApi(server, { method: 'POST', ...body })
    expect([codes, observed['statusCode']]).toEqual([['HTTP_STATUS'], 413])
  })
})

describe('an answer', () => {
  test('has honest phases', async () => {
    await using server = await serve((_, response) => {
      response.stream.additionalHeaders({ ':status': 103, link: '</a>' })
      setTimeout(() => {
        response.write('a')
        setTimeout(() => response.end('b'), 100)
      }, 50)
    })
    const { observed, responseTimeMs } = await checkUrl(address(server), { tls })
    const {
      dnsMs = -1,
      connectMs = -1,
      tlsMs = -1,
      firstByteMs = -1,
      downloadMs = -1,
      totalMs,
    } = observed.phases
    expect(firstByteMs).toBeGreaterThanOrEqual(48)
    // The first byte may be seen late.
    expect(downloadMs).toBeGreaterThanOrEqual(50)
    const sumMs = dnsMs + connectMs + tlsMs + firstByteMs + downloadMs
    expect(Math.abs(totalMs - sumMs)).toBeLessThan(0.01)
    expect(Math.abs(totalMs - (responseTimeMs as number))).toBeLessThan(0.001)
  })

  test('may have interim headers and trailers', async () => {
    await using server = await serve((_, response) => {
      response.writeContinue()
      response.stream.additionalHeaders({ ':status': 103, link: '</a>' })
      response.writeHead(200, { trailer: 'x-sum' })
      response.addTrailers({ 'x-sum': '1' })
      response.end('ok')
    })
    const { codes, observed } = await checkUrl(address(server), { tls })
    expect(codes).toEqual([])
    expect(observed).toMatchObject({ statusCode: 200, response: { bytes: 2 } })
  })

  test.each<[string, string, number, Record<string, number>]>([
    ['of HEAD with a length', 'HEAD', 200, { 'content-length': 5 }],
    ['304 with a length', 'GET', 304, { 'content-length': 5 }],
    ['204', 'GET', 204, {}],
    ['without a body', 'GET', 200, {}],
  ])('%s is complete', async (_, method, status, headers) => {
    await using server = await serve((_request, response) =>
      response.writeHead(status, headers).end(),
    )
    const { codes, observed } = await checkApi(server, { method })
    expect([codes, observed['statusCode']]).toEqual([[], status])
  })

  test.each([
    [4, 20_000],
    [2100, 1],
  ])('with %d headers of %d bytes has too large a head', async (count, bytes) => {
    const names = Array.from({ length: count }, (_, at) => `x-${at}`)
    const headers = Object.fromEntries(names.map((name) => [name, 'x'.repeat(bytes)]))
    const options = { ...pair, maxSendHeaderBlockLength: 1_000_000 }
    await using server = await startHttp2Server(options, (_, response) =>
      response.writeHead(200, headers).end(),
    )
    expect((await checkUrl(address(server), { tls })).codes).toEqual(['HTTP_HEADERS_TOO_LARGE'])
  })

  test('is unpacked and evaluated', async () => {
    const body = gzipSync(JSON.stringify({ status: 'ok', pad: 'x'.repeat(5000) }))
    await using server = await serve((_, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip', 'content-type': 'application/json' })
      response.end(body)
    })
    const status = { source: 'JSON_BODY', property: '$.status', comparison: 'EQUALS', target: 'ok' }
    const header = { source: 'HEADERS', property: 'Content-Encoding', comparison: 'EQUALS' }
    const assertions = [status, { ...header, target: 'gzip' }]
    const { codes, observed } = await checkApi(server, { assertions })
    expect(codes).toEqual([])
    expect(observed).toMatchObject({ response: { bytes: body.length, encodings: ['gzip'] } })
  })

  test('is read to its end where the server closes the connection behind it', async () => {
    const body = gzipSync(
      Buffer.from(Array.from({ length: 2_000_000 }, (_, at) => (at * at) % 251)),
    )
    await using server = await serve((_, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' })
      response.end(body, () => response.stream.session?.close())
    })
    const { codes, observed } = await checkUrl(address(server), { tls })
    expect(codes).toEqual([])
    expect(observed.response).toMatchObject({ bytes: body.length, unpackedBytes: 2_000_000 })
  })

  test('larger than the window arrives whole', async () => {
    const body = Buffer.alloc(LIMITS.bodyBytesMax - 1, 'x')
    await using server = await serve((_, response) => response.end(body))
    const { codes, observed } = await checkUrl(address(server), { tls })
    expect([codes, observed.response?.bytes]).toEqual([[], body.length])
  })
})

describe('redirects', () => {
  test('select the protocol anew at each hop, and carry cookies', async () => {
    let cookies: unknown[] = []
    await using last = await serve((request, response) => {
      cookies.push(request.headers.cookie)
      response.end('ok')
    })
    await using middle = await startHttpsServer(pair, (request, response) => {
      cookies.push(request.headers.cookie)
      response.writeHead(307, { location: address(last) }).end()
    })
    await using first = await serve((request, response) => {
      const location = request.url === '/' ? '/ä' : address(middle)
      response.writeHead(302, { location: Buffer.from(location).toString('latin1') })
      response.end('moved')
    })
    const { codes, observed } = await checkUrl(address(first), { tls })
    expect([codes, observed.httpVersion, observed.redirects]).toEqual([[], '2', 3])
    expect(observed.hops.map((hop) => hop.statusCode)).toEqual([302, 302, 307, 200])
    expect(observed.hops[1]?.url).toBe(address(first, '/%C3%A4'))
    cookies = []
    await using setting = await serve((request, response) => {
      const more = { 'set-cookie': ['a=1; Secure', 'b=2'] }
      if (request.url === '/') response.writeHead(302, { location: '/next', ...more }).end()
      else response.end(String(request.headers.cookie))
    })
    const carried = await checkApi(setting, {})
    expect(carried.observed).toMatchObject({ response: { body: 'a=1; b=2' } })
  })
})

test('a deadline ends a slow answer in its phase, and leaves no connection', async () => {
  let stream: ServerHttp2Stream | undefined
  await using server = await serve((_, response) => {
    stream = response.stream
    response.write('a')
  })
  const options = { signal: deadlineAfter(300) }
  const { codes } = await checkUrl(address(server), { tls }, {}, options)
  expect(codes).toEqual(['TIMEOUT_DOWNLOAD'])
  if (stream?.closed === false) await once(stream, 'close')
  await eventually(() => server.open() === 0)
})
