// Answers echo requests of loopback in place of the kernel, correctly and in every wrong way. As a program it
// runs one ICMP monitor against itself: `node echo-answers.ts <name of the answers> <monitor as JSON>`, in a
// namespace whose kernel ignores echoes.
import { randomBytes } from 'node:crypto'
import { internetChecksum } from '../../../../src/network/native/icmp-echo.ts'
import { icmp } from '../../../../src/monitors/icmp/index.ts'
import { loadNative, type Native } from '../../../../src/network/native/native.ts'
import type { NativeSocket } from '../../../../src/network/native/native-socket.ts'
import { POLL } from '../../../../src/network/native/socket-options.ts'
import { definitionOf, type Fields } from '../../definitions.ts'
import { testContext } from '../monitor-context.ts'

/** A request, and the means to answer it. */
interface Request {
  /** The packet from its IP header on. */
  packet: Buffer
  /** A right reply, to be sent or changed first. */
  reply: Buffer
  /** How many requests came before. */
  count: number
  send: (message: Buffer, from?: string) => void
}

/** Where the ICMP message begins in a packet of loopback. */
const HEADER_BYTES = 20
const TOKEN_AT = 8

function changed(message: Buffer, at: number): Buffer {
  const copy = Buffer.from(message)
  copy.writeUInt8(copy.readUInt8(at) ^ 0xff, at)
  return copy
}

/** An ICMP error with the first bytes of the packet in it. */
function objection({ packet }: Request, type: number, code: number, bytes: number): Buffer {
  return Buffer.concat([Buffer.from([type, code, 0, 0, 0, 0, 0, 0]), packet.subarray(0, bytes)])
}

const BARE = HEADER_BYTES + 8
let first: Buffer | undefined

/** Ways to answer. */
export const ANSWERS = {
  right: ({ reply, send }) => send(reply),
  twice: ({ reply, send }) => {
    send(reply)
    send(reply)
  },
  swapped: ({ reply, count, send }) => {
    if (count % 2 === 0) first = reply
    else {
      send(reply)
      if (first !== undefined) send(first)
    }
  },
  'one of four changed': ({ reply, count, send }) =>
    send(count % 4 === 0 ? changed(reply, reply.length - 1) : reply),
  'cut short': ({ reply, send }) => send(reply.subarray(0, 40)),
  'too long': ({ reply, send }) => send(Buffer.concat([reply, Buffer.alloc(8)])),
  'without payload': ({ reply, send }) => send(reply.subarray(0, 8)),
  'with another token': ({ reply, send }) => send(changed(reply, TOKEN_AT)),
  'with another sequence': ({ reply, send }) => {
    const other = Buffer.from(reply)
    other.writeUInt16BE((other.readUInt16BE(6) + 1) & 0xffff, 6)
    send(other)
  },
  'with another identifier': ({ reply, send }) => send(changed(reply, 4)),
  late: ({ reply, send }) => setTimeout(() => send(reply), 150),
  'from another address': ({ reply, send }) => send(reply, '127.0.0.9'),
  // Anybody can make those: nothing of the request's token is in them.
  'a forged objection, then the reply': (request) => {
    request.send(objection(request, 3, 1, BARE))
    setTimeout(() => request.send(request.reply), 20)
  },
  'a forged objection': (request) => request.send(objection(request, 3, 1, BARE)),
  'an objection with another token, then the reply': (request) => {
    const whole = objection(request, 3, 1, request.packet.length)
    request.send(changed(whole, 8 + HEADER_BYTES + TOKEN_AT))
    setTimeout(() => request.send(request.reply), 20)
  },
  'the reply, then an objection': (request) => {
    request.send(request.reply)
    request.send(objection(request, 3, 1, request.packet.length))
  },
  'an objection': (request) => request.send(objection(request, 12, 0, request.packet.length)),
  'garbage, then the reply': (request) => {
    const { reply, send } = request
    for (let size = 8; size < 600; size = size * 2 + 1) {
      const noise = randomBytes(size)
      for (const type of [0, 3, 11, 12]) {
        noise.writeUInt8(type, 0)
        send(noise)
        send(Buffer.concat([Buffer.from([type, 0, 0, 0]), reply.subarray(4, 8), noise]))
      }
    }
    for (let bytes = 0; bytes <= BARE; bytes += 7) send(objection(request, 3, 4, bytes))
    send(reply)
  },
} satisfies Record<string, (request: Request) => unknown>
export type Answers = keyof typeof ANSWERS

/** Begins to answer. */
function answer(native: Native, how: Answers): void {
  const open = (address: string): NativeSocket => {
    const socket = native.open({ family: 'IPv4', type: 'raw', protocol: 'icmp' })
    socket.bind(native.address(address, 0))
    return socket
  }
  const listening = open('127.0.0.1')
  const senders = new Map<string, NativeSocket>()
  const senderFor = (address: string) => {
    const known = senders.get(address) ?? open(address)
    senders.set(address, known)
    return known
  }
  const home = native.address('127.0.0.1', 0)
  const send = (message: Buffer, from = '127.0.0.1') => {
    const whole = Buffer.from(message)
    whole.writeUInt16BE(0, 2)
    whole.writeUInt16BE(internetChecksum(whole), 2)
    senderFor(from).send(whole, home)
  }
  let count = 0
  native.watch(listening.fd, POLL.in, () => {
    for (let one = listening.receive(); one !== undefined; one = listening.receive()) {
      const packet = Buffer.from(one.bytes)
      if (packet.readUInt8(HEADER_BYTES) !== 8) continue
      const reply = Buffer.from(packet.subarray(HEADER_BYTES))
      reply.writeUInt8(0, 0)
      ANSWERS[how]({ packet, reply, count: count++, send })
    }
  })
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const [how = 'right', monitorJson = '{}'] = process.argv.slice(2)
  answer(await loadNative(), how as Answers)
  const monitor = icmp.schema.parse(definitionOf('ICMP', JSON.parse(monitorJson) as Fields))
  const observation = await icmp.prepare(monitor)(testContext())
  process.stdout.write(JSON.stringify(observation), () => process.exit(0))
}
