// Aim: what an API monitor's definition says is what goes over the wire, secrets stay with their origin,
// and assertions see all of the answer.
import type { IncomingHttpHeaders } from 'node:http'
import { describe, expect, test } from 'vitest'
import { api } from '../../../src/monitors/api/index.ts'
import type { HttpObserved } from '../../../src/monitors/http/observed.ts'
import { DeadlineReached } from '../../../src/network/deadline.ts'
import { checkMonitor } from '../../support/monitors/check-monitor.ts'
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

async function sent(request: object): Promise<Received> {
  await using server = await startEcho()
  const { codes } = await check({ url: `http://${server.authority}/`, ...request })
  expect(codes).toEqual([])
  return server.received[0] as Received
}

const pair = (key: string, value: string, locked = false) => ({ key, value, locked })

describe('requests', () => {
  test.each(['GET', 'POST', 'PUT', 'HEAD', 'DELETE', 'PATCH', 'OPTIONS'])(
    '%s goes out',
    async (method) => {
      expect((await sent({ method })).method).toBe(method)
    },
  )

  test.each([
    ['JSON', '{"a":1}', '{"a":1}', 'application/json'],
    ['FORM', 'a=1&b=2', 'a=1&b=2', 'application/x-www-form-urlencoded'],
    ['RAW', 'grüße', 'grüße', 'text/plain'],
    ['GRAPHQL', '{ me { id } }', '{"query":"{ me { id } }"}', 'application/json'],
    ['GRAPHQL', '{"query":"{ me }"}', '{"query":"{ me }"}', 'application/json'],
    ['NONE', 'ignored', '', undefined],
  ])('a body of type %s', async (bodyType, body, expected, contentType) => {
    const received = await sent({ method: 'POST', bodyType, body })
    expect(received.body).toBe(expected)
    expect(received.headers['content-type']).toBe(contentType)
    expect(received.headers['content-length']).toBe(String(Buffer.byteLength(expected)))
  })

  test('what the user says in headers wins', async () => {
    const headers = [
      pair('content-type', 'application/graphql'),
      pair('User-Agent', 'mine'),
      pair('Host', 'virtual.test'),
      pair('authorization', 'Bearer x'),
      pair('Content-Length', '999'),
      pair('accept-encoding', 'identity'),
    ]
    const basicAuth = { username: 'u', password: 'p' }
    const body = { method: 'POST', bodyType: 'JSON', body: '{}' }
    const received = await sent({ ...body, headers, basicAuth })
    expect(received.headers).toMatchObject({
      'content-type': 'application/graphql',
      'user-agent': 'mine',
      host: 'virtual.test',
      authorization: 'Bearer x',
      'content-length': '2',
      'accept-encoding': 'identity',
    })
  })

  test('basic authentication is UTF-8', async () => {
    const received = await sent({ basicAuth: { username: 'jö', password: 'p:w' } })
    expect(received.headers.authorization).toBe(`Basic ${Buffer.from('jö:p:w').toString('base64')}`)
  })

  test('query parameters are appended to what is there', async () => {
    await using server = await startEcho()
    const url = `http://${server.authority}/p?x=%41+b`
    await check({ url, queryParameters: [pair('q', 'a b&c'), pair('q', 'ü'), pair('e', '')] })
    expect(server.received[0]?.url).toBe('/p?x=%41+b&q=a%20b%26c&q=%C3%BC&e=')
  })

  test('a header that cannot be sent is a fault of the settings, and its value is not shown', async () => {
    const bad = [pair('x', 'hunter2\r\nEvil: 1')]
    const outcome = await check({ url: 'http://127.0.0.1:9/', headers: bad })
    expect(outcome.codes).toEqual(['SETTINGS_INVALID'])
    expect(JSON.stringify(outcome)).not.toContain('hunter2')
  })

  test.each([
    ['localSetupScript', 'x = 1', ['SCRIPT_UNSUPPORTED']],
    ['localTearDownScript', 'x = 1', ['SCRIPT_UNSUPPORTED']],
    ['localTearDownScript', '  \n', []],
    ['setupSnippetId', null, []],
  ])('%s of %j', async (field, value, codes) => {
    await using server = await startEcho()
    const outcome = await check({ url: `http://${server.authority}/` }, { [field]: value })
    expect(outcome.codes).toEqual(codes)
    expect(server.received).toHaveLength(codes.length === 0 ? 1 : 0)
  })
})

describe('redirects', () => {
  test.each([
    [301, 'POST', 'GET', ''],
    [302, 'POST', 'GET', ''],
    [303, 'PUT', 'GET', ''],
    [303, 'HEAD', 'HEAD', ''],
    [301, 'PUT', 'PUT', 'body'],
    [307, 'POST', 'POST', 'body'],
    [308, 'PATCH', 'PATCH', 'body'],
  ])('%i turns %s into %s', async (status, method, next, body) => {
    await using server = await startEcho()
    const request = method === 'HEAD' ? {} : { bodyType: 'RAW', body: 'body' }
    await check({ method, url: `http://${server.authority}/${status}?to=/end`, ...request })
    expect(server.received[1]).toMatchObject({ method: next, url: '/end', body })
    expect(server.received[1]?.headers['content-type']).toBe(body === '' ? undefined : 'text/plain')
  })

  const headers = [
    pair('Ocp-Apim-Subscription-Key', 'secret'),
    pair('X-Forwarded-Client-Cert', 'secret'),
    pair('Authorization', 'Bearer secret'),
    pair('Cookie', 'session=secret'),
    pair('X-API-Key', 'secret'),
    pair('X-Locked', 'secret', true),
    pair('X-Foo', 'secret'),
    pair('User-Agent', 'secret', true),
    pair('Accept-Language', 'de'),
  ]

  test('secrets stay with their origin', async () => {
    await using other = await startEcho()
    await using server = await startEcho()
    const to = encodeURIComponent(`http://${other.authority}/end`)
    await check({ url: `http://${server.authority}/302?to=${to}`, headers })
    expect(JSON.stringify(server.received[0]?.headers)).toContain('secret')
    expect(JSON.stringify(other.received[0]?.headers)).not.toContain('secret')
    const passed = { 'accept-language': 'de', host: other.authority }
    expect(other.received[0]?.headers).toMatchObject(passed)
  })

  test('and go along within it', async () => {
    await using server = await startEcho()
    await check({ url: `http://${server.authority}/302?to=/end`, headers })
    expect(server.received[1]?.headers).toMatchObject({
      authorization: 'Bearer secret',
      'x-api-key': 'secret',
      'x-foo': 'secret',
    })
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
  const assertion = (line: string) => {
    const [source, property, comparison, target] = line.split(' ')
    return { source, property, comparison, target }
  }

  test.each([
    ['STATUS_CODE  EQUALS 200', true],
    ['JSON_BODY $.status EQUALS ok', true],
    ['JSON_BODY $.items.length EQUALS 3', true],
    ['JSON_BODY $.status EQUALS no', false],
    ['TEXT_BODY "status":"(\\w+)" EQUALS ok', true],
    ['HEADERS Content-Type CONTAINS json', true],
    ['HEADERS x-list CONTAINS a,', true],
    ['HEADERS x-none IS_NULL ', true],
    ['RESPONSE_TIME  LESS_THAN 10000', true],
    ['RESPONSE_TIME  GREATER_THAN 10000', false],
  ])('%s', async (line, holds) => {
    await using server = await startEcho()
    const assertions = [assertion(line)]
    const outcome = await check({ url: `http://${server.authority}/`, assertions })
    expect(outcome.codes).toEqual(holds ? [] : ['ASSERTION_FAILED'])
  })

  test('see more of a body than is shown', async () => {
    const body = `${'x'.repeat(20_000)}needle`
    await using server = await startHttpServer((_, response) => response.end(body))
    const outcome = await check({
      url: `http://${server.authority}/`,
      assertions: [assertion('TEXT_BODY  CONTAINS needle')],
    })
    expect(outcome.codes).toEqual([])
    const size = { bodyTruncated: true, unpackedBytes: body.length }
    expect(outcome.observed.response).toMatchObject(size)
    expect(outcome.observed.response?.body).toBe('x'.repeat(4096))
  })

  test('a body in another charset is read in it, a binary one is not shown', async () => {
    await using latin = await startHttpServer((_, response) => {
      response
        .setHeader('content-type', 'text/plain; charset=iso-8859-1')
        .end(Buffer.from('gr\xfc\xdfe', 'latin1'))
    })
    const text = await check({ url: `http://${latin.authority}/` })
    expect(text.observed.response?.body).toBe('grüße')
    await using image = await startHttpServer((_, response) => {
      response.setHeader('content-type', 'image/png').end('binary')
    })
    const binary = await check({ url: `http://${image.authority}/` })
    expect(binary.observed.response?.body).toBeUndefined()
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
