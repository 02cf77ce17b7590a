// Carries a run's questions for names to the system's name servers. The run gets no datagram sockets, so it
// asks over TCP; many name servers speak UDP only, so its connections end here and are asked on from here.
import { createSocket } from 'node:dgram'
import { createServer, connect, isIPv6, type AddressInfo, type Socket } from 'node:net'

const DNS_PORT = 53
const CONNECTIONS_MAX = 64
const QUESTIONS_MAX = 256
const TRY_MS = 2_000
/** How often all servers are asked in turn, as resolv.conf(5) has it. */
const TRIES = 2
const TRUNCATED = 0x02
const HEADER_BYTES = 12
/** Addresses whose names are remembered. */
const NAMED_MAX = 4096

/** A name server of our own on the loopback addresses, for one run. */
export class NameRelay {
  readonly #servers: readonly string[]
  readonly #serverPort: number
  readonly #ports = new Map<string, Promise<number>>()
  readonly #names = new Map<string, string>()
  #questions = 0

  /** `servers`: addresses of the system's name servers, asked in this order, on that port. */
  constructor(servers: readonly string[], port = DNS_PORT) {
    this.#servers = servers
    this.#serverPort = port
  }

  /** The port on `127.0.0.1` or `::1`; the server starts when it is first asked for. */
  port(loopback: '127.0.0.1' | '::1'): Promise<number> {
    const port = this.#ports.get(loopback) ?? this.#listen(loopback)
    this.#ports.set(loopback, port)
    return port
  }

  /** The newest name that the address was given for. */
  nameOf(address: string): string | undefined {
    return this.#names.get(address)
  }

  #listen(loopback: string): Promise<number> {
    const server = createServer((socket) => this.#serve(socket))
    server.maxConnections = CONNECTIONS_MAX
    return new Promise((resolve, reject) => {
      server.on('error', reject)
      server.listen(0, loopback, () => resolve((server.address() as AddressInfo).port))
    })
  }

  #serve(socket: Socket): void {
    socket.on('error', () => socket.destroy())
    eachMessage(socket, (question) => {
      if (this.#questions >= QUESTIONS_MAX || question.length < HEADER_BYTES) {
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
    await this.#remember(answer, question)
    if (socket.writable) socket.write(framed(answer))
  }

  async #remember(answer: Buffer, question: Buffer): Promise<void> {
    // Loaded at the first answer: the supervisor starts with every run and stays small.
    const { readAnswer } = await import('../../network/dns/message.ts')
    const reading = readAnswer(answer, question)
    if (reading.kind !== 'answer') return
    const { Question, Answer } = reading.message
    const name = (Question[0]?.name ?? '').replace(/\.$/, '').toLowerCase()
    for (const { type, data } of Answer) {
      const isAddress = type === 'A' || type === 'AAAA'
      if (isAddress && (this.#names.size < NAMED_MAX || this.#names.has(data))) {
        this.#names.set(data, name)
      }
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
      if (message.length >= HEADER_BYTES && message.readUInt16BE(0) === question.readUInt16BE(0))
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
