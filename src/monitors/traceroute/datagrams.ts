// UDP, ICMP and SCTP probes: one socket for the whole trace, so that all its packets are one flow.
import type { TracerouteCode } from './definition.ts'
import { openIcmpSocket } from '../../network/native/icmp-socket.ts'
import { isRefusal, SystemCallError } from '../../network/native/system-call-error.ts'
import type { Native } from '../../network/native/native.ts'
import type { NativeSocket, Received } from '../../network/native/native-socket.ts'
import type { Watch } from '../../network/native/readiness.ts'
import { echoMarks, MARK_BYTES, sctpMarks, udpMarks, type Marks } from './marks.ts'
import type { SocketAddress } from '../../network/native/socket-address.ts'
import { ERROR_ORIGIN, OPTION, PATH_MTU, POLL } from '../../network/native/socket-options.ts'
import { targetFailure } from '../../network/target-failure.ts'
import type { Probe } from './course.ts'
import {
  answerOf,
  prepare,
  type Prober,
  type ProbeListener,
  type ProbeSettings,
  type UntimedAnswer,
} from './prober.ts'

/** Headers of IP and UDP, or of IP and an ICMP echo. Bytes. */
const HEADERS_BYTES = { IPv4: 28, IPv6: 48 } as const
/** Payload of traceroute(8). */
const PAYLOAD_BYTES = 32

const EMSGSIZE = 90
/** EAGAIN, ENOMEM, ENOBUFS: the socket buffer is full. */
const NO_ROOM_ERRNOS: ReadonlySet<number> = new Set([11, 12, 105])
/** Errors of earlier packets that one call may return before it sends. */
const PENDING_MAX = 8

interface Opened {
  socket: NativeSocket
  marks: Marks
  /** Undefined where the socket is still to be bound. */
  sourcePort?: number
}

/**
 * Opens the socket. Throws a SystemCallError where the system refuses, and a TargetFailure
 * (ICMP_NOT_PERMITTED, …) where it lets us send no echoes.
 */
export function openDatagramProber(
  native: Native,
  settings: ProbeSettings,
  listener: ProbeListener,
): Prober {
  const opened = openSocket(native, settings)
  try {
    return new DatagramProber(native, opened, settings, listener)
  } catch (error) {
    opened.socket.close()
    throw error
  }
}

function openSocket(native: Native, settings: ProbeSettings): Opened {
  const { protocol, family, port, sourcePort } = settings
  if (protocol === 'ICMP') {
    const { socket, format, identifier } = openIcmpSocket(native, family, sourcePort)
    return { socket, marks: echoMarks(format), sourcePort: identifier }
  }
  if (protocol === 'SCTP') {
    const marks = sctpMarks({ family, sourcePort, port })
    return { socket: openRawSctp(native, settings), marks, sourcePort }
  }
  return { socket: native.open({ family, type: 'datagram', protocol: 'udp' }), marks: udpMarks() }
}

/**
 * The kernel's SCTP does not report which router answers, and most kernels have none: probes need a raw
 * socket.
 */
function openRawSctp(native: Native, { family, protocol }: ProbeSettings): NativeSocket {
  try {
    return native.open({ family, type: 'raw', protocol: 'sctp' })
  } catch (error) {
    if (!isRefusal(error)) throw error
    const message = [
      'this agent may not trace with SCTP, for which it needs raw sockets: run it as root with the',
      'capability NET_RAW (docker run --user 0 --cap-add NET_RAW, or in Kubernetes securityContext',
      '{runAsUser: 0, capabilities: {add: [NET_RAW]}}), or trace with TCP, UDP or ICMP, which need none',
    ].join(' ')
    const details = { protocol, reason: error.code }
    throw targetFailure<TracerouteCode>('TRACE_UNSUPPORTED', message, details)
  }
}

/** A probe and the size of its whole packet. */
interface Sent {
  probe: Probe
  bytes: number
}

class DatagramProber implements Prober {
  readonly sourcePort: number
  readonly #native: Native
  readonly #socket: NativeSocket
  readonly #marks: Marks
  readonly #settings: ProbeSettings
  readonly #listener: ProbeListener
  readonly #watch: Watch
  readonly #target: SocketAddress
  /** The probe with the number in its mark, counted from 1. */
  readonly #sent: Sent[] = []
  readonly #headersBytes: number
  #payloadBytes: number

  constructor(native: Native, opened: Opened, settings: ProbeSettings, listener: ProbeListener) {
    const { socket, marks } = opened
    const { address, port, family, packetBytes, protocol } = settings
    this.#native = native
    this.#socket = socket
    this.#marks = marks
    this.#settings = settings
    this.#listener = listener
    // Raw packets contain their ports; the kernel would interpret one as a protocol.
    this.#target = native.address(address, protocol === 'UDP' ? port : 0)
    this.#headersBytes = HEADERS_BYTES[family]
    this.#payloadBytes =
      packetBytes === undefined ? PAYLOAD_BYTES : packetBytes - this.#headersBytes
    this.sourcePort = opened.sourcePort ?? socket.bindPort(settings.sourcePort)
    this.#setUp()
    this.#watch = native.watch(socket.fd, POLL.in, () => this.look())
  }

  #setUp(): void {
    const socket = this.#socket
    const { family, packetBytes } = this.#settings
    prepare(socket)
    if (packetBytes !== undefined) {
      socket.setOption(OPTION.pathMtu[family], PATH_MTU.probe)
      if (family === 'IPv6') socket.setOption(OPTION.dontFragment6, 1)
    }
    // From now on the kernel delivers only packets of the target, and errors about packets to it.
    socket.connect(this.#target)
  }

  send(probe: Probe): boolean {
    this.#socket.setOption(OPTION.ttl[this.#settings.family], probe.ttl)
    const sent = { probe, bytes: this.#payloadBytes + this.#headersBytes }
    this.#sent.push(sent)
    const packet = this.#marks.packet(this.#sent.length, this.#payloadBytes)
    probe.clockMs = this.#native.clockMs()
    let errno = this.#socket.send(packet)
    // The returned error may be that of an earlier packet.
    for (let tries = 1; errno !== 0 && tries < PENDING_MAX; tries++) {
      if (errno === EMSGSIZE || NO_ROOM_ERRNOS.has(errno)) break
      this.look()
      errno = this.#socket.send(packet)
    }
    if (errno === 0) return true
    if (NO_ROOM_ERRNOS.has(errno)) return false
    if (errno !== EMSGSIZE) throw new SystemCallError('send', errno)
    this.look()
    // Usually the error queue has the MTU by now.
    if (probe.state === 'under-way') this.#tooBig(sent, 0, undefined)
    return true
  }

  /** Reads all received packets; poll reports readiness until then. */
  look(): void {
    for (let error = this.#socket.receiveError(); error; error = this.#socket.receiveError()) {
      this.#readError(error)
    }
    for (let packet = this.#socket.receive(); packet; packet = this.#socket.receive()) {
      this.#readReply(packet)
    }
  }

  #readError({ error, bytes, kernelMs }: Received): void {
    if (error === undefined) return
    if (error.origin === ERROR_ORIGIN.local) {
      // It belongs to the packet being sent.
      const sent = this.#sent.at(-1)
      if (error.errno === EMSGSIZE && sent !== undefined) this.#tooBig(sent, error.info, undefined)
      return
    }
    const number = this.#marks.numberInError(bytes)
    if (number === undefined) return
    const sent = this.#sent[number - 1]
    // A number that was never sent is none of ours.
    if (sent === undefined && number > 0) return
    const answer = answerOf(this.#settings.family, error, this.#target.address)
    if (answer !== undefined) this.#listener.onAnswer(sent?.probe, answer, kernelMs)
    else if (sent !== undefined) this.#tooBig(sent, error.info, error.offender)
  }

  #readReply({ bytes, kernelMs, from }: Received): void {
    if (from !== this.#target.address) return
    const reply = this.#marks.reply(bytes)
    const sent = reply === undefined ? undefined : this.#sent[reply.number - 1]
    if (sent !== undefined) {
      const answer: UntimedAnswer = { kind: 'target', from }
      if (reply?.portState !== undefined) answer.portState = reply.portState
      this.#listener.onAnswer(sent.probe, answer, kernelMs)
      return
    }
    // Any packet of the target shows that it is reachable, even if it names no probe.
    const farthest = this.#settings.protocol === 'UDP' ? this.#farthest() : undefined
    if (farthest === undefined) return
    this.#listener.onAnswer(farthest, { kind: 'target', from, portState: 'open' }, kernelMs)
  }

  /** The farthest probe in flight. */
  #farthest(): Probe | undefined {
    return this.#sent
      .map(({ probe }) => probe)
      .filter(({ state }) => state === 'under-way')
      .toSorted((one, other) => other.ttl - one.ttl)[0]
  }

  #tooBig({ probe, bytes }: Sent, mtuBytes: number, from: string | undefined): void {
    // Old routers report no MTU.
    const fits = mtuBytes > 0 && mtuBytes < bytes ? mtuBytes : Math.floor(bytes / 2)
    const payloadBytes = Math.max(fits - this.#headersBytes, MARK_BYTES)
    this.#payloadBytes = Math.min(this.#payloadBytes, payloadBytes)
    this.#listener.onTooBig(probe, mtuBytes > 0 ? mtuBytes : undefined, from)
  }

  close(): void {
    this.#watch.close()
    this.#socket.close()
  }
}
