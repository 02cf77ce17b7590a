// Aim: native sockets provide the kernel's data (time stamps, TTLs, ICMP errors with their sender, names of errors),
// share one polling thread, and do not poll when no socket is watched.
import { execFile } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { afterEach, describe, expect, test } from 'vitest'
import { SystemCallError } from '../../../src/network/native/system-call-error.ts'
import { loadNative } from '../../../src/network/native/native.ts'
import type { NativeSocket } from '../../../src/network/native/native-socket.ts'
import { watchedNow, type Watch } from '../../../src/network/native/readiness.ts'
import {
  ERROR_ORIGIN,
  OPTION,
  POLL,
  TIMESTAMPING,
} from '../../../src/network/native/socket-options.ts'

const native = await loadNative()
const run = promisify(execFile)
const opened: { close(): unknown }[] = []
afterEach(() => {
  for (const one of opened.splice(0).toReversed()) one.close()
})

type Family = 'IPv4' | 'IPv6'
const LOOPBACK: Record<Family, string> = { IPv4: '127.0.0.1', IPv6: '::1' }
const FAMILIES = ['IPv4', 'IPv6'] as const

function udpSocket(family: Family): NativeSocket {
  const socket = native.open({ family, type: 'datagram', protocol: 'udp' })
  opened.push(socket)
  socket.setOption(OPTION.errors[family], 1)
  socket.setOption(OPTION.receiveTtl[family], 1)
  socket.bind(native.address(LOOPBACK[family], 0))
  return socket
}

function closing(one: Watch): Watch {
  opened.push(one)
  return one
}

/** Resolves with the events that the socket is ready for, and closes the watch. */
function ready(socket: NativeSocket, events: number): Promise<number> {
  return new Promise((resolve) => {
    const one = closing(
      native.watch(socket.fd, events, (readyEvents) => {
        one.close()
        resolve(readyEvents)
      }),
    )
  })
}

/** A closed UDP port of the loopback. */
async function closedPort(family: Family): Promise<number> {
  const socket = createSocket(family === 'IPv6' ? 'udp6' : 'udp4')
  socket.bind(0, LOOPBACK[family])
  await once(socket, 'listening')
  const { port } = socket.address()
  socket.close()
  return port
}

describe.each(FAMILIES)('packets over %s', (family) => {
  test('come with the sender, their TTL and the kernel’s clock', async () => {
    const [one, other] = [udpSocket(family), udpSocket(family)]
    other.setOption(OPTION.timestamps, 1)
    one.setOption(OPTION.ttl[family], 37)
    const port = other.localPort()
    const before = native.clockMs()
    expect(one.send(Buffer.from('hello'), native.address(LOOPBACK[family], port))).toBe(0)
    expect(await ready(other, POLL.in)).toBe(POLL.in)
    const received = other.receive()
    expect(received?.bytes.toString()).toBe('hello')
    expect(received).toMatchObject({ from: LOOPBACK[family], ttl: 37 })
    expect(received?.kernelMs).toBeGreaterThanOrEqual(before)
    expect(received?.kernelMs).toBeLessThanOrEqual(native.clockMs())
    expect(other.receive()).toBeUndefined()
  })

  test('stamps of sent packets wait in the error queue', () => {
    const socket = udpSocket(family)
    socket.setOption(OPTION.timestamping, TIMESTAMPING)
    const port = socket.localPort()
    const before = native.clockMs()
    socket.send(Buffer.from('x'), native.address(LOOPBACK[family], port))
    const stamp = socket.receiveError()
    expect(stamp?.error?.origin).toBe(ERROR_ORIGIN.timestamp)
    expect(stamp?.kernelMs).toBeGreaterThanOrEqual(before)
    expect(stamp?.kernelMs).toBeLessThanOrEqual(native.clockMs())
  })

  test('an ICMP error has our packet, its destination and the sender of the error', async () => {
    const socket = udpSocket(family)
    const port = await closedPort(family)
    expect(socket.send(Buffer.from('anybody?'), native.address(LOOPBACK[family], port))).toBe(0)
    expect((await ready(socket, POLL.in)) & POLL.error).toBe(POLL.error)
    const received = socket.receiveError()
    expect(received?.bytes.toString()).toBe('anybody?')
    expect(received).toMatchObject({
      from: LOOPBACK[family],
      error: {
        errno: 111,
        origin: family === 'IPv6' ? ERROR_ORIGIN.icmp6 : ERROR_ORIGIN.icmp,
        type: family === 'IPv6' ? 1 : 3,
        code: family === 'IPv6' ? 4 : 3,
        offender: LOOPBACK[family],
      },
    })
    expect(socket.receiveError()).toBeUndefined()
    expect(socket.receive()).toBeUndefined()
  })

  test('a connection starts without blocking, and readiness reports the outcome', async () => {
    const server = createServer((peer) => peer.destroy())
    opened.push(server)
    server.listen(0, LOOPBACK[family])
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const socket = native.open({ family, type: 'stream', protocol: 'tcp' })
    opened.push(socket)
    expect(socket.connect(native.address(LOOPBACK[family], port))).toBe(false)
    expect((await ready(socket, POLL.out)) & POLL.out).toBe(POLL.out)
    expect(socket.getOption(OPTION.error)).toEqual([0])
  })
})

describe('errors of system calls', () => {
  test('have the same names as in Node', () => {
    const socket = udpSocket('IPv4')
    let thrown: unknown
    try {
      socket.bind(native.address('192.0.2.1', 0))
    } catch (error) {
      thrown = error
    }
    expect(thrown).toBeInstanceOf(SystemCallError)
    expect(thrown).toMatchObject({ syscall: 'bind', errno: 99, code: 'EADDRNOTAVAIL' })
  })

  test('a closed socket receives nothing and may be closed again', () => {
    const socket = udpSocket('IPv4')
    socket.close()
    expect(socket.receive()).toBeUndefined()
    expect(socket.receiveError()).toBeUndefined()
    socket.close()
  })
})

describe('waiting', () => {
  test('a paused watch reports nothing, and reports missed events when resumed', async () => {
    const [one, other] = [udpSocket('IPv4'), udpSocket('IPv4')]
    const to = native.address('127.0.0.1', other.localPort())
    let called = 0
    const paused = closing(native.watch(other.fd, POLL.in, () => called++))
    paused.pause()
    one.send(Buffer.from('x'), to)
    // Another socket's round has come and gone.
    one.send(Buffer.from('y'), native.address('127.0.0.1', one.localPort()))
    await ready(one, POLL.in)
    expect(called).toBe(0)
    paused.close()
    expect(await ready(other, POLL.in)).toBe(POLL.in)
  })

  test('hundreds of sockets wait in one thread, also those that come while it waits', async () => {
    const sender = udpSocket('IPv4')
    const sockets = Array.from({ length: 300 }, () => udpSocket('IPv4'))
    const first = sockets.slice(0, 150).map((socket) => ready(socket, POLL.in))
    await new Promise((resolve) => setTimeout(resolve, 20))
    const rest = sockets.slice(150).map((socket) => ready(socket, POLL.in))
    for (const socket of sockets) {
      sender.send(Buffer.from('x'), native.address('127.0.0.1', socket.localPort()))
    }
    expect(await Promise.all([...first, ...rest])).toEqual(Array(300).fill(POLL.in))
    expect(watchedNow()).toBe(0)
  })

  test.each([
    ['a process ends by itself when nothing is watched', 'one.close()'],
    ['a paused watch does not keep it', 'one.pause()'],
    ['process.exit does not wait for the thread', 'process.exit(0)'],
  ])('%s', async (_, ending) => {
    const { href } = new URL('../../../src/network/native/native.ts', import.meta.url)
    const script = `
      import { loadNative } from '${href}'
      const native = await loadNative()
      const socket = native.open({ family: 'IPv4', type: 'datagram', protocol: 'udp' })
      const one = native.watch(socket.fd, 1, () => undefined)
      setTimeout(() => {
        console.log(Date.now())
        ${ending}
      }, 50)`
    const { stdout } = await run(process.execPath, ['--input-type=module-typescript', '-e', script])
    // A round of polling lasts a second unless it is ended.
    expect(Date.now() - Number(stdout)).toBeLessThan(700)
  })
})
