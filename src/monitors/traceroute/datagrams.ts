// UDP, ICMP and SCTP probes: one socket for the whole trace, so that all its packets are one flow.
import type { TracerouteCode } from './definition.ts'
import type { Family } from '../../network/dial.ts'
import { openIcmpSocket } from '../../network/native/icmp-socket.ts'
import { SystemCallError } from '../../network/native/libc.ts'
import type { Native, NativeSocket, Received } from '../../network/native/native-socket.ts'
import { watch, type Watch } from '../../network/native/readiness.ts'
import { createSctpMarks, createMarks, HEADER_BYTES, MARK_BYTES, type Marks } from './marks.ts'
import type { SocketAddress } from '../../network/native/socket-address.ts'
import { ERROR_ORIGIN, OPTION, PATH_MTU, POLL } from '../../network/native/socket-options.ts'
import { targetFailure } from '../../network/target-failure.ts'
import type { Probe } from './course.ts'
import {
  answerOf,
  roundTripMs,
  type Prober,
  type ProbeListener,
  type UntimedAnswer,
} from './prober.ts'

/** Settings of the datagram probes. */
export interface DatagramSettings {
  protocol: 'UDP' | 'ICMP' | 'SCTP'
  family: Family
  /** A literal. */
  address: string
  port: number
  sourcePort: number
  /** Bytes of each packet with its headers; small ones where undefined. */
  packetBytes: number | undefined
}

const IP_BYTES = { IPv4: 20, IPv6: 40 } as const
/** Payload of traceroute(8). */
const PAYLOAD_BYTES = 32
/** Packet sizes to fall back to when no MTU is reported (RFC 1191, 7.1). */
const PLATEAUS = [32_000, 17_914, 8166, 4352, 2002, 1492, 1280, 1006, 508, 296, 68] as const

const EMSGSIZE = 90
/** EAGAIN, ENOMEM, ENOBUFS: the socket buffer is full. */
const NO_ROOM_ERRNOS: ReadonlySet<number> = new Set([11, 12, 105])
/** Errors of missing permission or support. */
const REFUSED: ReadonlySet<string> = new Set([
  'EACCES',
  'EPERM',
  'EPROTONOSUPPORT',
  'ESOCKTNOSUPPORT',
])
/** Errors of earlier packets that one call may return before it sends. */
const PENDING_MAX = 8

/**
 * Opens the socket. Throws a SystemCallError where the system refuses, and a TargetFailure
 * (ICMP_NOT_PERMITTED, …) where it lets us send no echoes.
 */
export function openDatagramProber(
  native: Native,
  settings: DatagramSettings,
  listener: ProbeListener,
): Prober {
  const { protocol, family, sourcePort } = settings
  if (protocol === 'ICMP') {
    const { socket, mode, identifier } = openIcmpSocket(native, family, sourcePort)
    const marks = createMarks({ protocol, family, identifier, isRaw: mode === 'raw' })
    return new DatagramProber(native, socket, identifier, marks, settings, listener)
  }
  if (protocol === 'SCTP') {
    const socket = openRawSctp(native, family)
    const marks = createSctpMarks({ family, sourcePort, port: settings.port })
    return new DatagramProber(native, socket, sourcePort, marks, settings, listener)
  }
  const socket = native.open({ family, type: 'datagram', protocol: 'udp' })
  const marks = createMarks({ protocol, family, identifier: 0, isRaw: false })
  let port: number
  try {
    port = socket.bindPort(sourcePort)
  } catch (error) {
    socket.close()
    throw error
  }
  return new DatagramProber(native, socket, port, marks, settings, listener)
}

/**
 * The kernel's SCTP does not report which router answers, and most kernels have none: probes need a raw
 * socket.
 */
function openRawSctp(native: Native, family: Family): NativeSocket {
  try {
    return native.open({ family, type: 'raw', protocol: 'sctp' })
  } catch (error) {
    const isRefused = error instanceof SystemCallError && REFUSED.has(error.code)
    if (!isRefused) throw error
    const message = [
      'this agent may not trace with SCTP, for which it needs raw sockets: run it as root with the',
      'capability NET_RAW (docker run --user 0 --cap-add NET_RAW, or in Kubernetes securityContext',
      '{runAsUser: 0, capabilities: {add: [NET_RAW]}}), or trace with TCP, UDP or ICMP, which need none',
    ].join(' ')
    throw targetFailure<TracerouteCode>('TRACE_UNSUPPORTED', message, {
      protocol: 'SCTP',
      reason: error.code,
    })
  }
}

interface Sent {
  probe: Probe
  /** When it was sent, by the kernel's clock. */
  clockMs: number
  /** Size of the whole packet. */
  bytes: number
}

class DatagramProber implements Prober {
  readonly sourcePort: number
  readonly #native: Native
  readonly #socket: NativeSocket
  readonly #marks: Marks
  readonly #settings: DatagramSettings
  readonly #listener: ProbeListener
  readonly #watch: Watch
  readonly #target: SocketAddress
  /** The probe with the number in its mark, counted from 1. */
  readonly #sent: Sent[] = []
  readonly #headersBytes: number
  #payloadBytes: number

  constructor(
    native: Native,
    socket: NativeSocket,
    sourcePort: number,
    marks: Marks,
    settings: DatagramSettings,
    listener: ProbeListener,
  ) {
    this.#native = native
    this.#socket = socket
    this.sourcePort = sourcePort
    this.#marks = marks
    this.#settings = settings
    this.#listener = listener
    const { address, port, family, packetBytes } = settings
    // Raw packets contain their ports; the kernel would interpret one as a protocol.
    this.#target = native.address(address, settings.protocol === 'UDP' ? port : 0)
    this.#headersBytes = IP_BYTES[family] + HEADER_BYTES
    this.#payloadBytes =
      packetBytes === undefined ? PAYLOAD_BYTES : packetBytes - this.#headersBytes
    try {
      this.#setUp()
    } catch (error) {
      socket.close()
      throw error
    }
    this.#watch = watch(native.libc, socket.fd, POLL.in, () => this.#drain())
  }

  #setUp(): void {
    const socket = this.#socket
    const isV6 = this.#settings.family === 'IPv6'
    socket.setOption(OPTION.timestamps, 1)
    socket.setOption(isV6 ? OPTION.errors6 : OPTION.errors4, 1)
    if (isV6) socket.setOption(OPTION.autoFlowLabel6, 0)
    if (this.#settings.packetBytes !== undefined) {
      socket.setOption(isV6 ? OPTION.pathMtu6 : OPTION.pathMtu4, PATH_MTU.probe)
      if (isV6) socket.setOption(OPTION.dontFragment6, 1)
    }
    // From now on the kernel delivers only packets of the target, and errors about packets to it.
    socket.connect(this.#target)
  }

  send(probe: Probe): boolean {
    const isV6 = this.#settings.family === 'IPv6'
    this.#socket.setOption(isV6 ? OPTION.ttl6 : OPTION.ttl4, probe.ttl)
    const number = this.#sent.length + 1
    const packet = this.#marks.packet(number, this.#payloadBytes)
    const bytes = this.#payloadBytes + this.#headersBytes
    this.#sent.push({ probe, clockMs: this.#native.clockMs(), bytes })
    let errno = this.#socket.send(packet)
    // The returned error may be that of an earlier packet.
    for (let tries = 1; errno !== 0 && tries < PENDING_MAX; tries++) {
      if (errno === EMSGSIZE || NO_ROOM_ERRNOS.has(errno)) break
      this.#drain()
      errno = this.#socket.send(packet)
    }
    if (errno === 0) return true
    if (NO_ROOM_ERRNOS.has(errno)) return false
    if (errno !== EMSGSIZE) throw new SystemCallError('send', errno)
    this.#drain()
    // Usually the error queue has the MTU by now.
    if (probe.state === 'under-way') this.#tooBig(number, 0, undefined)
    return true
  }

  look(): void {
    this.#drain()
  }

  /** Reads all received packets; poll reports readiness until then. */
  #drain(): void {
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
      if (error.errno === EMSGSIZE) this.#tooBig(this.#sent.length, error.info, undefined)
      return
    }
    const number = this.#known(this.#marks.numberInError(bytes))
    if (number === undefined) return
    const untimed = answerOf(this.#settings.family, error, this.#target.address)
    if (number === 0) {
      if (untimed !== undefined) this.#unattributed(untimed, kernelMs)
    } else if (untimed === undefined) {
      this.#tooBig(number, error.info, error.offender)
    } else {
      this.#answered(number, untimed, kernelMs)
    }
  }

  #unattributed(untimed: UntimedAnswer, kernelMs: number | undefined): void {
    this.#listener.onUnattributed(untimed, (asked) => {
      const clockMs = this.#sent.find(({ probe }) => probe === asked)?.clockMs ?? 0
      return roundTripMs(asked, clockMs, kernelMs)
    })
  }

  #readReply({ bytes, kernelMs, from }: Received): void {
    if (from !== this.#target.address) return
    const number = this.#known(this.#marks.numberInReply(bytes))
    if (number !== undefined) {
      const untimed: UntimedAnswer = { kind: 'target', from }
      const portState = this.#marks.portState(bytes)
      if (portState !== undefined) untimed.portState = portState
      this.#answered(number, untimed, kernelMs)
      return
    }
    // Any packet of the target shows that it is reachable, even if it names no probe.
    const farthest = this.#settings.protocol === 'UDP' ? this.#farthest() : 0
    if (farthest > 0) {
      this.#answered(farthest, { kind: 'target', from, portState: 'open' }, kernelMs)
    }
  }

  #known(number: number | undefined): number | undefined {
    return number !== undefined && number <= this.#sent.length ? number : undefined
  }

  /** Number of the farthest probe in flight; 0 for none. */
  #farthest(): number {
    let [number, ttl] = [0, 0]
    for (const [index, { probe }] of this.#sent.entries()) {
      if (probe.state !== 'under-way' || probe.ttl <= ttl) continue
      ;[number, ttl] = [index + 1, probe.ttl]
    }
    return number
  }

  #answered(number: number, untimed: UntimedAnswer, kernelMs: number | undefined): void {
    const { probe, clockMs } = this.#sent[number - 1] as Sent
    this.#listener.onAnswer(probe, { ...untimed, rttMs: roundTripMs(probe, clockMs, kernelMs) })
  }

  #tooBig(number: number, mtuBytes: number, from: string | undefined): void {
    const { probe, bytes } = this.#sent[number - 1] as Sent
    const fits = mtuBytes > 0 && mtuBytes < bytes ? mtuBytes : lowerPlateau(bytes)
    const payloadBytes = Math.max(fits - this.#headersBytes, MARK_BYTES)
    this.#payloadBytes = Math.min(this.#payloadBytes, payloadBytes)
    this.#listener.onTooBig(probe, mtuBytes > 0 ? mtuBytes : undefined, from)
  }

  close(): void {
    this.#watch.close()
    this.#socket.close()
  }
}

function lowerPlateau(bytes: number): number {
  return PLATEAUS.find((plateau) => plateau < bytes) ?? 0
}
