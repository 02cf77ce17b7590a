// Carries a run's questions for names to the system's name servers. The run gets no datagram sockets, so it
// asks over TCP; many name servers speak UDP only, so its connections end here and are asked on from here.
import { createSocket } from 'node:dgram'
import { createServer, connect, isIPv6, type AddressInfo, type Server, type Socket } from 'node:net'
import { ipv6Text } from '../../network/ip-address.ts'

const DNS_PORT = 53
const CONNECTIONS_MAX = 64
const QUESTIONS_MAX = 256
const TRY_MS = 2_000
/** How often all servers are asked in turn, as resolv.conf(5) has it. */
const TRIES = 2
const TRUNCATED = 0x02
/** Addresses whose names are remembered. */
const NAMED_MAX = 4096

/** A name server of our own on the loopback addresses, for one run. */
export class NameRelay {
  readonly #servers: readonly string[]
  readonly #serverPort: number
  readonly #ports = new Map<string, Promise<number>>()
  readonly #listening: Server[] = []
  readonly #names = new Map<string, string>()
  #questions = 0

  /** `servers`: addresses of the system's name servers, asked in this order, on that port. */
  constructor(servers: readonly string[], port = DNS_PORT) {
    this.#servers = servers
    this.#serverPort = port
  }

  /** The port on `127.0.0.1` or `::1`; the server starts when it is first asked for. */
  port(loopback: '127.0.0.1' | '::1'): Promise<number> {
    let port = this.#ports.get(loopback)
    if (port === undefined) {
      port = this.#listen(loopback)
      this.#ports.set(loopback, port)
    }
    return port
  }

  /** The newest name that the address was given for. */
  nameOf(address: string): string | undefined {
    return this.#names.get(address)
  }

  close(): void {
    for (const one of this.#listening) one.close()
  }

  #listen(loopback: string): Promise<number> {
    const server = createServer((socket) => this.#serve(socket))
    server.maxConnections = CONNECTIONS_MAX
    this.#listening.push(server)
    return new Promise((resolve, reject) => {
      server.on('error', reject)
      server.listen(0, loopback, () => resolve((server.address() as AddressInfo).port))
    })
  }

  #serve(socket: Socket): void {
    socket.on('error', () => socket.destroy())
    eachMessage(socket, (question) => {
      if (this.#questions >= QUESTIONS_MAX) {
        socket.destroy()
        return
      }
      this.#questions++
      void this.#answer(question, socket).finally(() => this.#questions--)
    })
  }

  async #answer(question: Buffer, socket: Socket): Promise<void> {
    const answer = await this.#ask(question)
    if (answer === undefined) {
      socket.destroy()
      return
    }
    // Before the run knows the address, and may be refused it.
    this.#remember(answer)
    if (socket.writable) socket.write(framed(answer))
  }

  #remember(answer: Buffer): void {
    const { name, addresses } = namedAddresses(answer) ?? { name: '', addresses: [] }
    for (const address of addresses) {
      if (this.#names.size < NAMED_MAX || this.#names.has(address)) this.#names.set(address, name)
    }
  }

  async #ask(question: Buffer): Promise<Buffer | undefined> {
    for (let attempt = 0; attempt < TRIES; attempt++) {
      for (const server of this.#servers) {
        const answer = await askDatagram(server, this.#serverPort, question)
        if (answer === undefined) continue
        const isWhole = ((answer[2] ?? 0) & TRUNCATED) === 0
        return isWhole ? answer : ((await askStream(server, this.#serverPort, question)) ?? answer)
      }
    }
    return undefined
  }
}

/** Calls back with each message of the stream: two bytes of length, then the message (RFC 1035, 4.2.2). */
function eachMessage(socket: Socket, onMessage: (message: Buffer) => void): void {
  let rest: Buffer = Buffer.alloc(0)
  socket.on('data', (chunk: Buffer) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    while (rest.length >= 2 && rest.length >= 2 + rest.readUInt16BE(0)) {
      const end = 2 + rest.readUInt16BE(0)
      onMessage(rest.subarray(2, end))
      rest = rest.subarray(end)
    }
  })
}

function framed(message: Buffer): Buffer {
  const length = Buffer.alloc(2)
  length.writeUInt16BE(message.length)
  return Buffer.concat([length, message])
}

/** Asks by UDP; undefined when no answer to this very question comes in time. */
function askDatagram(server: string, port: number, question: Buffer): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const socket = createSocket(isIPv6(server) ? 'udp6' : 'udp4')
    const done = (answer: Buffer | undefined) => {
      clearTimeout(timer)
      socket.removeAllListeners().on('error', ignore).close()
      resolve(answer)
    }
    const timer = setTimeout(() => done(undefined), TRY_MS)
    socket.once('error', () => done(undefined))
    socket.on('message', (message) => {
      if (message.length >= 12 && message.readUInt16BE(0) === question.readUInt16BE(0))
        done(message)
    })
    // Connected: answers from anybody else do not arrive. A callback in its place is also called where no
    // packet can be sent there.
    socket.once('connect', () => socket.send(question))
    socket.connect(port, server)
  })
}

const ignore = () => {}

/** Asks by TCP, for answers that are too long for a datagram. */
function askStream(server: string, port: number, question: Buffer): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const socket = connect(port, server)
    const done = (answer: Buffer | undefined) => {
      clearTimeout(timer)
      socket.destroy()
      resolve(answer)
    }
    const timer = setTimeout(() => done(undefined), TRY_MS)
    socket.on('error', () => done(undefined))
    socket.on('end', () => done(undefined))
    socket.on('connect', () => socket.write(framed(question)))
    eachMessage(socket, done)
  })
}

// The supervisor starts with every run and stays small: it reads names and addresses itself (RFC 1035, 4.1; RFC 3596).
const HEADER_BYTES = 12
const POINTER = 0xc0
const LABEL_BYTES_MAX = 63
const [A, AAAA] = [1, 28]
const PLAIN_NAME = /^[\w-]+(?:\.[\w-]+)*$/

/** What was asked for and its addresses. */
export interface NamedAddresses {
  name: string
  addresses: string[]
}

/** Reads the answer; undefined where it is none that can be read, or the name is of a rare kind. */
export function namedAddresses(answer: Buffer): NamedAddresses | undefined {
  try {
    if (answer.readUInt16BE(4) !== 1) return undefined
    const labels: string[] = []
    let at = HEADER_BYTES
    for (let length = answer.readUInt8(at); length > 0; length = answer.readUInt8(at)) {
      if (length > LABEL_BYTES_MAX) return undefined
      labels.push(answer.toString('latin1', at + 1, at + 1 + length))
      at += length + 1
    }
    const name = labels.join('.').toLowerCase()
    return PLAIN_NAME.test(name) ? { name, addresses: addressesAfter(answer, at + 5) } : undefined
  } catch {
    // Shorter than it says of itself.
    return undefined
  }
}

function addressesAfter(answer: Buffer, start: number): string[] {
  const found: string[] = []
  let at = start
  for (let left = answer.readUInt16BE(6); left > 0; left--) {
    at = afterName(answer, at)
    const [type, length] = [answer.readUInt16BE(at), answer.readUInt16BE(at + 8)]
    at += 10
    if (type === A && length === 4) found.push(answer.subarray(at, at + 4).join('.'))
    else if (type === AAAA && length === 16) found.push(ipv6Text(answer, at))
    at += length
  }
  return found
}

function afterName(answer: Buffer, start: number): number {
  for (let at = start; ;) {
    const length = answer.readUInt8(at)
    if (length >= POINTER) return at + 2
    at += length + 1
    if (length === 0) return at
  }
}
