// Aim: what all echoes share holds up: times survive a clock that is set, bursts are paced, buffers are never
// asked to hold more than they can, what they drop is known to be ours, and refusals become data.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { unsentEcho, type Echo, type EchoSettings } from '../../../src/monitors/icmp/echo-socket.ts'
import { IcmpRequest } from '../../../src/monitors/icmp/definition.ts'
import { icmpErrorOf, localError } from '../../../src/monitors/icmp/errors.ts'
import { emptyObserved, observedOf } from '../../../src/monitors/icmp/observed.ts'
import { EchoExchange } from '../../../src/monitors/icmp/exchange.ts'
import { EchoRun } from '../../../src/monitors/icmp/run.ts'
import { SystemCallError } from '../../../src/network/native/system-call-error.ts'
import { loadNative, type Native } from '../../../src/network/native/native.ts'
import type { NativeSocket } from '../../../src/network/native/native-socket.ts'
import { OPTION, type SocketOption } from '../../../src/network/native/socket-options.ts'
import { eventually } from '../../support/eventually.ts'
import { withoutEchoes } from '../../support/needs.ts'

const real = await loadNative()
const never = new AbortController().signal
const HOUR_MS = 3_600_000
const EPERM = 1
const EMFILE = 24
const ENOBUFS = 105

const noEchoes = withoutEchoes()
beforeEach(({ skip }) => skip(noEchoes !== undefined, noEchoes))

const sent: { exchange: EchoExchange; echoes: Echo[] }[] = []
afterEach(() => {
  for (const { exchange, echoes } of sent.splice(0)) exchange.forget(echoes)
})

/** A native layer whose sockets the test changes before they are used. */
function withSockets(change: (socket: NativeSocket) => void): Native & { opened: number } {
  const native = {
    ...real,
    opened: 0,
    open(kind: Parameters<Native['open']>[0]) {
      const socket = real.open(kind)
      native.opened++
      change(socket)
      return socket
    },
  }
  return native
}

/** Makes the receive buffer that large, as a system would that allows no more. */
function limitBuffer(socket: NativeSocket, bytes: number): void {
  const setOption = socket.setOption.bind(socket)
  socket.setOption = (option: SocketOption, value: number) => {
    if (option === OPTION.receiveBufferForce) throw new SystemCallError('setsockopt', EPERM)
    setOption(option, option === OPTION.receiveBuffer ? bytes / 2 : value)
  }
}

const SMALL: EchoSettings = { payloadBytes: 56, ttl: undefined, dontFragment: false }

function sendMany(exchange: EchoExchange, count: number, settings = SMALL) {
  const settled: Echo[] = []
  const run = { settled: (echo: Echo) => settled.push(echo), duplicates: 0, late: 0 }
  const to = real.address('127.0.0.1', 0)
  const echoes = Array.from({ length: count }, (_, index) =>
    unsentEcho({ to, settings, index, run }),
  )
  sent.push({ exchange, echoes })
  for (const echo of echoes) exchange.send(echo)
  return { echoes, settled }
}

/** Opens the sockets, and lets the kernel begin to stamp packets. */
async function warm(native: Native = real): Promise<EchoExchange> {
  const exchange = new EchoExchange(native, 'IPv4')
  const { settled } = sendMany(exchange, 1)
  await eventually(() => settled.length === 1)
  return exchange
}

function statesOf(echoes: readonly Echo[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { state } of echoes) counts[state] = (counts[state] ?? 0) + 1
  return counts
}

test.each([
  ['back, before the reply is read', 0, -HOUR_MS],
  ['forward, while it is sent', HOUR_MS, 0],
  ['not at all', 0, 0],
])('a clock that is set while an echo is under way: %s', async (_, atSendMs, atReadMs) => {
  let stepMs = 0
  const native = { ...real, clockMs: () => real.clockMs() + stepMs }
  const exchange = await warm(native)
  stepMs = atSendMs
  const beganMs = performance.now()
  const { echoes } = sendMany(exchange, 1)
  stepMs = atReadMs
  exchange.drain()
  const tookMs = performance.now() - beganMs
  const [echo] = echoes
  expect(echo?.state).toBe('answered')
  expect(echo?.rttMs).toBeGreaterThanOrEqual(0)
  expect(echo?.rttMs).toBeLessThanOrEqual(tookMs)
  expect(echo?.sentAtMs).toBeGreaterThanOrEqual(beganMs)
  expect(echo?.sentAtMs).toBeLessThanOrEqual(beganMs + tookMs)
})

describe('many at once', () => {
  test('are sent in bursts, through one socket, and none is lost', async () => {
    const native = withSockets(() => undefined)
    const exchange = await warm(native)
    // However long it takes to send one, all are wished for at the same moment.
    const clock = vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 10)
    const { echoes, settled } = sendMany(exchange, 3000)
    clock.mockRestore()
    expect(statesOf(echoes)['unsent']).toBe(3000 - 64)
    await eventually(() => settled.length === 3000)
    expect(statesOf(echoes)).toEqual({ answered: 3000 })
    expect(native.opened).toBe(1)
  })

  test('go through more sockets where buffers are small', async () => {
    const native = withSockets((socket) => limitBuffer(socket, 212_992))
    const exchange = await warm(native)
    const { echoes, settled } = sendMany(exchange, 40, { ...SMALL, payloadBytes: 60_000 })
    await eventually(() => settled.length === 40)
    expect(statesOf(echoes)).toEqual({ answered: 40 })
    expect(native.opened).toBeGreaterThan(1)
    expect(native.opened).toBeLessThanOrEqual(40)
  })

  test('that our own buffer dropped are known', async () => {
    const native = withSockets((socket) => {
      limitBuffer(socket, 8192)
      const getOption = socket.getOption.bind(socket)
      // The system claims more room than there is.
      socket.getOption = (option) =>
        option === OPTION.receiveBuffer ? [8_388_608] : getOption(option)
    })
    const exchange = await warm(native)
    const { echoes } = sendMany(exchange, 60)
    exchange.drain()
    const missing = echoes.filter(({ state }) => state === 'waiting')
    expect(missing.length).toBeGreaterThan(0)
    exchange.lose(missing)
    expect(missing.every(({ state, dropped }) => state === 'lost' && dropped === true)).toBe(true)
  })
})

test('a reply that came while this process was busy is not lost', async () => {
  const exchange = await warm()
  // From here on timers have their turn before anybody looks for replies.
  await new Promise((resolve) => setImmediate(resolve))
  const order = { ...SMALL, pingCount: 1, intervalMs: 10, timeoutMs: 20 }
  const run = new EchoRun(exchange, real.address('127.0.0.1', 0), order, never)
  const busyUntil = performance.now() + 100
  while (performance.now() < busyUntil);
  await run.done
  expect(statesOf(run.echoes)).toEqual({ answered: 1 })
  expect(run.echoes[0]?.rttMs).toBeLessThan(20)
})

test('a system that refuses: descriptors: the echo is refused, and the next one tries again', async () => {
  let isFull = true
  const native: Native = {
    ...real,
    open(kind) {
      if (isFull) throw new SystemCallError('socket', EMFILE)
      return real.open(kind)
    },
  }
  const exchange = new EchoExchange(native, 'IPv4')
  const { echoes, settled } = sendMany(exchange, 1)
  expect(settled).toHaveLength(1)
  expect(echoes[0]).toMatchObject({ state: 'refused', error: { code: 'RESOURCES_EXHAUSTED' } })
  isFull = false
  const { settled: again } = sendMany(exchange, 1)
  await eventually(() => again[0]?.state === 'answered')
})

test('a system that refuses: buffers: the echo is sent a little later', async () => {
  let refusals = 3
  const native = withSockets((socket) => {
    const send = socket.send.bind(socket)
    socket.send = (packet, to) => (refusals-- > 0 ? ENOBUFS : send(packet, to))
  })
  const exchange = new EchoExchange(native, 'IPv4')
  const { settled } = sendMany(exchange, 1)
  await eventually(() => settled.length === 1)
  expect(settled[0]?.state).toBe('answered')
  expect(refusals).toBeLessThan(0)
})

test('a time stamp is no error', () => {
  const stamp = { errno: 42, origin: 4, type: 0, code: 0, info: 0, offender: undefined }
  expect(icmpErrorOf(stamp, '192.0.2.9')).toBeUndefined()
})

test.each([
  [13, 'ADDRESS_BLOCKED'],
  [22, 'CONNECT_FAILED'],
  [90, 'ICMP_TOO_LARGE'],
  [99, 'CONNECT_UNREACHABLE'],
  [101, 'CONNECT_UNREACHABLE'],
  [105, 'RESOURCES_EXHAUSTED'],
])('errno %i of our own system: %s', (errno, code) => {
  expect(localError(errno, '2001:db8::1').code).toBe(code)
})

test.each([
  ['lost', { state: 'lost' }],
  ['refused', { state: 'refused', error: { code: 'ICMP_REJECTED', name: 'of a router' } }],
  ['corrupted', { state: 'answered', rttMs: 1, bytes: 64, corrupted: true }],
])('an echo that is %s has a reason', (_, echo) => {
  const run = { echoes: [{ index: 0, ...echo }] } as unknown as EchoRun
  const request = IcmpRequest.parse({ hostname: '192.0.2.9' })
  expect(observedOf(emptyObserved(request), '192.0.2.9', run).pingResults).toMatchObject([
    { success: false, error: expect.any(String) as string },
  ])
})
