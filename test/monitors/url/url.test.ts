// Aim: what a URL monitor reports of phases, bodies, certificates and addresses is what happened, and its verdict
// follows from it; redirects are followed as browsers do it, and none leads past the network policy or the limit.
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import * as zlib from 'node:zlib'
import { describe, expect, test } from 'vitest'
import type { FailureCode } from '../../../src/contract/failure.ts'
import { assertion, checkUrl } from '../../support/monitors/check-monitor.ts'
import { url } from '../../../src/monitors/url/index.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { fixedResolver } from '../../support/monitors/monitor-context.ts'
import { startOpensslServer } from '../../support/monitors/ssl/openssl-server.ts'
import { startHttpServer, startHttpsServer, startRawServer } from '../../support/test-server.ts'

/** Checks a server with this answer. */
async function visit(onRequest: RequestListener, request: object = {}, more: object = {}) {
  await using server = await startHttpServer(onRequest)
  return await checkUrl(`http://${server.authority}/`, request, more)
}

const answer = (head: string, body = '') => `HTTP/1.1 ${head}\r\n\r\n${body}`

describe('answers', () => {
  test.each([
    ['gzip', zlib.gzipSync],
    ['br', zlib.brotliCompressSync],
    ['zstd', zlib.zstdCompressSync],
    ['deflate', zlib.deflateSync],
    ['deflate', zlib.deflateRawSync],
    ['gzip, br', (text: string) => zlib.brotliCompressSync(zlib.gzipSync(text))],
    ['made-up', (text: string) => Buffer.from(text)],
  ])('packed in %s are unpacked', async (name, pack) => {
    const body = pack('hello '.repeat(500))
    const { observed } = await visit((_, response) => {
      response.writeHead(500, { 'content-encoding': name, 'content-type': 'text/plain' }).end(body)
    })
    const shown = { unpackedBytes: 3000, body: 'hello '.repeat(500), bodyTruncated: false }
    expect(observed.response).toMatchObject({ bytes: body.length, ...shown })
  })

  test('the request is a plain one', async () => {
    let request: IncomingMessage | undefined
    await using server = await startHttpServer((incoming, response) => {
      request = incoming
      response.end()
    })
    await checkUrl(`http://user:pa%20ss@${server.authority}/a%20b?q=1#part`)
    expect(request).toMatchObject({ method: 'GET', url: '/a%20b?q=1' })
    expect(request?.headers).toMatchObject({
      host: server.authority,
      connection: 'close',
      'accept-encoding': 'gzip, deflate, br, zstd',
      authorization: `Basic ${Buffer.from('user:pa ss').toString('base64')}`,
      'user-agent': expect.stringMatching(/^Vedette\/\d/) as string,
    })
  })

  const below300 = assertion('STATUS_CODE  LESS_THAN 300')
  test.each<[string, number, boolean, object[], FailureCode[]]>([
    ['400 fails', 400, false, [], ['HTTP_STATUS']],
    ['500 fails', 500, false, [], ['HTTP_STATUS']],
    ['200 is fine even where it should fail', 200, true, [], []],
    ['an assertion on it holds', 404, true, [assertion('STATUS_CODE  EQUALS 404')], []],
    ['both fail', 503, false, [below300], ['HTTP_STATUS', 'ASSERTION_FAILED']],
  ])('status: %s', async (_, code, shouldFail, assertions, expected) => {
    const answering: RequestListener = (_request, response) => response.writeHead(code).end()
    const { codes, observed } = await visit(answering, { assertions }, { shouldFail })
    expect([codes, observed.statusCode]).toEqual([expected, code])
  })

  test('interim answers and what follows the end are ignored', async () => {
    const text = `${answer('103 Early Hints\r\nLink: </a>')}${answer('200 OK\r\nContent-Length: 2', 'ok')}surplus`
    await using server = await startRawServer((socket) =>
      socket.once('data', () => socket.end(text)),
    )
    const result = await checkUrl(`http://${server.authority}/`)
    expect(result.codes).toEqual([])
    expect(result.observed).toMatchObject({ statusCode: 200, response: { bytes: 2 } })
  })

  test('slow ones are degraded, too slow ones fail', async () => {
    const late: RequestListener = (_, response) => void setTimeout(() => response.end(), 20)
    const slow = await visit(late, {}, { degradedResponseTime: 5 })
    expect([slow.degraded, slow.codes]).toEqual([true, []])
    const tooSlow = await visit(late, {}, { degradedResponseTime: 1, maxResponseTime: 5 })
    expect(tooSlow.codes).toEqual(['RESPONSE_TIME_ABOVE_MAX'])
    const fine = await visit(late, {}, { degradedResponseTime: 20_000, maxResponseTime: 20_000 })
    expect([fine.degraded, fine.codes]).toEqual([false, []])
  })

  test('phases add up, each where the server made it wait', async () => {
    const { observed, responseTimeMs } = await visit((_, response) => {
      setTimeout(() => {
        response.write('a')
        setTimeout(() => response.end('b'), 30)
      }, 50)
    })
    const { dnsMs = -1, connectMs = -1, firstByteMs = -1, downloadMs = -1 } = observed.phases
    const { totalMs } = observed.phases
    expect(dnsMs).toBe(0)
    expect(firstByteMs).toBeGreaterThanOrEqual(48)
    // The first byte may be read late, the last one then comes sooner after it.
    expect(firstByteMs + downloadMs).toBeGreaterThanOrEqual(78)
    expect(downloadMs).toBeGreaterThan(5)
    // Each is rounded to microseconds by itself.
    const sumMs = dnsMs + connectMs + firstByteMs + downloadMs
    expect(Math.abs(totalMs - sumMs)).toBeLessThan(0.005)
    expect(Math.abs(totalMs - (responseTimeMs as number))).toBeLessThan(0.001)
  })
})

describe('TLS', () => {
  const authority = createAuthority()
  const tls = { ca: authority.ca }
  const fine = (_: IncomingMessage, response: ServerResponse) => void response.end('ok')

  test('the certificate is on record, and its metrics', async () => {
    await using server = await startHttpsServer(authority.issue(), fine)
    const result = await checkUrl(`https://${server.authority}/`, { tls })
    expect(result.codes).toEqual([])
    expect(result.observed.tls).toMatchObject({ verified: true, alpn: 'http/1.1', daysLeft: 29 })
    expect(result.observed.phases.tlsMs).toBeGreaterThan(0)
    const names = url.samples(result.observed as unknown as Record<string, unknown>)
    const expiry = Date.parse(result.observed.tls?.earliestExpiry as string) / 1000
    expect(names).toContainEqual({ name: 'probe_http_ssl', value: 1 })
    expect(names).toContainEqual({ name: 'probe_ssl_earliest_cert_expiry', value: expiry })
    const labels = { version: 'TLS 1.3' }
    expect(names).toContainEqual({ name: 'probe_tls_version_info', value: 1, labels })
  })

  test.each<[string, boolean, FailureCode[]]>([
    ['fails', false, ['TLS_EXPIRED']],
    ['passes with skipSSL', true, []],
  ])('an expired certificate %s, its facts in hand', async (_, skipSSL, codes) => {
    await using server = await startHttpsServer(authority.issue({ fromDays: -9, toDays: -2 }), fine)
    const result = await checkUrl(`https://${server.authority}/`, { tls, skipSSL })
    expect(result.codes).toEqual(codes)
    expect(result.observed.tls).toMatchObject({ verified: false, error: 'CERT_HAS_EXPIRED' })
    expect(result.observed.hops[0]?.tlsError).toBe('CERT_HAS_EXPIRED')
    expect(result.observed.tls?.certificate?.subject).toBe('CN=leaf.test')
  })

  test('the alert for a missing client certificate may come late', async () => {
    const options = ['-Verify', '1', '-verify_return_error', '-tls1_3']
    await using server = await startOpensslServer(authority.issue(), authority.ca, options)
    const result = await checkUrl(`https://127.0.0.1:${server.port}/`, { tls })
    expect(result.codes).toEqual(['TLS_CLIENT_CERTIFICATE'])
    const client = authority.issue()
    const own = { ...tls, certificate: client.cert, privateKey: client.key }
    const shown = await checkUrl(`https://127.0.0.1:${server.port}/`, { tls: own })
    expect(shown.codes).toEqual([])
  })
})

test('all addresses are probed, and one that fails fails the check', async () => {
  await using server = await startHttpServer((_, response) => response.end())
  const resolver = fixedResolver({ 'both.test': ['127.0.0.1', '127.0.0.2'] })
  const address = `http://both.test:${server.port}/`
  // A missing answer is no pass, even with `shouldFail`.
  const more = { shouldFail: true }
  const both = await checkUrl(address, { allAddresses: true }, more, { resolver })
  expect(both.failures).toMatchObject([
    { code: 'CONNECT_REFUSED', details: { address: '127.0.0.2' } },
  ])
  expect(both.observed).toMatchObject({
    addresses: [
      { address: '127.0.0.1', statusCode: 200, failures: [] },
      { address: '127.0.0.2', failures: ['CONNECT_REFUSED'] },
    ],
  })
})

test('secrets of the redirects of all addresses are known to the run', async () => {
  await using server = await startHttpServer((request, response) => {
    if (request.url !== '/') response.end()
    else response.writeHead(302, { location: '/?token=of-a-redirect', 'set-cookie': 'a=b' }).end()
  })
  const resolver = fixedResolver({ 'one.test': ['127.0.0.1'] })
  const address = `http://one.test:${server.port}/`
  const { undisclosed } = await checkUrl(address, { allAddresses: true }, {}, { resolver })
  expect(undisclosed).toMatchObject({
    addresses: [
      {
        locations: [`${address}?token=of-a-redirect`],
        received: expect.arrayContaining([{ header: 'set-cookie', value: 'a=b' }]),
      },
    ],
  })
})

test('the URL of a redirect that is not followed is known to the run', async () => {
  await using server = await startHttpServer((_, response) => {
    response.writeHead(302, { location: 'https://files.test/a?X-Amz-Signature=5f2a' }).end()
  })
  const { undisclosed } = await checkUrl(`http://${server.authority}/`, { followRedirects: false })
  expect(undisclosed).toMatchObject({
    locations: ['https://files.test/a?X-Amz-Signature=5f2a'],
  })
})

test('headers of interim answers, all of a name, and trailers are known to the run', async () => {
  await using server = await startRawServer((socket) => {
    const interim = 'HTTP/1.1 103 Early Hints\r\nX-Token: of-hints\r\n\r\n'
    const twice = 'Authorization: first\r\nAuthorization: second\r\n'
    const head = `HTTP/1.1 200 OK\r\n${twice}Transfer-Encoding: chunked\r\n\r\n`
    socket.once('data', () => socket.end(`${interim}${head}0\r\nX-Token: of-the-end\r\n\r\n`))
  })
  const { codes, undisclosed } = await checkUrl(`http://${server.authority}/`)
  expect(codes).toEqual([])
  expect(undisclosed?.['received']).toEqual([
    { header: 'X-Token', value: 'of-hints' },
    { header: 'Authorization', value: 'first' },
    { header: 'Authorization', value: 'second' },
    { header: 'Transfer-Encoding', value: 'chunked' },
    { header: 'X-Token', value: 'of-the-end' },
  ])
})

test.each([
  ['with headers', `HTTP/1.1 103 Early Hints\r\nLink: ${'x'.repeat(1024)}\r\n\r\n`, 100],
  ['without headers', 'HTTP/1.1 100 Continue\r\n\r\n', 3000],
])('interim answers %s are limited together, as one head is', async (_, interim, count) => {
  const whole = interim.repeat(count) + answer('204 No Content')
  await using server = await startRawServer((socket) => {
    socket.once('data', () => socket.end(whole))
  })
  const { codes } = await checkUrl(`http://${server.authority}/`)
  expect(codes).toEqual(['HTTP_HEADERS_TOO_LARGE'])
})

test('addresses of which one is forbidden are not probed in part', async () => {
  const resolver = fixedResolver({ 'half.test': ['127.0.0.1', '169.254.169.254'] })
  const result = await checkUrl('http://half.test/', { allAddresses: true }, {}, { resolver })
  expect(result.codes).toEqual(['ADDRESS_BLOCKED'])
  expect(result.observed.hops).toMatchObject([{ url: 'http://half.test/' }])
})

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
    const result = await checkUrl(`http://${other.authority}/`)
    expect(result.codes).toEqual([])
    expect(result.observed.redirects).toBe(1)
    expect(result.observed.hops).toMatchObject([
      { statusCode: 302, location: `http://${server.authority}/end`, address: '127.0.0.1' },
      { statusCode: 200, url: `http://${server.authority}/end` },
    ])
    const relative = await checkUrl(`http://${server.authority}/a`)
    expect(relative.observed.hops[0]?.location).toBe(`http://${server.authority}/b`)
  })

  test('ten are followed, eleven are too many', async () => {
    const routes = Array.from({ length: 11 }, (_, n) => [`/${n + 1}`, to(`/${n}`)] as const)
    await using server = await serve(Object.fromEntries(routes))
    const ten = await checkUrl(`http://${server.authority}/10`)
    expect([ten.codes, ten.observed.redirects]).toEqual([[], 10])
    const eleven = await checkUrl(`http://${server.authority}/11`)
    expect(eleven.codes).toEqual(['HTTP_REDIRECT_LIMIT'])
    expect(eleven.observed.hops).toHaveLength(11)
  })

  test('are found behind more than a thousand lines of headers', async () => {
    const many = Array.from({ length: 1100 }, () => ['X-A', 'b']).flat()
    await using server = await serve({
      '/': (_, response) => response.writeHead(302, [...many, 'Location', '/a']).end(),
    })
    const result = await checkUrl(`http://${server.authority}/`)
    expect(result.codes).toEqual([])
    expect(result.observed.redirects).toBe(1)
  })

  test('are the answer where they are not followed', async () => {
    await using server = await serve({ '/': to('/a') })
    const result = await checkUrl(`http://${server.authority}/`, { followRedirects: false })
    expect(result.codes).toEqual([])
    expect(result.observed).toMatchObject({ statusCode: 302, redirects: 0 })
  })

  test('carry the cookies that they set', async () => {
    let cookie: string | undefined
    const cookies = ['a=1; Path=/', 'b=2; Path=/other', 'c=3; Domain=evil.test']
    await using server = await serve({
      '/': to('/next', { 'set-cookie': cookies }),
      '/next': (request, response) => {
        cookie = request.headers.cookie
        response.end()
      },
    })
    await checkUrl(`http://${server.authority}/`)
    expect(cookie).toBe('a=1')
  })

  test('carry Secure cookies over TLS alone, on loopback as well', async () => {
    const set = { 'set-cookie': ['a=1; Secure', 'b=2'] }
    let sent: string | undefined
    await using plain = await serve({
      '/set': to('/', set),
      '/': (request, response) => {
        sent = request.headers.cookie
        response.end()
      },
    })
    await checkUrl(`http://${plain.authority}/set`)
    expect(sent).toBe('b=2')
    const authority = createAuthority()
    let secured: string | undefined
    await using secure = await startHttpsServer(authority.issue(), (request, response) => {
      secured = request.headers.cookie
      const next = { '/': '/next', '/next': `http://${plain.authority}/` }[request.url as string]
      response.writeHead(302, { location: next, ...set }).end()
    })
    const tls = { ca: authority.ca }
    const { observed } = await checkUrl(`https://${secure.authority}/`, { tls })
    expect(observed.hops).toMatchObject([{}, {}, { downgraded: true }])
    expect([secured, sent]).toEqual(['a=1; b=2', 'b=2'])
  })

  test('a name that leads to a blocked address is stopped at its hop', async () => {
    await using server = await serve({ '/': to('http://rebound.test/latest/meta-data') })
    const resolver = fixedResolver({ 'rebound.test': ['169.254.169.254'] })
    const result = await checkUrl(`http://${server.authority}/`, {}, {}, { resolver })
    expect(result.codes).toEqual(['ADDRESS_BLOCKED'])
    expect(result.failures[0]?.details).toMatchObject({ address: '169.254.169.254', hop: 1 })
  })
})
