// A name server on one free port of UDP and TCP with arbitrary wrong answers.
import { createSocket, type RemoteInfo } from 'node:dgram'
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import packet, { type Packet } from 'dns-packet'

/** The answer to a query. Without it the server never answers. */
export interface Misdeeds {
  udp?: (query: Buffer, send: (datagram: Buffer) => void, peer: RemoteInfo) => void
  tcp?: (query: Buffer, socket: Socket) => void
}

export interface HostileNameServer extends AsyncDisposable {
  port: number
  /** Received queries, as bytes. */
  queries: Buffer[]
  /** Number of open connections. */
  open(): number
  /** Resolves at the first query or connection. */
  reached: Promise<void>
}

/** Starts the server. */
export async function startHostileNameServer(misdeeds: Misdeeds): Promise<HostileNameServer> {
  const queries: Buffer[] = []
  const sockets = new Set<Socket>()
  const { promise: reached, resolve: reach } = Promise.withResolvers<void>()
  const udp = createSocket('udp4')
  udp.on('message', (query: Buffer, peer: RemoteInfo) => {
    queries.push(query)
    reach()
    misdeeds.udp?.(query, (datagram) => udp.send(datagram, peer.port, peer.address), peer)
  })
  const tcp = createServer((socket) => {
    sockets.add(socket)
    reach()
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    socket.on('data', (chunk: Buffer) => {
      const query = chunk.subarray(2)
      queries.push(query)
      misdeeds.tcp?.(query, socket)
    })
  })
  const port = await bindBoth(udp, tcp)
  return {
    port,
    queries,
    open: () => sockets.size,
    reached,
    async [Symbol.asyncDispose]() {
      const closed = [once(udp, 'close'), once(tcp, 'close')]
      udp.close()
      tcp.close()
      for (const socket of sockets) socket.destroy()
      await Promise.all(closed)
    },
  }
}

/** One port for both protocols; another process may use it for one of them. */
async function bindBoth(
  udp: ReturnType<typeof createSocket>,
  tcp: ReturnType<typeof createServer>,
): Promise<number> {
  for (let tries = 0; ; tries++) {
    tcp.listen(0, '127.0.0.1')
    await once(tcp, 'listening')
    const { port } = tcp.address() as { port: number }
    udp.bind(port, '127.0.0.1')
    try {
      await once(udp, 'listening')
      return port
    } catch (error) {
      if (tries === 10) throw error
      tcp.close()
      await once(tcp, 'close')
    }
  }
}

/** A correct answer to the query: one address, or `more`. */
export function rightAnswer(query: Buffer, more: Packet & { rcode?: number } = {}): Buffer {
  const { id = 0, questions = [] } = packet.decode(query)
  const { rcode = 0, flags = 0, ...rest } = more
  const name = questions[0]?.name ?? ''
  return packet.encode({
    type: 'response',
    id,
    flags: flags | rcode | packet.RECURSION_AVAILABLE,
    questions,
    answers: [{ type: 'A', name, ttl: 60, data: '192.0.2.1' }],
    ...rest,
  })
}

/** The message with two bytes of length before it. */
export function framed(message: Buffer): Buffer {
  const head = Buffer.alloc(2)
  head.writeUInt16BE(message.length)
  return Buffer.concat([head, message])
}

/** A copy with one 16-bit word changed. */
export function withWord(message: Buffer, at: number, change: (word: number) => number): Buffer {
  const copy = Buffer.from(message)
  copy.writeUInt16BE(change(copy.readUInt16BE(at)) & 0xffff, at)
  return copy
}

/** Answers every datagram with this function. */
export function overUdp(answer: (query: Buffer) => Buffer | Buffer[]): Misdeeds {
  return { udp: (query, send) => [answer(query)].flat().forEach((one) => send(one)) }
}

/** Answers every query on a connection with this function. */
export function overTcp(answer: (query: Buffer) => Buffer): Misdeeds {
  return { tcp: (query, socket) => void socket.write(framed(answer(query))) }
}

/** Truncates the message and appends these bytes. */
export function withTail(message: Buffer, end: number, ...bytes: number[]): Buffer {
  return Buffer.concat([message.subarray(0, end), Buffer.from(bytes)])
}

/** Offset of the answer section of `rightAnswer` for www.zone.example. */
export const ANSWER_AT = 12 + 18 + 4
