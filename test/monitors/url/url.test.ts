// Aim: what a URL monitor reports of phases, bodies, certificates and addresses is what happened, and its
// verdict follows from it.
import type { IncomingMessage, ServerResponse } from 'node:http'
import * as zlib from 'node:zlib'
import { describe, expect, test } from 'vitest'
import type { FailureCode } from '../../../src/contract/failure.ts'
import { url } from '../../../src/monitors/url/index.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { checkUrl } from '../../support/monitors/check-url.ts'
import { deadlineAfter, fixedResolver } from '../../support/monitors/monitor-context.ts'
import { startOpensslServer } from '../../support/monitors/ssl/openssl-server.ts'
import { startHttpServer, startHttpsServer, startRawServer } from '../../support/test-server.ts'

const answer = (head: string, body = '') => `HTTP/1.1 ${head}\r\n\r\n${body}`

describe('answers', () => {
  test.each([
    ['identity', (text: string) => Buffer.from(text)],
    ['gzip', zlib.gzipSync],
    ['br', zlib.brotliCompressSync],
    ['zstd', zlib.zstdCompressSync],
    ['deflate', zlib.deflateSync],
    ['deflate', zlib.deflateRawSync],
    ['gzip, br', (text: string) => zlib.brotliCompressSync(zlib.gzipSync(text))],
    ['made-up', (text: string) => Buffer.from(text)],
  ])('packed in %s are unpacked', async (name, pack) => {
    const body = pack('hello '.repeat(500))
    await using server = await startHttpServer((_, response) => {
      response.writeHead(500, { 'content-encoding': name, 'content-type': 'text/plain' })
      response.end(body)
    })
    const result = await checkUrl(`http://${server.authority}/`)
    expect(result.observed.response).toMatchObject({ bytes: body.length, unpackedBytes: 3000 })
    expect(result.observed.response?.body).toBe('hello '.repeat(500))
    expect(result.observed.response?.bodyTruncated).toBe(false)
  })

  test('the request is a plain one', async () => {
    let request: IncomingMessage | undefined
    await using server = await startHttpServer((incoming, response) => {
      request = incoming
      response.end()
    })
    await checkUrl(`http://user:pa%20ss@${server.authority}/a%20b?q=1#part`)
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
    ['both fail', 503, false, [status('LESS_THAN', 300)], ['HTTP_STATUS', 'ASSERTION_FAILED']],
  ])('status: %s', async (_, code, shouldFail, assertions, expected) => {
    await using server = await startHttpServer((_request, response) =>
      response.writeHead(code).end(),
    )
    const result = await checkUrl(`http://${server.authority}/`, { assertions }, { shouldFail })
    expect(result.codes).toEqual(expected)
    expect(result.observed.statusCode).toBe(code)
  })

  test('a refused connection fails even where it should fail', async () => {
    const server = await startRawServer(() => {})
    await server.close()
    const result = await checkUrl(`http://${server.authority}/`, {}, { shouldFail: true })
    expect(result.codes).toEqual(['CONNECT_REFUSED'])
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

  test('odd headers harm nobody', async () => {
    const odd =
      'X: 1\r\nX: 2\r\n__proto__: y\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\nEmpty:\r\nLatin: \xe9'
    await using server = await startRawServer((socket) =>
      socket.once('data', () => socket.end(Buffer.from(answer(`200 OK\r\n${odd}`), 'latin1'))),
    )
    const result = await checkUrl(`http://${server.authority}/`)
    expect(result.codes).toEqual([])
    const headers = { x: '1, 2', 'set-cookie': ['a=b', 'c=d'] }
    expect(result.observed.response?.headers).toMatchObject(headers)
  })

  test('slow ones are degraded, too slow ones fail', async () => {
    await using server = await startHttpServer(
      (_, response) => void setTimeout(() => response.end(), 20),
    )
    const address = `http://${server.authority}/`
    const slow = await checkUrl(address, {}, { degradedResponseTime: 5 })
    expect([slow.degraded, slow.codes]).toEqual([true, []])
    const tooSlow = await checkUrl(address, {}, { degradedResponseTime: 1, maxResponseTime: 5 })
    expect(tooSlow.codes).toEqual(['RESPONSE_TIME_ABOVE_MAX'])
    const most = { degradedResponseTime: 20_000, maxResponseTime: 20_000 }
    const fine = await checkUrl(address, {}, most)
    expect([fine.degraded, fine.codes]).toEqual([false, []])
  })

  test('phases add up, each where the server made it wait', async () => {
    await using server = await startHttpServer((_, response) => {
      setTimeout(() => {
        response.write('a')
        setTimeout(() => response.end('b'), 30)
      }, 50)
    })
    const { observed, responseTimeMs } = await checkUrl(`http://${server.authority}/`)
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

function status(comparison: string, target: number) {
  return { source: 'STATUS_CODE', comparison, target }
}

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

  test('a redirect from https to http is followed and reported', async () => {
    await using plain = await startHttpServer(fine)
    await using server = await startHttpsServer(authority.issue(), (_, response) => {
      response.writeHead(301, { location: `http://${plain.authority}/` }).end()
    })
    const result = await checkUrl(`https://${server.authority}/`, { tls })
    expect(result.codes).toEqual([])
    expect(result.observed.hops[1]?.downgraded).toBe(true)
  })
})

describe('all addresses', () => {
  test('are probed, and one that fails fails the check', async () => {
    await using server = await startHttpServer((_, response) => response.end())
    const names = { 'both.test': ['127.0.0.1', '127.0.0.2'], 'one.test': ['127.0.0.1'] }
    const options = { resolver: fixedResolver(names) }
    const request = { allAddresses: true }
    const one = await checkUrl(`http://one.test:${server.port}/`, request, {}, options)
    expect(one.codes).toEqual([])
    expect(one.observed).toMatchObject({ addresses: [{ address: '127.0.0.1', failures: [] }] })
    const both = await checkUrl(`http://both.test:${server.port}/`, request, {}, options)
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
    const options = { resolver: fixedResolver({}), signal: deadlineAfter(40) }
    const result = await checkUrl('http://nowhere.test/', request, {}, options)
    expect(result.codes).toEqual(['TIMEOUT_DNS'])
    expect(result.observed.hops).toMatchObject([{ url: 'http://nowhere.test/' }])
  })

  test('one of which is forbidden are not probed in part', async () => {
    await using server = await startHttpServer((_, response) => response.end('ok'))
    const resolver = fixedResolver({ 'half.test': ['127.0.0.1', '169.254.169.254'] })
    const address = `http://half.test:${server.port}/`
    const result = await checkUrl(address, { allAddresses: true }, {}, { resolver })
    expect(result.codes).toEqual(['ADDRESS_BLOCKED'])
  })
})
