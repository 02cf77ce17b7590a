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
export async function askOverUdp(
  options: UdpQueryOptions,
  tally: UdpTally,
  signal: AbortSignal,
): Promise<UdpAnswer> {
  signal.throwIfAborted()
  const query = new UdpQuery(options, tally)
  const onAbort = () => query.abort(signal)
  signal.addEventListener('abort', onAbort)
  try {
    return await query.run()
  } finally {
    signal.removeEventListener('abort', onAbort)
    query.close()
  }
}

/** A server and the socket that is connected to it; late answers still count. */
interface Peer {
  server: DnsServer
  socket?: Socket
  /** It refused or was passed over: it is not asked again. */
  isUseless: boolean
}

class UdpQuery {
  readonly #options: UdpQueryOptions
  readonly #tally: UdpTally
  readonly #peers: Peer[]
  readonly #ending = Promise.withResolvers<UdpAnswer>()
  #tries = 0
  #timer: NodeJS.Timeout | undefined
  #failed: Failure | undefined
  /** The first answer for which another server would be preferred. */
  #poor: UdpAnswer | undefined

  constructor(options: UdpQueryOptions, tally: UdpTally) {
    this.#options = options
    this.#tally = tally
    this.#peers = options.servers.map((server) => ({ server, isUseless: false }))
  }

  run(): Promise<UdpAnswer> {
    this.#next()
    return this.#ending.promise
  }

  abort(signal: AbortSignal): void {
    // A poor answer still counts when no better one has arrived.
    if (this.#poor !== undefined && isDeadline(signal)) this.#ending.resolve(this.#poor)
    else this.#ending.reject(signal.reason)
  }

  close(): void {
    clearTimeout(this.#timer)
    for (const { socket } of this.#peers) socket?.close()
  }

  /** Starts the next try; ends when no server is left, and waits when no try is left. */
  #next(): void {
    clearTimeout(this.#timer)
    const { attempts, tryMs } = this.#options
    const { length } = this.#peers
    if (this.#peers.every(({ isUseless }) => isUseless)) {
      if (this.#poor !== undefined) this.#ending.resolve(this.#poor)
      else this.#ending.reject(this.#failed && new TargetFailure(this.#failed))
      return
    }
    while (this.#peers[this.#tries % length]?.isUseless === true) this.#tries++
    if (this.#tries >= length * attempts) return
    const peer = this.#peers[this.#tries++ % length] as Peer
    if (this.#tries < length * attempts) this.#timer = setTimeout(() => this.#next(), tryMs)
    this.#ask(peer)
  }

  #ask(peer: Peer): void {
    if (peer.socket !== undefined) return this.#send(peer.socket)
    const { address, port } = peer.server
    try {
      const socket = createSocket(familyOf(address) === 'IPv6' ? UDP6 : UDP4)
      peer.socket = socket
      socket.on('error', (error) => this.#onError(peer, error))
      socket.on('message', (bytes) => this.#onMessage(peer, bytes))
      socket.on('connect', () => this.#send(socket))
      socket.connect(port, address)
    } catch (error) {
      this.#onError(peer, error as NodeJS.ErrnoException)
    }
  }

  #send(socket: Socket): void {
    try {
      // Without a callback errors come as events, and the kernel accepts small datagrams at once.
      socket.send(this.#options.query)
      this.#tally.sent++
    } catch {
      // Not connected yet: it sends when it is.
    }
  }

  #onMessage(peer: Peer, bytes: Buffer): void {
    const { server } = peer
    const reading = readAnswer(bytes, this.#options.query)
    switch (reading.kind) {
      case 'other':
        this.#tally.ignored++
        this.#tally.ignoredReason = reading.reason
        return
      case 'malformed':
        this.#ending.reject(malformedAnswer(placeOf(server.address, server.port), reading.reason))
        return
      case 'truncated':
        this.#ending.resolve({ server, bytes: bytes.length, message: undefined })
        return
      case 'answer':
      default: {
        const { message } = reading
        const answer = { server, bytes: bytes.length, message }
        if (this.#peers.length === 1 || !this.#options.passesOver(message)) {
          this.#ending.resolve(answer)
          return
        }
        this.#poor ??= answer
        this.#passOver(peer, message.Status)
      }
    }
  }

  #onError(peer: Peer, error: NodeJS.ErrnoException): void {
    this.#failed ??= udpFailure(error, peer.server)
    this.#passOver(peer, error.code ?? error.message)
  }

  #passOver(peer: Peer, reason: string): void {
    if (peer.isUseless) return
    peer.isUseless = true
    if (this.#peers.length > 1) {
      this.#tally.passedOver.push({ address: peer.server.address, reason })
    }
    this.#next()
  }
}

/** The error for an answer that cannot be decoded. */
export function malformedAnswer(where: string, reason: string): TargetFailure {
  const message = `the answer of ${where} is not a valid DNS message: ${reason}`
  return targetFailure('DNS_MALFORMED', message, { where, reason })
}

// For addresses there is nothing to look up; Node would wait a turn for it.
const optionsFor = (type: 'udp4' | 'udp6', family: 4 | 6): SocketOptions => ({
  type,
  lookup: (address, _options, callback) => callback(null, address, family),
})
const UDP4 = optionsFor('udp4', 4)
const UDP6 = optionsFor('udp6', 6)

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
