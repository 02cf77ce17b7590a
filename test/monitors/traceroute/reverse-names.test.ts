// Aim: names of addresses come from a name server without ever being waited for longer than a moment, are
// kept, and a server that is silent or wrong costs nothing but the names.
import { createSocket, type RemoteInfo } from 'node:dgram'
import { once } from 'node:events'
import { afterEach, describe, expect, test } from 'vitest'
import { createReverseNames } from '../../../src/monitors/traceroute/reverse-names.ts'
import { startStopwatch } from '../../support/stopwatch.ts'

type Reply = { name: string } | 'NXDOMAIN' | 'silent' | 'garbage'

const servers: { close(): void }[] = []
afterEach(() => {
  for (const server of servers.splice(0)) server.close()
})

/** A name server that answers every PTR question alike; counts the questions. */
async function nameServer(reply: () => Reply) {
  const socket = createSocket('udp4')
  servers.push(socket)
  const asked = { count: 0 }
  socket.on('message', (query: Buffer, peer: RemoteInfo) => {
    asked.count++
    const said = reply()
    if (said === 'silent') return
    if (said === 'garbage')
      return socket.send(Buffer.from('no name server'), peer.port, peer.address)
    socket.send(answerTo(query, said), peer.port, peer.address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  return { servers: [`127.0.0.1:${socket.address().port}`], asked }
}

function answerTo(query: Buffer, said: { name: string } | 'NXDOMAIN'): Buffer {
  let end = 12
  while (query[end] !== 0) end += (query[end] ?? 0) + 1
  end += 5
  const header = Buffer.from(query.subarray(0, 12))
  header.writeUInt16BE(said === 'NXDOMAIN' ? 0x8183 : 0x8180, 2)
  header.writeUInt16BE(said === 'NXDOMAIN' ? 0 : 1, 6)
  header.writeUInt32BE(0, 8)
  if (said === 'NXDOMAIN') return Buffer.concat([header, query.subarray(12, end)])
  const labels = said.name.split('.').map((label) => {
    return Buffer.concat([Buffer.from([label.length]), Buffer.from(label)])
  })
  const data = Buffer.concat([...labels, Buffer.from([0])])
  const record = Buffer.from([0xc0, 12, 0, 12, 0, 1, 0, 0, 0, 60, 0, data.length])
  return Buffer.concat([header, query.subarray(12, end), record, data])
}

const never = new AbortController().signal

test('a name is asked for once, and kept', async () => {
  const { servers: list, asked } = await nameServer(() => ({ name: 'r1.example' }))
  const names = createReverseNames({ servers: list })
  names.ask('192.0.2.1')
  expect(names.name('192.0.2.1')).toBeUndefined()
  await names.settle(['192.0.2.1'], 5000, never)
  expect(names.name('192.0.2.1')).toBe('r1.example')
  names.ask('192.0.2.1')
  await names.settle(['192.0.2.1'], 5000, never)
  expect(asked.count).toBe(1)
})

test('IPv6, and addresses with a zone', async () => {
  const { servers: list } = await nameServer(() => ({ name: 'six.example' }))
  const names = createReverseNames({ servers: list })
  for (const address of ['2001:db8::1', 'fe80::1%eth0']) {
    names.ask(address)
    await names.settle([address], 5000, never)
    expect(names.name(address)).toBe('six.example')
  }
})

test('a name that changes is seen ten minutes later, and an old one shown until then', async () => {
  let name = 'old.example'
  let nowMs = 0
  const { servers: list } = await nameServer(() => ({ name }))
  const names = createReverseNames({ servers: list, now: () => nowMs })
  names.ask('192.0.2.1')
  await names.settle(['192.0.2.1'], 5000, never)
  name = 'new.example'
  nowMs = 599_000
  names.ask('192.0.2.1')
  expect(names.name('192.0.2.1')).toBe('old.example')
  nowMs = 601_000
  names.ask('192.0.2.1')
  expect(names.name('192.0.2.1')).toBe('old.example')
  await expect.poll(() => names.name('192.0.2.1')).toBe('new.example')
})

describe('no name', () => {
  test('of an address that has none is not asked for again for a minute', async () => {
    let nowMs = 0
    const { servers: list, asked } = await nameServer(() => 'NXDOMAIN')
    const names = createReverseNames({ servers: list, now: () => nowMs })
    for (const atMs of [0, 59_000, 61_000]) {
      nowMs = atMs
      names.ask('192.0.2.1')
      await names.settle(['192.0.2.1'], 5000, never)
      expect(names.name('192.0.2.1')).toBeUndefined()
    }
    expect(asked.count).toBe(2)
  })

  test.each(['silent', 'garbage'] as const)(
    'of a server that is %s: the wait is short',
    async (reply) => {
      const { servers: list } = await nameServer(() => reply)
      const names = createReverseNames({ servers: list })
      names.ask('192.0.2.1')
      const ownMs = startStopwatch()
      await names.settle(['192.0.2.1'], 100, never)
      expect(ownMs()).toBeLessThan(1000)
      expect(names.name('192.0.2.1')).toBeUndefined()
    },
  )

  test('once a server was silent, the next run does not wait', async () => {
    const { servers: list, asked } = await nameServer(() => 'silent')
    const names = createReverseNames({ servers: list })
    names.ask('192.0.2.1')
    await names.settle(['192.0.2.1'], 10_000, never)
    names.ask('192.0.2.1')
    const ownMs = startStopwatch()
    await names.settle(['192.0.2.1'], 10_000, never)
    expect(ownMs()).toBeLessThan(100)
    expect(asked.count).toBe(1)
  })

  test('of what is no address', async () => {
    const names = createReverseNames({ servers: ['127.0.0.1:9'] })
    names.ask('no address')
    await names.settle(['no address'], 1000, never)
    expect(names.name('no address')).toBeUndefined()
  })
})

test('an aborted signal ends the wait at once', async () => {
  const { servers: list } = await nameServer(() => 'silent')
  const names = createReverseNames({ servers: list })
  names.ask('192.0.2.1')
  const controller = new AbortController()
  const ownMs = startStopwatch()
  const settled = names.settle(['192.0.2.1'], 10_000, controller.signal)
  controller.abort()
  await settled
  expect(ownMs()).toBeLessThan(50)
})
