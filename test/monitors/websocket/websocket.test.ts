// Aim: a WebSocket check says exactly what the target did, from the handshake to its close, within its
// deadline, and leaves no connection behind; one that breaks RFC 6455, floods, stalls or vanishes is named as such.
import type { IncomingMessage } from 'node:http'
import { describe, expect, test } from 'vitest'
import { LIMITS } from '../../../src/contract/versions.ts'
import { WEBSOCKET_LIMITS } from '../../../src/monitors/websocket/definition.ts'
import { FrameReader, OPCODE } from '../../../src/monitors/websocket/frames.ts'
import { websocket } from '../../../src/monitors/websocket/index.ts'
import { bodyBudget } from '../../../src/network/http/body-budget.ts'
import { assertion, cancelAt, checkMonitor } from '../../support/monitors/check-monitor.ts'
import type { ContextOptions } from '../../support/monitors/monitor-context.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { startHttpServer, startRawServer } from '../../support/test-server.ts'
import {
  type Behaviour,
  frameOf,
  type Peer,
  startWebSocketServer,
} from '../../support/monitors/websocket/websocket-server.ts'

const checkWebSocket = (request: object, more?: object, options?: ContextOptions) =>
  checkMonitor(websocket, request, more, options)

/** Checks a server of this behaviour. */
async function against(behaviour: Behaviour, request: object = {}, more: object = {}) {
  await using server = await startWebSocketServer(behaviour)
  return await checkWebSocket({ url: `ws://${server.authority}/`, ...request }, more)
}

const echo: Behaviour = { onMessage: (peer, text) => peer.send(text) }

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
    const assertions = [assertion('JSON_MESSAGE $.ok EQUALS true')]
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
      { assertions: [assertion('MESSAGE  EQUALS hi')] },
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
})

describe('assertions', () => {
  test.each([
    ['STATUS_CODE  EQUALS 101'],
    ['HEADERS upgrade EQUALS websocket'],
    ['MESSAGE n=(\\d+) EQUALS 42'],
    ['PING_TIME  LESS_THAN 4000'],
    ['CLOSE_CODE  EQUALS 1000'],
    ['MESSAGE  CONTAINS x', ['ASSERTION_FAILED']],
  ])('%s', async (line, expected: string[] = []) => {
    const request = { assertions: [assertion(line)] }
    const { codes } = await against({ onOpen: (peer) => peer.send('n=42') }, request)
    expect(codes).toEqual(expected)
  })

  test('on the status of a refusal', async () => {
    const lines = ['STATUS_CODE  EQUALS 401', 'HEADERS x-why EQUALS because']
    const { codes, observed } = await against({ refuse: 401 }, { assertions: lines.map(assertion) })
    expect([codes, observed['statusCode']]).toEqual([[], 401])
  })

  test('on a status do not excuse a message that is missing', async () => {
    const assertions = [assertion('STATUS_CODE  NOT_EQUALS 503')]
    const { codes } = await against({ refuse: 404 }, { expect: 'x', assertions })
    expect(codes).toEqual(['WEBSOCKET_REFUSED'])
  })
})

describe('a target that does not open one', () => {
  test('refuses, which shouldFail expects', async () => {
    const { codes, observed } = await against({ refuse: 403 })
    expect([codes, observed['statusCode']]).toEqual([['WEBSOCKET_REFUSED'], 403])
    expect((await against({ refuse: 403 }, {}, { shouldFail: true })).codes).toEqual([])
  })

  test('has a web server without WebSockets, or no answer', async () => {
    await using web = await startHttpServer((_, response) => response.end('hello'))
    const refused = await checkWebSocket({ url: `ws://${web.authority}/` })
    await using silent = await startRawServer(() => {})
    const late = await checkWebSocket(
      { url: `ws://${silent.authority}/` },
      { maxResponseTime: 200 },
    )
    expect([refused.codes, late.codes]).toEqual([['WEBSOCKET_REFUSED'], ['TIMEOUT_FIRST_BYTE']])
  })

  test.each<[string, Record<string, string | null>]>([
    ['a wrong accept', { 'Sec-WebSocket-Accept': 'AAAA' }],
    ['no accept', { 'Sec-WebSocket-Accept': null }],
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

test('a header that cannot be sent is ours', async () => {
  const bad = [{ key: 'X-A', value: 'a\nb' }]
  const { codes } = await checkWebSocket({ url: 'ws://127.0.0.1:9/', headers: bad })
  expect(codes).toEqual(['SETTINGS_INVALID'])
})

const provoke = (behaviour: Behaviour, request: object = {}, maxResponseTime = 5000) =>
  against(behaviour, { expect: 'never', ...request }, { maxResponseTime })

const onOpen = (act: (peer: Peer) => void): Behaviour => ({ onOpen: act })
/** Sends so many messages of a megabyte. */
const sending = (count: number) =>
  onOpen((peer) => {
    for (let n = 0; n < count; n++) peer.send('a'.repeat(1_000_000))
  })
const TOO_LARGE = 'WEBSOCKET_TOO_LARGE'
const inOneSegment = (...frames: Buffer[]) =>
  onOpen(({ socket }) => void socket.write(Buffer.concat(frames)))

test.each<[string, (peer: Peer) => void]>([
  ['a masked frame', (peer) => peer.frame(0x81, Buffer.from([1, 2, 3, 4, 5]), 0x81)],
  ['a reserved bit', (peer) => peer.frame(0xc1, 'x')],
  ['an unknown type', (peer) => peer.frame(0x83, 'x')],
  ['a split ping', (peer) => peer.frame(0x09, 'x')],
  ['a continuation of nothing', (peer) => peer.frame(0x80, 'x')],
  ['a message within a message', (peer) => [0x01, 0x81].forEach((head) => peer.frame(head, 'x'))],
  ['a text that is not UTF-8', (peer) => peer.frame(0x81, Buffer.from([0xc3, 0x28]))],
  ['a close frame of one byte', (peer) => peer.frame(0x88, 'x')],
  ['a close code that no frame may carry', (peer) => peer.close(1006)],
  ['a reason that is not UTF-8', (peer) => peer.frame(0x88, Buffer.from([3, 232, 0xff]))],
])('broken rules: %s', async (_, act) => {
  expect((await provoke(onOpen(act))).codes).toEqual(['WEBSOCKET_PROTOCOL'])
})

test('broken rules: a character that is split between frames breaks none', async () => {
  const euro = Buffer.from('€')
  const split = onOpen((peer) => peer.send(euro.subarray(0, 1), euro.subarray(1)))
  expect((await provoke(split, { expect: '€' })).codes).toEqual([])
})

const { webSocketBytesMax, webSocketFramesMax } = WEBSOCKET_LIMITS
const length = Buffer.alloc(8)
length.writeBigUInt64BE(BigInt(webSocketBytesMax + 1))
const empty = Buffer.concat(Array<Buffer>(webSocketFramesMax + 1).fill(frameOf(0x89, '')))
const headers = () => ({ 'X-Long': 'x'.repeat(LIMITS.headerBytesMax) })
test.each<[string, Behaviour, string]>([
  ['a large frame is announced', onOpen((peer) => peer.frame(0x82, length, 127)), TOO_LARGE],
  ['messages without end', sending(5), TOO_LARGE],
  ['empty frames without end', inOneSegment(empty), TOO_LARGE],
  ['a head without end', { headers }, 'HTTP_HEADERS_TOO_LARGE'],
])('too much: %s', async (_, behaviour, code) => {
  expect((await provoke(behaviour)).codes).toEqual([code])
})

describe('what ends too early or never', () => {
  test('a close instead of the message names code and reason', async () => {
    const { codes, failures, observed } = await provoke(onOpen((peer) => peer.close(1011, 'tired')))
    expect(codes).toEqual(['WEBSOCKET_CLOSED'])
    expect(failures[0]?.details).toEqual({ closeCode: 1011 })
    expect(observed).toMatchObject({ closeCode: 1011, closeReason: 'tired' })
  })

  test('an expected message that never comes', async () => {
    const other = onOpen((peer) => peer.send('other'))
    const { codes, failures } = await provoke(other, {}, 300)
    expect(codes).toEqual(['WEBSOCKET_EXPECT'])
    expect(failures[0]?.message).toContain('other')
  })

  const ignoring = (opcode: number, answer?: (peer: Peer) => void): Behaviour => ({
    onControl(peer, got) {
      if (got === opcode) answer?.(peer)
      return got !== opcode
    },
  })
  const anotherPong = ignoring(OPCODE.ping, (peer) => peer.frame(0x8a, 'another'))
  const ending = onOpen(({ socket }) => void socket.end())
  const half = onOpen((peer) => peer.frame(0x01, 'x'))
  test.each<[string, Behaviour, object, string[]]>([
    ['a close without a code', onOpen((peer) => peer.close()), {}, ['WEBSOCKET_CLOSED']],
    ['an end without a close', ending, {}, ['CONNECTION_CLOSED']],
    ['a message whose last frame never comes', half, {}, ['WEBSOCKET_EXPECT']],
    ['a ping without an answer', ignoring(OPCODE.ping), { expect: null }, ['WEBSOCKET_PING']],
    ['a pong of another ping', anotherPong, { expect: null }, ['WEBSOCKET_PING']],
    ['a close without an answer costs no verdict', ignoring(OPCODE.close), { expect: null }, []],
  ])('%s', async (_, behaviour, request, expected) => {
    const { codes, observed } = await provoke(behaviour, request, 300)
    expect(codes).toEqual(expected)
    expect(observed).not.toHaveProperty('closeCode')
  })
})

test('a close that is not answered is waited for a moment only', async () => {
  Object.assign(WEBSOCKET_LIMITS, { webSocketCloseMsMax: 50 })
  const behaviour: Behaviour = { onControl: (_, opcode) => opcode !== OPCODE.close }
  expect((await provoke(behaviour, { expect: null })).codes).toEqual([])
})

test('several frames in one segment are taken in their order: what follows a close frame is ignored', async () => {
  const close = frameOf(0x88, Buffer.from([0x03, 0xf3]))
  const { codes, failures } = await provoke(inOneSegment(close, frameOf(0xc1, 'x')))
  expect(codes).toEqual(['WEBSOCKET_CLOSED'])
  expect(failures[0]?.details).toEqual({ closeCode: 1011 })
})

test('several frames in one segment are taken in their order: the expected message counts before a rule that is broken behind it, which is named too', async () => {
  const both = inOneSegment(frameOf(0x81, 'x'), frameOf(0xc1, 'y'))
  const { codes, observed } = await provoke(both, { expect: 'x' })
  expect(codes).toEqual(['WEBSOCKET_PROTOCOL'])
  expect(observed['message']).toMatchObject({ data: 'x' })
})

test('a feed that nobody reads may be as long as it likes', async () => {
  const { codes, observed } = await provoke(sending(6), { expect: null })
  expect([codes, observed['messages']]).toEqual([[], 6])
})

test('after a run no memory is reserved', async () => {
  const before = bodyBudget.usedBytes
  await provoke({ onMessage: (peer, text) => peer.send(text) }, { message: 'x', expect: 'x' })
  expect(bodyBudget.usedBytes).toBe(before)
})

test('a cancelled run rejects at once and lets go of the connection', async () => {
  const opened = Promise.withResolvers<Peer>()
  await using server = await startWebSocketServer(onOpen(opened.resolve))
  const request = { url: `ws://${server.authority}/`, expect: 'never' }
  const cancelled = cancelAt(opened.promise, (signal) => checkWebSocket(request, {}, { signal }))
  expect(await cancelled).toBe('let go')
  await expect.poll(() => server.open()).toBe(0)
})

test('frames are the same however the stream is cut', () => {
  const stream = Buffer.concat([
    frameOf(0x81, 'short'),
    frameOf(0x02, Buffer.alloc(300, 7)),
    frameOf(0x89, ''),
    frameOf(0x80, Buffer.alloc(70_000, 9)),
  ])
  const whole = [...new FrameReader().push(stream)]
  expect(whole.map(({ opcode, payload }) => [opcode, payload.length])).toEqual([
    [1, 5],
    [2, 300],
    [9, 0],
    [0, 70_000],
  ])
  for (const size of [1, 2, 3, 7, 1024]) {
    const reader = new FrameReader()
    const frames = []
    for (let at = 0; at < stream.length; at += size) {
      frames.push(...reader.push(stream.subarray(at, at + size)))
    }
    expect(frames).toEqual(whole)
  }
})
