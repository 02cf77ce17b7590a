// Aim: a target that breaks RFC 6455, floods, stalls or vanishes is named as such, within the deadline and
// with bounded memory.
import { describe, expect, test } from 'vitest'
import { LIMITS } from '../../../src/contract/versions.ts'
import { bodyBudget } from '../../../src/network/http/body-budget.ts'
import { WEBSOCKET_LIMITS } from '../../../src/monitors/websocket/definition.ts'
import { FrameReader, OPCODE } from '../../../src/monitors/websocket/frames.ts'
import {
  against as againstServer,
  checkWebSocket,
} from '../../support/monitors/websocket/check-websocket.ts'
import {
  type Behaviour,
  frameOf,
  type Peer,
  startWebSocketServer,
} from '../../support/monitors/websocket/websocket-server.ts'
import { startStopwatch } from '../../support/stopwatch.ts'

const against = (behaviour: Behaviour, request: object = {}, maxResponseTime = 5000) =>
  againstServer(behaviour, { expect: 'never', ...request }, { maxResponseTime })

const onOpen = (act: (peer: Peer) => void): Behaviour => ({ onOpen: act })
/** Sends so many messages of a megabyte. */
const sending = (count: number) =>
  onOpen((peer) => {
    for (let n = 0; n < count; n++) peer.send('a'.repeat(1_000_000))
  })
const TOO_LARGE = 'WEBSOCKET_TOO_LARGE'
const inOneSegment = (...frames: Buffer[]) =>
  onOpen(({ socket }) => void socket.write(Buffer.concat(frames)))

describe('broken rules', () => {
  test.each<[string, (peer: Peer) => void]>([
    ['a masked frame', (peer) => peer.frame(0x81, Buffer.from([1, 2, 3, 4, 5]), 0x81)],
    ['a reserved bit', (peer) => peer.frame(0xc1, 'x')],
    ['an unknown type', (peer) => peer.frame(0x83, 'x')],
    ['an unknown control type', (peer) => peer.frame(0x8b, 'x')],
    ['a split ping', (peer) => peer.frame(0x09, 'x')],
    ['a long ping', (peer) => peer.frame(0x89, 'x'.repeat(126))],
    ['a length in needless bytes', (peer) => peer.frame(0x81, Buffer.from([0, 1, 0x61]), 126)],
    ['a continuation of nothing', (peer) => peer.frame(0x80, 'x')],
    ['a message within a message', (peer) => [0x01, 0x81].forEach((head) => peer.frame(head, 'x'))],
    ['a text that is not UTF-8', (peer) => peer.frame(0x81, Buffer.from([0xc3, 0x28]))],
    ['a close frame of one byte', (peer) => peer.frame(0x88, 'x')],
    ['a close code that no frame may carry', (peer) => peer.close(1006)],
    ['a close code that nobody has defined', (peer) => peer.close(2999)],
    ['a reason that is not UTF-8', (peer) => peer.frame(0x88, Buffer.from([3, 232, 0xff]))],
  ])('%s', async (_, act) => {
    expect((await against(onOpen(act))).codes).toEqual(['WEBSOCKET_PROTOCOL'])
  })

  test('a character that is split between frames breaks none', async () => {
    const euro = Buffer.from('€')
    const split = onOpen((peer) => peer.send(euro.subarray(0, 1), euro.subarray(1)))
    expect((await against(split, { expect: '€' })).codes).toEqual([])
  })
})

describe('too much', () => {
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
  ])('%s', async (_, behaviour, code) => {
    expect((await against(behaviour)).codes).toEqual([code])
  })
})

describe('what ends too early or never', () => {
  test('a close instead of the message names code and reason', async () => {
    const { codes, failures, observed } = await against(onOpen((peer) => peer.close(1011, 'tired')))
    expect(codes).toEqual(['WEBSOCKET_CLOSED'])
    expect(failures[0]?.details).toEqual({ closeCode: 1011 })
    expect(observed).toMatchObject({ closeCode: 1011, closeReason: 'tired' })
  })

  test('an expected message that never comes', async () => {
    const other = onOpen((peer) => peer.send('other'))
    const { codes, failures } = await against(other, {}, 300)
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
  const half = onOpen((peer) => peer.frame(0x01, 'x'))
  test.each<[string, Behaviour, object, string[]]>([
    ['a close without a code', onOpen((peer) => peer.close()), {}, ['WEBSOCKET_CLOSED']],
    [
      'an end without a close',
      onOpen(({ socket }) => void socket.end()),
      {},
      ['CONNECTION_CLOSED'],
    ],
    ['a message whose last frame never comes', half, {}, ['WEBSOCKET_EXPECT']],
    ['a ping without an answer', ignoring(OPCODE.ping), { expect: null }, ['WEBSOCKET_PING']],
    ['a pong of another ping', anotherPong, { expect: null }, ['WEBSOCKET_PING']],
    ['a close without an answer costs no verdict', ignoring(OPCODE.close), { expect: null }, []],
  ])('%s', async (_, behaviour, request, expected) => {
    const { codes, observed } = await against(behaviour, request, 300)
    expect(codes).toEqual(expected)
    expect(observed).not.toHaveProperty('closeCode')
  })
})

test('a close that is not answered is waited for a moment only', async () => {
  Object.assign(WEBSOCKET_LIMITS, { webSocketCloseMsMax: 50 })
  const behaviour: Behaviour = { onControl: (_, opcode) => opcode !== OPCODE.close }
  expect((await against(behaviour, { expect: null })).codes).toEqual([])
})

describe('several frames in one segment are taken in their order', () => {
  test('what follows a close frame is ignored', async () => {
    const close = frameOf(0x88, Buffer.from([0x03, 0xf3]))
    const { codes, failures } = await against(inOneSegment(close, frameOf(0xc1, 'x')))
    expect(codes).toEqual(['WEBSOCKET_CLOSED'])
    expect(failures[0]?.details).toEqual({ closeCode: 1011 })
  })

  test('the expected message counts before a rule that is broken behind it, which is named too', async () => {
    const both = inOneSegment(frameOf(0x81, 'x'), frameOf(0xc1, 'y'))
    const { codes, observed } = await against(both, { expect: 'x' })
    expect(codes).toEqual(['WEBSOCKET_PROTOCOL'])
    expect(observed['message']).toMatchObject({ data: 'x' })
  })
})

test('a feed that nobody reads may be as long as it likes', async () => {
  const { codes, observed } = await against(sending(6), { expect: null })
  expect([codes, observed['messages']]).toEqual([[], 6])
})

test('after a run no memory is reserved', async () => {
  const before = bodyBudget.usedBytes
  await against({ onMessage: (peer, text) => peer.send(text) }, { message: 'x', expect: 'x' })
  expect(bodyBudget.usedBytes).toBe(before)
})

test('a cancelled run rejects at once and lets go of the connection', async () => {
  const opened = Promise.withResolvers<Peer>()
  await using server = await startWebSocketServer(onOpen(opened.resolve))
  const controller = new AbortController()
  const { signal } = controller
  const running = checkWebSocket(
    { url: `ws://${server.authority}/`, expect: 'never' },
    {},
    { signal },
  )
  await opened.promise
  const elapsed = startStopwatch()
  controller.abort(new Error('cancelled'))
  await expect(running).rejects.toThrow('cancelled')
  expect(elapsed()).toBeLessThan(50)
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
