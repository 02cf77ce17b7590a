// Sockets that the supervisor makes behave like those of the run: options, waiting, errors, ends.
import type { Socket } from 'node:net'
import { dirname } from 'node:path'
import { chmodSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  missingFor,
  startStandIn,
  type StandIn,
  type StandInAnswer,
} from '../../support/sandbox/stand-in.ts'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { startRawServer, type TestServer } from '../../support/test-server.ts'

const project = dirname(dirname(dirname(import.meta.dirname)))
/** Its connections, as its server saw them. */
const accepted: Socket[] = []
let server: TestServer

beforeAll(async () => {
  server = await startRawServer((socket) => {
    accepted.push(socket)
    socket.write('hello\n')
  })
})
afterAll(() => server.close())

/** The C library as scripts below use it, and an IPv4 address of loopback. */
const NATIVE = `const koffi = require(${JSON.stringify(`${project}/node_modules/koffi`)})
const libc = koffi.load(null)
const c = (prototype) => libc.func(prototype)
const socket = c('int socket(int, int, int)'), connect = c('int connect(int, void *, int)')
const bind = c('int bind(int, void *, int)'), close = c('int close(int)'), dup = c('int dup(int)')
const setsockopt = c('int setsockopt(int, int, int, void *, int)')
const getsockopt = c('int getsockopt(int, int, int, void *, void *)')
const fcntl = c('int fcntl(int, int, long)'), poll = c('int poll(void *, long, int)')
const epollCreate = c('int epoll_create1(int)'), epollCtl = c('int epoll_ctl(int, int, int, void *)')
const epollWait = c('int epoll_wait(int, void *, int, int)')
const address = (port) => { const a = Buffer.alloc(16); a.writeUInt16LE(2); a.writeUInt16BE(port, 2); a.set([127, 0, 0, 1], 4); return a }
const int32 = (value) => { const b = Buffer.alloc(4); b.writeInt32LE(value); return b }
const option = (fd, level, name) => { const v = int32(0); getsockopt(fd, level, name, v, int32(4)); return v.readInt32LE() }
const result = (value) => (value < 0 ? 'errno ' + koffi.errno() : value)
const port = Number(process.argv[1]), STREAM = 1, NONBLOCK = 0o4000, CLOEXEC = 0o2000000
const ready = (fd) => { const p = Buffer.alloc(8); p.writeInt32LE(fd); p.writeInt16LE(4, 4); return poll(p, 1, 5000) }
`

const CASES: [what: string, script: string, says: string[]][] = [
  [
    'a socket keeps its flags, its options and who waits for it',
    `const fd = socket(2, STREAM | NONBLOCK | CLOEXEC, 0), epoll = epollCreate(0)
setsockopt(fd, 6, 1, int32(1), 4); setsockopt(fd, 1, 9, int32(1), 4)
const event = Buffer.alloc(12); event.writeUInt32LE(4); event.writeInt32LE(fd, 4)
epollCtl(epoll, 1, fd, event)
const first = result(connect(fd, address(port), 16))
console.log(first === 0 || first === 'errno 115', epollWait(epoll, Buffer.alloc(12), 1, 5000))
console.log(option(fd, 6, 1), option(fd, 1, 9), option(fd, 1, 4), fcntl(fd, 1, 0), (fcntl(fd, 3, 0) & NONBLOCK) !== 0)`,
    ['true 1', '1 1 0 1 true'],
  ],
  [
    'a call that waits comes back connected, by a copy of the descriptor, too, and only once',
    `const fd = socket(2, STREAM, 0), other = dup(fd)
console.log(fcntl(fd, 1, 0), (fcntl(fd, 3, 0) & NONBLOCK) !== 0)
console.log(result(connect(other, address(port), 16)), result(connect(fd, address(port), 16)))`,
    ['0 false', '0 errno 106'],
  ],
  [
    'a refusal is reported, and the socket may try again',
    `const fd = socket(2, STREAM, 0), free = socket(2, STREAM, 0)
console.log(result(bind(free, address(0), 16)), result(connect(fd, address(1), 16)), result(connect(fd, address(port), 16)))`,
    ['0 errno 111 0'],
  ],
  [
    'a refusal is left for who asks for it later',
    `const fd = socket(2, STREAM | NONBLOCK, 0), first = result(connect(fd, address(1), 16))
console.log(first === 'errno 111' || (ready(fd) === 1 && option(fd, 1, 4) === 111))`,
    ['true'],
  ],
  [
    'an address is free as soon as the socket is closed, or no longer listens',
    `const { createServer, connect: dial } = require('node:net')
const fd = socket(2, STREAM, 0)
const taken = address(0); bind(fd, taken, 16)
const size = int32(16); c('int getsockname(int, void *, void *)')(fd, taken, size)
const freed = taken.readUInt16BE(2)
close(fd)
console.log(result(bind(socket(2, STREAM, 0), address(freed), 16)))
const again = (port, left) => { const one = createServer().listen(port, '127.0.0.1', () => {
  const { port: own } = one.address()
  one.close(() => dial(own, '127.0.0.1').on('error', (e) => { console.log(e.code); if (left > 0) again(own, left - 1) }))
}).on('error', (e) => console.log(e.code)) }
again(0, 3)`,
    ['0', ...Array.from({ length: 4 }, () => 'ECONNREFUSED')],
  ],
  [
    'a descriptor that is no socket, or not open, has an error of its own',
    `console.log(result(connect(777, address(port), 16)), result(connect(epollCreate(0), address(port), 16)))
console.log(result(socket(2, 2, 0)), result(socket(2, STREAM | 0x100000, 0)), result(socket(16, 3, 0)) > 0)`,
    ['errno 9 errno 88', 'errno 13 errno 22 true'],
  ],
]

describe.each(['root of a container', 'nobody in a container'] as const)('with %s', (as) => {
  const missing = missingFor(as)
  let standIn: StandIn

  beforeAll(async () => {
    if (missing !== undefined) return
    const root = temporaryFolder()
    chmodSync(root, 0o777)
    standIn = await startStandIn(root, as)
  })
  afterAll(() => standIn?.kill())

  const run = (script: string, more = {}): Promise<StandInAnswer> =>
    standIn.run({
      command: process.execPath,
      args: ['-e', NATIVE + script, String(server.port)],
      readable: [`${project}/node_modules`],
      ...more,
    })

  test.skipIf(missing !== undefined).for(CASES)(`%s ${missing ?? ''}`, async ([, script, says]) => {
    const { end } = await run(script)
    expect(end.tail.stderr).toBe('')
    expect(end.tail.stdout.trim().split('\n')).toEqual(says)
    expect(end).toMatchObject({ outcome: 'exited', leftBehind: 0 })
  })

  test.skipIf(missing !== undefined)(
    `a connection ends when the run closes it ${missing ?? ''}`,
    async () => {
      const before = accepted.length
      const ended = run(
        `const fd = socket(2, STREAM, 0); connect(fd, address(port), 16); close(fd)
const late = socket(2, STREAM | NONBLOCK, 0); connect(late, address(port), 16); ready(late); close(late)
setInterval(() => {}, 1000); console.log('closed')`,
        { echo: true, limits: { wallMs: 20_000 }, stopAt: 'never' },
      )
      const gone = () => accepted.slice(before).filter((one) => one.readableEnded || one.destroyed)
      await eventually(() => {
        for (const one of accepted.slice(before)) one.resume()
        return gone().length === 2
      })
      // It still runs: what ended its connections was that it closed them.
      let isOver = false
      void ended.then(() => (isOver = true))
      await new Promise((resolve) => setImmediate(resolve))
      expect(isOver).toBe(false)
    },
  )

  test.skipIf(missing !== undefined)(`a shell connects as anywhere ${missing ?? ''}`, async () => {
    const { end } = await standIn.run({
      command: '/bin/bash',
      args: ['-c', `exec 3<>/dev/tcp/127.0.0.1/${server.port} && read -r line <&3 && echo "$line"`],
    })
    expect(end.tail.stdout).toBe('hello\n')
  })
})
