// Aim: a WebSocket check says exactly what the target did, from the handshake to its close, within its
// deadline, and leaves no connection behind.
import type { IncomingMessage } from 'node:http'
import { describe, expect, test } from 'vitest'
import { websocket } from '../../../src/monitors/websocket/index.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { startHttpServer, startRawServer, type TestServer } from '../../support/test-server.ts'
import { against, checkWebSocket } from '../../support/monitors/websocket/check-websocket.ts'
import {
  type Behaviour,
  startWebSocketServer,
} from '../../support/monitors/websocket/websocket-server.ts'

const echo: Behaviour = { onMessage: (peer, text) => peer.send(text) }
const assertion = (source: string, comparison: string, target: string, property = '') => ({
  source,
  comparison,
  target,
  property,
})

test('the server of these tests is one for another client', async () => {
  await using server = await startWebSocketServer(echo)
  const client = new WebSocket(`ws://${server.authority}/`)
  const said = new Promise((resolve) =>
    client.addEventListener('message', ({ data }) => resolve(data)),
  )
  client.addEventListener('open', () => client.send('hello'))
  expect(await said).toBe('hello')
  const closed = new Promise((resolve) =>
    client.addEventListener('close', ({ code }) => resolve(code)),
  )
  client.close(1000)
  expect(await closed).toBe(1000)
})

describe('a target that behaves', () => {
  test('passes, with its phases, its ping and its close', async () => {
    const { observed, codes, responseTimeMs } = await against({})
    expect(codes).toEqual([])
    const own = { statusCode: 101, messages: 0, closeCode: 1000 }
    expect(observed).toMatchObject({ address: '127.0.0.1', family: 'IPv4', ...own })
    const { phases } = observed as { phases: Record<string, number> }
    const names = ['connectMs', 'dnsMs', 'handshakeMs', 'pingMs', 'totalMs']
    expect(Object.keys(phases).toSorted()).toEqual(names)
    expect(responseTimeMs).toBeCloseTo(phases['totalMs'] as number, 2)
  })

  test('gets the request of RFC 6455', async () => {
    let got: IncomingMessage | undefined
    const { codes } = await against(
      { onOpen: ({ request }) => void (got = request) },
      { headers: [{ key: 'X-Mine', value: 'yes' }], basicAuth: { username: 'a', password: 'b' } },
    )
    expect(codes).toEqual([])
    expect(got?.url).toBe('/')
    expect(got?.headers).toMatchObject({
      'sec-websocket-version': '13',
      upgrade: 'websocket',
      'x-mine': 'yes',
      authorization: 'Basic YTpi',
    })
    const key = got?.headers['sec-websocket-key'] ?? ''
    expect(Buffer.from(key, 'base64')).toHaveLength(16)
  })

  test('picks a subprotocol that was offered', async () => {
    const { observed, codes } = await against(
      { headers: () => ({ 'Sec-WebSocket-Protocol': 'b' }) },
      { subprotocols: ['a', 'b'] },
    )
    expect([codes, observed['subprotocol']]).toEqual([[], 'b'])
  })

  test.each([
    ['one frame', (text: string) => [text]],
    ['three frames', (text: string) => [text.slice(0, 2), '', text.slice(2)]],
  ])('answers a message in %s', async (_, parts) => {
    const data = '{"ok": true}'
    const assertions = [assertion('JSON_MESSAGE', 'EQUALS', 'true', '$.ok')]
    const { observed, codes } = await against(
      { onMessage: (peer, text) => peer.send(...parts(text)) },
      { message: data, assertions },
    )
    expect(codes).toEqual([])
    expect(observed['message']).toEqual({ type: 'text', data, bytes: 12, truncated: false })
  })

  test.each([125, 126, 65_535, 65_536, 1_000_000])('answers %i bytes', async (bytes) => {
    const { observed, codes } = await against(echo, { message: 'a'.repeat(bytes), expect: '^a+$' })
    expect(codes).toEqual([])
    expect(observed['message']).toMatchObject({ bytes, truncated: bytes > 4096 })
  })

  test('sends others before the one that is expected', async () => {
    const { observed, codes } = await against(
      { onOpen: (peer) => ['one', 'two', 'ready'].forEach((text) => peer.send(text)) },
      { expect: '^rea' },
    )
    expect([codes, (observed['message'] as { data: string }).data]).toEqual([[], 'ready'])
  })

  test('sends its first message together with the handshake', async () => {
    const { codes } = await against(
      { head: Buffer.from([0x81, 2, 0x68, 0x69]) },
      { assertions: [assertion('MESSAGE', 'EQUALS', 'hi')] },
    )
    expect(codes).toEqual([])
  })

  test('pings us, and is answered', async () => {
    let pong: Buffer | undefined
    const { codes } = await against(
      {
        onOpen: (peer) => peer.frame(0x89, 'are you there'),
        onControl(_, opcode, payload) {
          if (opcode === 10) pong = payload
        },
      },
      { expect: 'x', message: 'x' },
      { maxResponseTime: 300 },
    )
    expect(codes).toEqual(['WEBSOCKET_EXPECT'])
    expect(pong?.toString()).toBe('are you there')
  })

  test('a binary message is shown in base64', async () => {
    const { observed, codes } = await against(
      { onOpen: (peer) => peer.frame(0x82, Buffer.from([0xff, 0])) },
      { expect: '.' },
    )
    expect(codes).toEqual([])
    expect(observed['message']).toMatchObject({ type: 'binary', data: '/wA=', bytes: 2 })
  })

  test('no connection is left', async () => {
    await using server = await startWebSocketServer(echo)
    await checkWebSocket({ url: `ws://${server.authority}/`, message: 'x', expect: 'x' })
    await expect.poll(() => server.open()).toBe(0)
  })
})

describe('assertions', () => {
  test.each([
    ['status', assertion('STATUS_CODE', 'EQUALS', '101'), []],
    ['another status', assertion('STATUS_CODE', 'EQUALS', '200'), ['ASSERTION_FAILED']],
    ['a header', assertion('HEADERS', 'EQUALS', 'websocket', 'upgrade'), []],
    ['the message', assertion('MESSAGE', 'EQUALS', '42', 'n=(\\d+)'), []],
    ['another message', assertion('MESSAGE', 'CONTAINS', 'x'), ['ASSERTION_FAILED']],
    ['the time', assertion('RESPONSE_TIME', 'LESS_THAN', '4000'), []],
    ['the ping', assertion('PING_TIME', 'LESS_THAN', '4000'), []],
    ['the close code', assertion('CLOSE_CODE', 'EQUALS', '1000'), []],
  ])('on %s', async (_, one, expected) => {
    const { codes } = await against({ onOpen: (peer) => peer.send('n=42') }, { assertions: [one] })
    expect(codes).toEqual(expected)
  })

  test('on the status of a refusal', async () => {
    const assertions = [
      assertion('STATUS_CODE', 'EQUALS', '401'),
      assertion('HEADERS', 'EQUALS', 'because', 'x-why'),
    ]
    const { codes, observed } = await against({ refuse: 401 }, { assertions })
    expect([codes, observed['statusCode']]).toEqual([[], 401])
  })

  test('on a status do not excuse a message that is missing', async () => {
    const assertions = [assertion('STATUS_CODE', 'NOT_EQUALS', '503')]
    const { codes } = await against({ refuse: 404 }, { expect: 'x', assertions })
    expect(codes).toEqual(['WEBSOCKET_REFUSED'])
  })
})

describe('a target that does not open one', () => {
  const checkRaw = async (server: TestServer, maxResponseTime = 5000) => {
    await using running = server
    const url = `ws://${running.authority}/`
    return (await checkWebSocket({ url }, { maxResponseTime })).codes
  }

  test('refuses, which shouldFail expects', async () => {
    const { codes, observed } = await against({ refuse: 403 })
    expect([codes, observed['statusCode']]).toEqual([['WEBSOCKET_REFUSED'], 403])
    expect((await against({ refuse: 403 }, {}, { shouldFail: true })).codes).toEqual([])
  })

  test('has a web server without WebSockets, no HTTP at all, or no answer', async () => {
    const web = await startHttpServer((_, response) => response.end('hello'))
    expect(await checkRaw(web)).toEqual(['WEBSOCKET_REFUSED'])
    const ssh = await startRawServer((socket) => socket.end('SSH-2.0-x\r\n'))
    expect(await checkRaw(ssh)).toEqual(['HTTP_MALFORMED'])
    const silent = await startRawServer(() => {})
    expect(await checkRaw(silent, 200)).toEqual(['TIMEOUT_FIRST_BYTE'])
  })

  test.each<[string, Record<string, string | null>]>([
    ['a wrong accept', { 'Sec-WebSocket-Accept': 'AAAA' }],
    ['no accept', { 'Sec-WebSocket-Accept': null }],
    ['no Connection', { Connection: null }],
    ['no Upgrade', { Upgrade: null }],
    ['another protocol', { Upgrade: 'h2c' }],
    ['an extension', { 'Sec-WebSocket-Extensions': 'permessage-deflate' }],
    ['a subprotocol that nobody offered', { 'Sec-WebSocket-Protocol': 'chat' }],
  ])('answers with %s', async (_, headers) => {
    expect((await against({ headers: () => headers })).codes).toEqual(['WEBSOCKET_HANDSHAKE'])
  })
})

test('wss verifies the certificate, and its facts are there', async () => {
  const authority = createAuthority()
  const tls = { ca: authority.ca }
  await using server = await startWebSocketServer(echo, authority.issue())
  const url = `wss://localhost:${server.port}/`
  const good = await checkWebSocket({ url, tls, message: 'x', expect: 'x' })
  expect(good.codes).toEqual([])
  expect(good.observed).toMatchObject({ tls: { protocol: 'TLSv1.3' } })
  expect((await checkWebSocket({ url })).codes).toEqual(['TLS_UNTRUSTED'])
  expect((await checkWebSocket({ url, skipSSL: true })).codes).toEqual([])
})

describe('settings', () => {
  const headers = [{ key: 'Sec-WebSocket-Protocol', value: 'a' }]
  const noPing = { ping: false, assertions: [assertion('PING_TIME', 'LESS_THAN', '1')] }
  test.each<[string, object, string]>([
    ['another scheme', { url: 'https://a.test/' }, 'url'],
    ['no URL', { url: 'a.test' }, 'url'],
    ['a fragment', { url: 'ws://a.test/#x' }, 'url'],
    ['a header of the handshake', { headers }, 'headers.0.key'],
    ['a subprotocol twice', { subprotocols: ['a', 'a'] }, 'subprotocols'],
    ['no token', { subprotocols: ['a b'] }, 'subprotocols.0'],
    ['a broken expression', { expect: '(' }, 'expect'],
    ['PING_TIME without a ping', noPing, 'assertions.0.source'],
  ])('%s is refused at its place', (_, fields, path) => {
    const request = { url: 'ws://a.test/', ...fields }
    const monitor = { id: 'm', name: 'm', checkType: 'WEBSOCKET', request }
    const { error } = websocket.schema.safeParse(monitor)
    expect(error?.issues.map((issue) => issue.path.join('.'))).toEqual([`request.${path}`])
  })

  test('a header that cannot be sent is ours', async () => {
    const bad = [{ key: 'X-A', value: 'a\nb' }]
    const { codes } = await checkWebSocket({ url: 'ws://127.0.0.1:9/', headers: bad })
    expect(codes).toEqual(['SETTINGS_INVALID'])
  })
})
