// Aim: bad bodies have their own status, and so has what is no request at all.
import { Hono } from 'hono'
import { describe, expect, test } from 'vitest'
import { API_BOUNDS } from '../../../src/contract/api/bounds.ts'
import { readJson } from '../../../src/platform/http/body.ts'
import { answerError, type ApiError } from '../../../src/platform/http/errors.ts'
import { createHttpServer } from '../../../src/platform/http/http-server.ts'
import { type ApiClient, UNLIMITED, usePublicApi } from '../../support/platform/public-api.ts'
import { sendRaw } from '../../support/raw-http.ts'
import { listening } from '../../support/test-server.ts'

const INCIDENTS = '/v1/status-pages/incidents'
const SERVICES = '/v1/status-pages/services'
const { api, client } = usePublicApi({ defaultLimit: UNLIMITED })
const nested = (depth: number) => `{"name":"x","id":${'['.repeat(depth)}${']'.repeat(depth)}}`

describe('a body', () => {
  const post = (request: Parameters<ApiClient['call']>[2]) => client.call('POST', SERVICES, request)

  test.each([
    ['is not JSON', '{"name":'],
    ['is empty', ''],
    ['has a number too large to keep', '{"name":1e999}'],
    ['is a list', '[]'],
    ['has U+0000', String.raw`{"name":"a\u0000"}`],
    ['has half a surrogate pair', String.raw`{"name":"a\ud800"}`],
    ['has U+0000 in a key', String.raw`{"name":"x","a\u0000":1}`],
    ['has __proto__', '{"name":"x","__proto__":{"admin":true}}'],
    ['has an unknown field', '{"name":"x","colour":"red"}'],
    ['is not UTF-8', Uint8Array.from([...Buffer.from('{"name":"'), 0xff, ...Buffer.from('"}')])],
    ['is nested too deeply', nested(API_BOUNDS.jsonDepthMax + 1)],
    ['is nested very deeply', `${'['.repeat(400_000)}${']'.repeat(400_000)}`],
  ])('that %s is refused with 400', async (_sentence, raw) => {
    expect((await post({ raw })).status).toBe(400)
  })

  test('may nest up to the limit, and has the last of duplicate keys', async () => {
    expect((await post({ raw: nested(API_BOUNDS.jsonDepthMax - 1) })).status).toBe(201)
    expect((await post({ raw: '{"name":"first","name":"last"}' })).body.name).toBe('last')
  })

  test.each([
    ['content-type', 'text/plain', 415],
    ['content-type', 'application/jsonx', 415],
    ['content-type', 'application/json; charset=latin1', 415],
    ['content-encoding', 'gzip', 415],
    ['content-type', 'Application/JSON; charset=UTF-8', 201],
    ['content-type', 'application/json;charset="utf-8"', 201],
  ])('of %s %s is answered with %i', async (header, value, status) => {
    const answer = await post({ raw: '{"name":"x"}', headers: { [header]: value } })
    expect(answer.status).toBe(status)
  })

  test('may have 1 MiB and no byte more, with or without Content-Length', async () => {
    const of = (bytes: number) => `{"name":"x","id":"${'y'.repeat(bytes - 20)}"}`
    const max = API_BOUNDS.bodyBytesMax
    expect((await post({ raw: of(max) })).status).toBe(201)
    expect((await post({ raw: of(max + 1) })).status).toBe(413)
    const chunks = `10000\r\n${'z'.repeat(65_536)}\r\n`.repeat(17)
    expect((await send(`${head('Transfer-Encoding: chunked')}${chunks}`)).status).toBe(413)
  })

  test('that ends early is aborted', async () => {
    const { status } = await send(`${head('Content-Length: 100')}{"name"`, { end: true })
    expect([0, 400]).toContain(status)
  })

  test('that arrives too slowly is answered with 408', async () => {
    const slow = new Hono()
    slow.post('/', async (c) => c.json(await readJson(c, { ...API_BOUNDS, bodyMs: 50 })))
    slow.onError((error) => answerError(error as ApiError, {}))
    await using server = await listening(createHttpServer(slow.fetch))
    const { port } = server
    const answer = await send(`${head('Content-Length: 100', '/')}{`, { port })
    expect(answer.status).toBe(408)
    expect(answer.text).toContain('"error":"Request Timeout"')
  })
})

describe('a request', () => {
  test.each([INCIDENTS, '/v1/accounts/me'])('to %s with a very long URL is refused', async (at) => {
    expect((await client.call('GET', `${at}?x=${'y'.repeat(9000)}`)).status).toBe(400)
  })

  test('with very large headers is refused with 431', async () => {
    const answer = await send(head(`X-Large: ${'y'.repeat(20_000)}`))
    expect(answer.status).toBe(431)
    expect(answer.text).toContain('"statusCode":431')
  })

  // As simple probes of load balancers send it.
  test.each(['', 'Host:\r\n'])('by HTTP/1.0 without a host is answered: %j', async (host) => {
    const { status, text } = await send(`GET /docs HTTP/1.0\r\n${host}\r\n`)
    expect(status).toBe(200)
    expect(text).not.toMatch(/transfer-encoding: chunked/i)
  })

  test.each([
    '\r\n\r\nnonsense\r\n\r\n',
    'GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n',
    '\x16\x03\x01hello\r\n\r\n',
    'GET / HTTP/1.1\r\nConnection: close\r\n\r\n',
    'GET / HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n',
    'OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
    'GET http://[/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
    'GET /a\\b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
  ])('that is not HTTP is refused with 400: %j', async (text) => {
    const answer = await send(text)
    expect(answer.status).toBe(400)
    expect(answer.text).toContain('"error":"Bad Request"')
  })
})

const head = (length: string, path = SERVICES) =>
  [
    `POST ${path} HTTP/1.1`,
    'Host: x',
    `Authorization: Bearer ${client.secret}`,
    `X-Service-Account: ${client.accountId}`,
    'Content-Type: application/json',
    length,
    '',
    '',
  ].join('\r\n')

/** Sends bytes as they are, to the API unless another port is given. */
const send = (text: string, { port = api.port, end = false } = {}) => sendRaw(text, { port, end })
