// One ICMP socket and its outstanding echoes: writes and sends requests, and matches each received packet
// with its echo.
import { randomBytes, randomFillSync, randomInt } from 'node:crypto'
import { aboutIn, FAILURES } from '../../contract/failure.ts'
import type { IcmpSocket } from '../../network/native/icmp-socket.ts'
import type { IcmpRequest } from './definition.ts'
import { icmpErrorOf, localError, type IcmpError } from './errors.ts'
import { ICMP_HEADER_BYTES } from '../../network/native/icmp-echo.ts'
import type { Native } from '../../network/native/native.ts'
import type { NativeSocket, Received } from '../../network/native/native-socket.ts'
import type { Watch } from '../../network/native/readiness.ts'
import type { SocketAddress } from '../../network/native/socket-address.ts'
import {
  ERROR_ORIGIN,
  OPTION,
  PATH_MTU,
  POLL,
  TIMESTAMPING,
} from '../../network/native/socket-options.ts'

/** How echoes are sent. */
export type EchoSettings = Pick<IcmpRequest, 'payloadBytes' | 'ttl' | 'dontFragment'>

/** One echo, from before it is sent until its run has ended. Times are those of performance.now(). */
export interface Echo {
  readonly to: SocketAddress
  readonly settings: EchoSettings
  /** Index in the run, from 0. */
  readonly index: number
  /** Receives the outcome. */
  readonly run: EchoOwner
  /** `waiting` from when it was sent. */
  state: 'unsent' | 'waiting' | 'answered' | 'refused' | 'lost'
  sequence: number
  /** The first bytes of the payload, by which a reply is known. */
  token: bigint
  sentAtMs: number
  socket?: EchoSocket
  rttMs?: number
  ttl?: number
  /** Bytes of the reply, ICMP header included. */
  bytes?: number
  /** The reply differs from the request. */
  corrupted?: boolean
  /** ICMP or local error, if any. */
  error?: IcmpError
  /** The agent's socket dropped packets in the meantime: the loss proves nothing. */
  dropped?: boolean
}

/** The run that an echo belongs to. */
export interface EchoOwner {
  /** The first reply, or an error that ends the wait. */
  settled(echo: Echo): void
  /** Replies beyond the first one to an echo. */
  duplicates: number
  /** Replies received after their timeout: they count as lost. */
  late: number
}

/** An echo that is still to be sent. */
export function unsentEcho(echo: Pick<Echo, 'to' | 'settings' | 'index' | 'run'>): Echo {
  return { ...echo, state: 'unsent', sequence: 0, token: 0n, sentAtMs: 0 }
}

/** An echo that the agent itself could not send proves nothing about the target. */
export function wasTried({ error }: Echo): boolean {
  return error?.own === undefined || aboutIn(FAILURES, error.own) === 'target'
}

/** Outcome of an attempt to send. */
export type Sending = 'sent' | 'refused' | 'busy'

/** Requested receive buffer; the kernel grants at most net.core.rmem_max. */
const RECEIVE_BUFFER_BYTES = 4_194_304
/** Buffer overhead of a queued packet; drivers round up. */
const PACKET_OVERHEAD_BYTES = 2304
/** Sequence numbers that are remembered, of 65,536. */
const REMEMBERED_MAX = 32_768
/** Packets read at a time, so that a flood does not block other work. */
const PACKETS_PER_READ_MAX = 4096
/** A call may return the error of an earlier packet: attempts before giving up. */
const SEND_TRIES = 3
const BUSY: ReadonlySet<number> = new Set([11, 105])
const EMSGSIZE = 90

const TOKEN_BYTES = 8
/** Largest payload of an IPv4 packet, without its headers. */
const PAYLOAD_BYTES_MAX = 65_507
/** Every echo is a piece of it, written and sent in one go. Random, so that no other program has the same bytes. */
const outbox = randomFillSync(Buffer.alloc(ICMP_HEADER_BYTES + PAYLOAD_BYTES_MAX))
const PAYLOAD = outbox.subarray(ICMP_HEADER_BYTES)

export class EchoSocket {
  readonly #icmp: IcmpSocket
  readonly #native: Native
  readonly #watch: Watch
  /** Sequence → echo: outstanding ones, and those for which a late reply may arrive. */
  readonly #echoes = new Map<number, Echo>()
  readonly #bufferBytes: number
  readonly #systemTtl: number
  #awaitedBytes = 0
  #waiting = 0
  #sequence: number
  #ttl: number | undefined
  #dontFragment: boolean | undefined
  #drops = 0
  #droppedAtMs = -Infinity

  /**
   * Becomes the owner of the socket; `onRead` is called after received packets were read. Throws a SystemCallError if
   * an option is refused.
   */
  constructor(native: Native, icmp: IcmpSocket, onRead: () => void) {
    this.#native = native
    this.#icmp = icmp
    const { socket } = icmp
    socket.setOption(OPTION.errors[socket.family], 1)
    socket.setOption(OPTION.receiveTtl[socket.family], 1)
    socket.setOption(OPTION.timestamping, TIMESTAMPING)
    this.#bufferBytes = enlarge(socket)
    this.#systemTtl = socket.getOption(OPTION.ttl[socket.family])[0] ?? 64
    this.#sequence = randomInt(0x10000)
    this.#watch = native.watch(socket.fd, POLL.in, () => {
      this.drain()
      onRead()
    })
    this.#watch.pause()
  }

  /** Outstanding echoes. */
  get waiting(): number {
    return this.#waiting
  }

  /** No echo is remembered: the socket may be closed. */
  get isIdle(): boolean {
    return this.#echoes.size === 0
  }

  get mode(): IcmpSocket['mode'] {
    return this.#icmp.mode
  }

  /** Whether the receive buffer has room for one more reply; outstanding replies always fit. */
  hasRoomFor({ payloadBytes }: EchoSettings): boolean {
    if (this.#waiting === 0) return true
    return (
      this.#awaitedBytes + roomFor(payloadBytes) <= this.#bufferBytes &&
      this.#echoes.size < REMEMBERED_MAX
    )
  }

  /** Sends the echo. `busy`: not now; else it is `waiting`, or `refused` with its error. */
  send(echo: Echo): Sending {
    const { socket, format } = this.#icmp
    this.#use(echo.settings)
    echo.sequence = this.#nextSequence()
    echo.token = randomBytes(TOKEN_BYTES).readBigUInt64BE()
    const packet = outbox.subarray(0, ICMP_HEADER_BYTES + echo.settings.payloadBytes)
    packet.writeBigUInt64BE(echo.token, ICMP_HEADER_BYTES)
    format.writeHeader(packet, echo.sequence)
    for (let tries = 1; ; tries++) {
      const beforeMs = performance.now()
      const clockMs = this.#native.clockMs()
      const errno = socket.send(packet, echo.to)
      if (errno === 0) {
        this.#remember(echo)
        const { stampMs = Number.NaN } = this.#readErrors()
        // The kernel's stamp, unless it is another packet's, or the clock was set in between.
        const delayMs = stampMs - clockMs
        const isOurs = delayMs >= 0 && delayMs <= performance.now() - beforeMs
        echo.sentAtMs = isOurs ? beforeMs + delayMs : beforeMs
        return 'sent'
      }
      if (BUSY.has(errno)) return 'busy'
      const { mtu } = this.#readErrors(echo.to.address)
      if (tries < SEND_TRIES) continue
      echo.state = 'refused'
      echo.error = localError(errno, echo.to.address, errno === EMSGSIZE ? mtu : undefined)
      return 'refused'
    }
  }

  #use({ ttl, dontFragment }: EchoSettings): void {
    const { socket } = this.#icmp
    const { family } = socket
    if (ttl !== this.#ttl) {
      socket.setOption(OPTION.ttl[family], ttl ?? this.#systemTtl)
      this.#ttl = ttl
    }
    if (dontFragment === this.#dontFragment) return
    this.#dontFragment = dontFragment
    // IPv6 routers never fragment: without the option the agent's own system does.
    if (family === 'IPv6') socket.setOption(OPTION.dontFragment6, dontFragment ? 1 : 0)
    const otherwise = family === 'IPv6' ? PATH_MTU.want : PATH_MTU.dont
    // `probe` tests the path each time; `always` would use the MTU learnt from the last echo.
    socket.setOption(OPTION.pathMtu[family], dontFragment ? PATH_MTU.probe : otherwise)
  }

  #nextSequence(): number {
    do this.#sequence = (this.#sequence + 1) & 0xffff
    while (this.#echoes.has(this.#sequence))
    return this.#sequence
  }

  #remember(echo: Echo): void {
    echo.socket = this
    echo.state = 'waiting'
    this.#echoes.set(echo.sequence, echo)
    this.#waiting++
    this.#awaitedBytes += roomFor(echo.settings.payloadBytes)
  }

  #release(echo: Echo): void {
    this.#waiting--
    this.#awaitedBytes -= roomFor(echo.settings.payloadBytes)
  }

  /** Marks the echo as timed out; a late reply is still recognised. */
  lose(echo: Echo): void {
    if (echo.state !== 'waiting') return
    this.#release(echo)
    echo.state = 'lost'
    if (this.#hasDroppedSince(echo.sentAtMs)) echo.dropped = true
  }

  /** Removes the echo of an ended run. */
  forget(echo: Echo): void {
    if (this.#echoes.get(echo.sequence) !== echo) return
    if (echo.state === 'waiting') this.#release(echo)
    this.#echoes.delete(echo.sequence)
  }

  /** Reads all received packets and notifies the runs. */
  drain(): void {
    // Replies first: they take precedence over errors received at the same time.
    this.#readReplies()
    this.#readErrors()
  }

  #readReplies(): void {
    const { socket } = this.#icmp
    let received = socket.receive()
    if (received === undefined) return
    // Offset of the kernel's clock to performance.now() at this moment.
    const aheadMs = this.#native.clockMs() - performance.now()
    for (let count = 0; received !== undefined && count < PACKETS_PER_READ_MAX; count++) {
      this.#readReply(received, aheadMs)
      received = socket.receive()
    }
  }

  #readReply(received: Received, aheadMs: number): void {
    const reply = this.#icmp.format.readReply(received.bytes)
    if (reply === undefined) return
    const echo = this.#echoes.get(reply.sequence)
    if (echo === undefined || !hasToken(reply.payload, echo)) return
    const ttl = reply.ttl ?? received.ttl
    const { run } = echo
    if (echo.state === 'answered') return void run.duplicates++
    if (echo.state === 'lost') return void run.late++
    const isFirst = echo.state === 'waiting'
    if (isFirst) this.#release(echo)
    echo.state = 'answered'
    echo.rttMs = roundTrip(echo, received.kernelMs, aheadMs)
    if (ttl !== undefined) echo.ttl = ttl
    echo.bytes = ICMP_HEADER_BYTES + reply.payload.length
    if (!isIntact(reply.payload, echo)) echo.corrupted = true
    // A reply takes precedence over an earlier error, which the run has already received.
    if (isFirst) run.settled(echo)
  }

  /** Empties the error queue; returns the newest timestamp of a sent packet, and the MTU that our own system reports. */
  #readErrors(to?: string): { stampMs?: number; mtu?: number } {
    const found: { stampMs?: number; mtu?: number } = {}
    for (let count = 0; count < PACKETS_PER_READ_MAX; count++) {
      const entry = this.#icmp.socket.receiveError()
      if (entry === undefined) break
      const { error, from, kernelMs } = entry
      if (error?.origin === ERROR_ORIGIN.timestamp && kernelMs !== undefined)
        found.stampMs = kernelMs
      else if (error?.origin === ERROR_ORIGIN.local && from === to) found.mtu = error.info
      else this.#readError(entry)
    }
    return found
  }

  #readError({ bytes, from, error }: Received): void {
    const sent = this.#icmp.format.readRequest(bytes)
    if (sent === undefined || error === undefined) return
    const echo = this.#echoes.get(sent.sequence)
    if (echo === undefined) return
    if (from !== echo.to.address || echo.state === 'answered') return
    const isWhole = sent.payload.length >= TOKEN_BYTES
    if (isWhole && !hasToken(sent.payload, echo)) return
    const said = icmpErrorOf(error, echo.to.address)
    if (said === undefined) return
    echo.error = said
    // An error without the token may be forged: it explains a loss and does not cause one.
    if (!isWhole || echo.state !== 'waiting') return
    this.#release(echo)
    echo.state = 'refused'
    echo.run.settled(echo)
  }

  /** Whether the socket has dropped packets since then because its buffer was full. */
  #hasDroppedSince(ms: number): boolean {
    const drops = this.#icmp.socket.getOption(OPTION.memoryInfo)[8] ?? 0
    if (drops !== this.#drops) {
      this.#drops = drops
      this.#droppedAtMs = performance.now()
    }
    return this.#droppedAtMs >= ms
  }

  /** Whether packets are read as soon as they are received. */
  listen(isListening: boolean): void {
    if (isListening) this.#watch.resume()
    else this.#watch.pause()
  }

  close(): void {
    this.#watch.close()
    this.#icmp.socket.close()
  }
}

function roomFor(payloadBytes: number): number {
  return PACKET_OVERHEAD_BYTES + 2 * payloadBytes
}

/** Whether the payload begins with the echo's token. */
function hasToken(payload: Buffer, { token }: Echo): boolean {
  return payload.length >= TOKEN_BYTES && payload.readBigUInt64BE() === token
}

/** Whether a payload that has its token is what was sent, to the last byte. */
function isIntact(payload: Buffer, { settings: { payloadBytes } }: Echo): boolean {
  return (
    payload.length === payloadBytes &&
    payload.subarray(TOKEN_BYTES).equals(PAYLOAD.subarray(TOKEN_BYTES, payloadBytes))
  )
}

/** Asks for a large receive buffer; returns what the kernel gives. Bytes. */
function enlarge(socket: NativeSocket): number {
  try {
    socket.setOption(OPTION.receiveBufferForce, RECEIVE_BUFFER_BYTES)
  } catch {
    // Only CAP_NET_ADMIN goes beyond the system's limit.
    socket.setOption(OPTION.receiveBuffer, RECEIVE_BUFFER_BYTES)
  }
  return socket.getOption(OPTION.receiveBuffer)[0] ?? 0
}

function roundTrip(echo: Echo, kernelMs: number | undefined, aheadMs: number): number {
  const latestMs = performance.now() - echo.sentAtMs
  const rttMs = (kernelMs ?? Number.NaN) - aheadMs - echo.sentAtMs
  // An impossible value: the clock was set between the packet's arrival and now.
  return rttMs >= 0 && rttMs <= latestMs ? rttMs : latestMs
}
