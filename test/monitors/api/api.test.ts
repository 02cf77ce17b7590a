// Aim: what an API monitor's definition says is what goes over the wire, secrets stay with their origin,
// and assertions see all of the answer.
import type { IncomingHttpHeaders } from 'node:http'
import { describe, expect, test } from 'vitest'
import { api } from '../../../src/monitors/api/index.ts'
import type { HttpObserved } from '../../../src/monitors/http/observed.ts'
import { DeadlineReached } from '../../../src/network/deadline.ts'
import { assertion, checkMonitor, codesOf } from '../../support/monitors/check-monitor.ts'
import type { ContextOptions } from '../../support/monitors/monitor-context.ts'
import { startHttpServer, startRawServer, type TestServer } from '../../support/test-server.ts'

interface Received {
  method: string
  url: string
  headers: IncomingHttpHeaders
  body: string
}

/** A server that keeps what it gets; paths like /307?to=… redirect. */
async function startEcho(): Promise<TestServer & { received: Received[] }> {
  const received: Received[] = []
  const server = await startHttpServer((request, response) => {
    let body = ''
    request.on('data', (chunk: Buffer) => (body += chunk.toString()))
    request.on('end', () => {
      const { method = '', url = '', headers } = request
      received.push({ method, url, headers, body })
      const redirect = /^\/(30\d)\?to=(.*)$/.exec(url)
      if (redirect !== null) {
        const location = decodeURIComponent(redirect[2] as string)
        response.writeHead(Number(redirect[1]), { location }).end()
        return
      }
      response.setHeader('content-type', 'application/json')
      response.setHeader('x-list', ['a', 'b'])
      response.end(JSON.stringify({ method, status: 'ok', items: [1, 2, 3] }))
    })
  })
  return Object.assign(server, { received })
}

async function check(request: object, more: object = {}, options: ContextOptions = {}) {
  const signal = options.signal ?? new AbortController().signal
  const outcome = await checkMonitor(api, { method: 'GET', ...request }, more, { signal })
  return { ...outcome, observed: outcome.observed as unknown as HttpObserved }
}

/** The outcome of a request to the path of such a server, and what it has received. */
async function exchange(request: object, path = '/') {
  await using server = await startEcho()
  const outcome = await check({ url: `http://${server.authority}${path}`, ...request })
  return { ...outcome, received: server.received }
}

const pair = (key: string, value: string, locked = false) => ({ key, value, locked })
const pairs = (all: Record<string, string>) =>
  Object.entries(all).map(([key, value]) => pair(key, value))

describe('requests', () => {
  test.each([
    ['JSON', '{"a":1}', '{"a":1}', 'application/json'],
    ['FORM', 'a=1&b=2', 'a=1&b=2', 'application/x-www-form-urlencoded'],
    ['RAW', 'grüße', 'grüße', 'text/plain'],
    ['GRAPHQL', '{ me { id } }', '{"query":"{ me { id } }"}', 'application/json'],
    ['GRAPHQL', '{"query":"{ me }"}', '{"query":"{ me }"}', 'application/json'],
    ['NONE', 'ignored', '', undefined],
  ])('a body of type %s', async (bodyType, body, expected, contentType) => {
    const { codes, received } = await exchange({ method: 'POST', bodyType, body })
    expect([codes, received[0]?.body]).toEqual([[], expected])
    const { 'content-type': type, 'content-length': length } = received[0]?.headers ?? {}
    expect([type, length]).toEqual([contentType, String(Buffer.byteLength(expected))])
  })

  test('what the user says in headers wins', async () => {
    const own = { 'content-type': 'a/b', 'user-agent': 'c', host: 'd.test', authorization: 'e' }
    const headers = pairs({ ...own, 'Content-Length': '999' })
    const basicAuth = { username: 'u', password: 'p' }
    const request = { method: 'POST', bodyType: 'JSON', body: '{}', headers, basicAuth }
    const { received } = await exchange(request)
    expect(received[0]?.headers).toMatchObject({ ...own, 'content-length': '2' })
  })

  test('basic authentication is UTF-8', async () => {
    const { received } = await exchange({ basicAuth: { username: 'jö', password: 'p:w' } })
    const encoded = Buffer.from('jö:p:w').toString('base64')
    expect(received[0]?.headers.authorization).toBe(`Basic ${encoded}`)
  })

  test('query parameters are appended to what is there', async () => {
    const queryParameters = [pair('q', 'a b&c'), pair('q', 'ü'), pair('e', '')]
    const { received } = await exchange({ queryParameters }, '/p?x=%41+b')
    expect(received[0]?.url).toBe('/p?x=%41+b&q=a%20b%26c&q=%C3%BC&e=')
  })

  test('a header that cannot be sent is a fault of the settings, and its value is not shown', async () => {
    for (const bad of [pair('x', 'hunter2\r\nEvil: 1'), pair('Authorization: hunter2', '')]) {
      const outcome = await check({ url: 'http://127.0.0.1:9/', headers: [bad] })
      expect(outcome.codes).toEqual(['SETTINGS_INVALID'])
      expect(JSON.stringify(outcome)).not.toContain('hunter2')
    }
  })
})

describe('redirects', () => {
  test.each([
    [302, 'POST', 'GET', ''],
    [303, 'PUT', 'GET', ''],
    [303, 'HEAD', 'HEAD', ''],
    [301, 'PUT', 'PUT', 'body'],
    [307, 'POST', 'POST', 'body'],
  ])('%i turns %s into %s', async (status, method, next, body) => {
    const request = method === 'HEAD' ? {} : { bodyType: 'RAW', body: 'body' }
    const { received } = await exchange({ method, ...request }, `/${status}?to=/end`)
    expect(received[1]).toMatchObject({ method: next, url: '/end', body })
    expect(received[1]?.headers['content-type']).toBe(body === '' ? undefined : 'text/plain')
  })

  const secret = { Authorization: 'Bearer secret', Cookie: 'a=secret', 'X-API-Key': 'secret' }
  const locked = [pair('X-Locked', 'secret', true), pair('User-Agent', 'secret', true)]
  const headers = [...pairs({ ...secret, 'Accept-Language': 'de' }), ...locked]

  test('secrets stay with their origin', async () => {
    await using other = await startEcho()
    const to = encodeURIComponent(`http://${other.authority}/end`)
    const { received } = await exchange({ headers }, `/302?to=${to}`)
    expect(JSON.stringify(received[0]?.headers)).toContain('secret')
    expect(JSON.stringify(other.received[0]?.headers)).not.toContain('secret')
    expect(other.received[0]?.headers).toMatchObject({ 'accept-language': 'de' })
  })

  test('and go along within it', async () => {
    const { received } = await exchange({ headers }, '/302?to=/end')
    const kept = { authorization: 'Bearer secret', 'x-api-key': 'secret' }
    expect(received[1]?.headers).toMatchObject(kept)
  })

  test('credentials in a URL are used and not shown', async () => {
    await using server = await startEcho()
    const outcome = await check({
      url: `http://u:hunter2@${server.authority}/302?to=//v:hunter3@${server.authority}/end`,
    })
    expect(server.received[1]?.headers.authorization).toContain('Basic')
    expect(JSON.stringify(outcome.observed.hops)).not.toContain('hunter2@')
    expect(outcome.observed.hops[1]?.url).toBe(`http://${server.authority}/end`)
  })
})

describe('assertions', () => {
  test.each([
    ['STATUS_CODE  EQUALS 200', []],
    ['JSON_BODY $.status EQUALS ok', []],
    ['JSON_BODY $.status EQUALS no', ['ASSERTION_FAILED']],
    ['TEXT_BODY "status":"(\\w+)" EQUALS ok', []],
    ['HEADERS Content-Type CONTAINS json', []],
    ['RESPONSE_TIME  GREATER_THAN 10000', ['ASSERTION_FAILED']],
  ])('%s', async (line, codes) => {
    expect(await codesOf(exchange({ assertions: [assertion(line)] }))).toEqual(codes)
  })

  test('see more of a body than is shown', async () => {
    const body = `${'x'.repeat(20_000)}needle`
    await using server = await startHttpServer((_, response) => response.end(body))
    const assertions = [assertion('TEXT_BODY  CONTAINS needle')]
    const outcome = await check({ url: `http://${server.authority}/`, assertions })
    expect(outcome.codes).toEqual([])
    const shown = { bodyTruncated: true, unpackedBytes: body.length, body: 'x'.repeat(4096) }
    expect(outcome.observed.response).toMatchObject(shown)
  })

  test('a body in another charset is read in it, a binary one is not shown', async () => {
    await using server = await startHttpServer(({ url }, response) => {
      const type = url === '/text' ? 'text/plain; charset=iso-8859-1' : 'image/png'
      response.setHeader('content-type', type).end(Buffer.from('gr\xfc\xdfe', 'latin1'))
    })
    const bodyOf = async (path: string) =>
      (await check({ url: `http://${server.authority}/${path}` })).observed.response?.body
    expect([await bodyOf('text'), await bodyOf('image')]).toEqual(['grüße', undefined])
  })
})

test('a body that the server does not take is a time-out in sending', async () => {
  const deadline = new AbortController()
  await using deaf = await startRawServer((socket) => {
    socket.pause()
    setTimeout(() => deadline.abort(new DeadlineReached(200)), 200)
  })
  const body = { bodyType: 'RAW', body: 'x'.repeat(16_777_216) }
  const request = { method: 'POST', url: `http://${deaf.authority}/`, ...body }
  const { codes } = await check(request, {}, { signal: deadline.signal })
  expect(codes).toEqual(['TIMEOUT_SEND'])
})
