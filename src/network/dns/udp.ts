// A DNS query over UDP: each server has a connected socket with a random port of its own, so that the kernel
// drops packets from other senders; the query is sent again after a while, as in resolv.conf(5).
import { createSocket, type Socket, type SocketOptions } from 'node:dgram'
import { failure, type Failure } from '../../contract/failure.ts'
import { connectFailure, placeOf } from '../connect-errors.ts'
import { readAnswer, type DnsMessage } from './message.ts'
import { familyOf } from '../ip-address.ts'
import { isDeadline } from '../deadline.ts'
import { TargetFailure, targetFailure } from '../target-failure.ts'

/** Address of a name server. */
export interface DnsServer {
  /** A literal that the network policy has passed. */
  address: string
  port: number
}

export interface UdpQueryOptions {
  /** At least one, in the order in which they are asked. */
  servers: readonly DnsServer[]
  /** The message, with its id. */
  query: Buffer
  /** How often each server is asked. */
  attempts: number
  /** How long an answer is awaited before the next try. Milliseconds. */
  tryMs: number
  /** Whether to prefer another server's answer to this one. */
  passesOver(message: DnsMessage): boolean
}

/** Counts of datagrams; correct also for a cancelled query. */
export interface UdpTally {
  sent: number
  /** Received datagrams that were no answer to the query. */
  ignored: number
  /** Why the last of those was ignored. */
  ignoredReason?: string
  /** Unusable servers with the reason, in the order of events. */
  passedOver: { address: string; reason: string }[]
}

export interface UdpAnswer {
  server: DnsServer
  bytes: number
  /** Undefined when it is truncated. */
  message: DnsMessage | undefined
}

/**
 * Asks until an answer comes. Rejects with TargetFailure (CONNECT_… when every server refused, DNS_MALFORMED,
 * RESOURCES_EXHAUSTED, ADDRESS_BLOCKED by the system), or the signal's reason. `tally` is updated continuously.
 */
export function askOverUdp(
  options: UdpQueryOptions,
  tally: UdpTally,
  signal: AbortSignal,
): Promise<UdpAnswer> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) reject(signal.reason as Error)
    else new UdpQuery(options, tally, signal, resolve, reject).next()
  })
}

type Settle = (error: unknown, answer?: UdpAnswer) => void

class UdpQuery {
  readonly #options: UdpQueryOptions
  readonly #tally: UdpTally
  readonly #signal: AbortSignal
  readonly #settle: Settle
  readonly #onAbort = () => {
    // A poor answer still counts when no better one has arrived.
    this.#settle(this.#signal.reason, isDeadline(this.#signal) ? this.#poor : undefined)
  }
  /** One socket for each queried server; late answers still count. */
  readonly #sockets: (Socket | undefined)[] = []
  /** Servers that refused or were passed over: they are not queried again. */
  readonly #useless = new Set<DnsServer>()
  #tries = 0
  #timer: NodeJS.Timeout | undefined
  #failed: Failure | undefined
  /** The first answer for which another server would be preferred. */
  #poor: UdpAnswer | undefined
  #settled = false

  constructor(
    options: UdpQueryOptions,
    tally: UdpTally,
    signal: AbortSignal,
    resolve: (answer: UdpAnswer) => void,
    reject: (error: unknown) => void,
  ) {
    this.#options = options
    this.#tally = tally
    this.#signal = signal
    signal.addEventListener('abort', this.#onAbort)
    this.#settle = (error, answer) => {
      if (this.#settled) return
      this.#settled = true
      this.#letGo()
      if (answer === undefined) reject(error)
      else resolve(answer)
    }
  }

  /** Starts the next try; settles when no server is left, and waits when no try is left. */
  next(): void {
    clearTimeout(this.#timer)
    const { servers, attempts, tryMs } = this.#options
    if (this.#useless.size === servers.length) {
      this.#settle(this.#failed && new TargetFailure(this.#failed), this.#poor)
      return
    }
    let at = this.#tries % servers.length
    while (this.#useless.has(servers[at] as DnsServer)) {
      this.#tries++
      at = this.#tries % servers.length
    }
    if (this.#tries >= servers.length * attempts) return
    this.#tries++
    if (this.#tries < servers.length * attempts) {
      this.#timer = setTimeout(() => this.next(), tryMs)
    }
    this.#ask(at, servers[at] as DnsServer)
  }

  #ask(at: number, server: DnsServer): void {
    const open = this.#sockets[at]
    if (open !== undefined) {
      this.#send(open)
      return
    }
    try {
      const socket = createSocket(familyOf(server.address) === 'IPv6' ? UDP6 : UDP4)
      this.#sockets[at] = socket
      socket.on('error', (error) => this.#onError(server, error))
      socket.on('message', (bytes) => this.#onMessage(server, bytes))
      socket.on('connect', () => this.#send(socket))
      socket.connect(server.port, server.address)
    } catch (error) {
      this.#onError(server, error as NodeJS.ErrnoException)
    }
  }

  #send(socket: Socket): void {
    if (this.#settled) return
    try {
      // Without a callback errors come as events, and the kernel accepts small datagrams at once.
      socket.send(this.#options.query)
      this.#tally.sent++
    } catch {
      // Not connected yet: it sends when it is.
    }
  }

  #onMessage(server: DnsServer, bytes: Buffer): void {
    if (this.#settled) return
    const { query, servers } = this.#options
    const reading = readAnswer(bytes, query)
    switch (reading.kind) {
      case 'other':
        this.#tally.ignored++
        this.#tally.ignoredReason = reading.reason
        return
      case 'malformed':
        this.#settle(malformedAnswer(placeOf(server.address, server.port), reading.reason))
        return
      case 'truncated':
        this.#settle(undefined, { server, bytes: bytes.length, message: undefined })
        return
      case 'answer':
      default: {
        const { message } = reading
        const answer = { server, bytes: bytes.length, message }
        if (servers.length === 1 || !this.#options.passesOver(message)) {
          this.#settle(undefined, answer)
          return
        }
        this.#poor ??= answer
        this.#passOver(server, message.Status)
      }
    }
  }

  #onError(server: DnsServer, error: NodeJS.ErrnoException): void {
    if (this.#settled) return
    this.#failed ??= udpFailure(error, server)
    this.#passOver(server, error.code ?? error.message)
  }

  #passOver(server: DnsServer, reason: string): void {
    if (this.#useless.has(server)) return
    this.#useless.add(server)
    if (this.#options.servers.length > 1) {
      this.#tally.passedOver.push({ address: server.address, reason })
    }
    this.next()
  }

  #letGo(): void {
    clearTimeout(this.#timer)
    this.#signal.removeEventListener('abort', this.#onAbort)
    for (const socket of this.#sockets) socket?.close()
  }
}

/** The error for an answer that cannot be decoded. */
export function malformedAnswer(where: string, reason: string): TargetFailure {
  const message = `the answer of ${where} is not a valid DNS message: ${reason}`
  return targetFailure('DNS_MALFORMED', message, { where, reason })
}

// For addresses there is nothing to look up; Node would wait a turn for it.
type Lookup = NonNullable<SocketOptions['lookup']>
const asItIs =
  (family: number): Lookup =>
  (address, _options, callback) =>
    callback(null, address, family)
const UDP4: SocketOptions = { type: 'udp4', lookup: asItIs(4) }
const UDP6: SocketOptions = { type: 'udp6', lookup: asItIs(6) }

/** No port or buffer is left for a socket: nothing that the server did. */
const OUT_OF_PORTS: ReadonlySet<string> = new Set(['EADDRINUSE', 'EADDRNOTAVAIL', 'EAGAIN'])

function udpFailure(error: NodeJS.ErrnoException, server: DnsServer): Failure {
  const where = placeOf(server.address, server.port)
  if (OUT_OF_PORTS.has(error.code ?? '')) {
    const message = `this agent is out of local ports (${error.code})`
    return failure('RESOURCES_EXHAUSTED', message, { where })
  }
  return connectFailure(error, where)
}
