// Probes of UDP and ICMP: one socket for the whole trace, so that all its packets are one flow, and a mark
// in each by which its answer is known. The mark comes with its complement: all checksums are the same.
import { randomBytes } from 'node:crypto'
import type { Family } from './dial.ts'
import type { Native, NativeSocket, Received } from './native-socket.ts'
import { watch, type Watch } from './readiness.ts'
import type { SocketAddress } from './socket-address.ts'
import { ERROR_ORIGIN, OPTION, PATH_MTU, POLL } from './socket-options.ts'
import { SystemCallError } from './libc.ts'
import { bindFlow } from './traceroute-flow.ts'
import type { Probe } from './traceroute-course.ts'
import { answerOf, type Prober, type ProbeListener } from './traceroute-prober.ts'

/** What probes of datagrams need to know. */
export interface DatagramSettings {
  protocol: 'UDP' | 'ICMP'
  family: Family
  /** A literal. */
  address: string
  port: number
  sourcePort: number
  /** Bytes of each packet with its headers; small ones where undefined. */
  packetBytes: number | undefined
}

/** The headers before the mark. Bytes. */
const IP_BYTES = { IPv4: 20, IPv6: 40 } as const
const HEADER_BYTES = 8
/** Four bytes of the trace, two of the probe, and the complements of both. */
const MARK_BYTES = 12
/** What traceroute(8) sends. */
const PAYLOAD_BYTES = 32
const ECHO = { IPv4: 8, IPv6: 128 } as const
const ECHO_REPLY = { IPv4: 0, IPv6: 129 } as const
/** Sizes of packets to fall back to when nobody says what fits (RFC 1191, 7.1). */
const PLATEAUS = [32_000, 17_914, 8166, 4352, 2002, 1492, 1280, 1006, 508, 296, 68] as const

const ERRNO = { EAGAIN: 11, ENOMEM: 12, EMSGSIZE: 90, ENOBUFS: 105 } as const
/** Errors of earlier packets that one call to send may come upon. */
const PENDING_MAX = 8

/** Opens the socket. Throws a SystemCallError where the system refuses. */
export function openDatagramProber(
  native: Native,
  settings: DatagramSettings,
  listener: ProbeListener,
): Prober {
  return new DatagramProber(native, settings, listener)
}

interface Sent {
  probe: Probe
  /** By the kernel's clock. */
  clockMs: number
  bytes: number
}

class DatagramProber implements Prober {
  readonly sourcePort: number
  readonly #native: Native
  readonly #settings: DatagramSettings
  readonly #listener: ProbeListener
  readonly #socket: NativeSocket
  readonly #watch: Watch
  readonly #target: SocketAddress
  readonly #mark = randomBytes(4)
  /** By the number in the mark, from 1. */
  readonly #sent: Sent[] = []
  /** Bytes behind the header of UDP or ICMP. */
  #payloadBytes: number

  constructor(native: Native, settings: DatagramSettings, listener: ProbeListener) {
    this.#native = native
    this.#settings = settings
    this.#listener = listener
    const { protocol, family, address, port, packetBytes } = settings
    this.#target = native.address(address, port)
    this.#payloadBytes =
      packetBytes === undefined ? PAYLOAD_BYTES : packetBytes - this.#headersBytes()
    const icmp = family === 'IPv6' ? 'icmp6' : 'icmp'
    const kind = protocol === 'UDP' ? 'udp' : icmp
    this.#socket = native.open({ family, type: 'datagram', protocol: kind })
    try {
      this.sourcePort = this.#setUp()
    } catch (error) {
      this.#socket.close()
      throw error
    }
    this.#watch = watch(native.libc, this.#socket.fd, POLL.in, () => this.#drain())
  }

  #setUp(): number {
    const socket = this.#socket
    const isV6 = this.#settings.family === 'IPv6'
    socket.setOption(OPTION.timestamps, 1)
    socket.setOption(isV6 ? OPTION.errors6 : OPTION.errors4, 1)
    if (isV6) socket.setOption(OPTION.autoFlowLabel6, 0)
    if (this.#settings.packetBytes !== undefined) {
      socket.setOption(isV6 ? OPTION.pathMtu6 : OPTION.pathMtu4, PATH_MTU.probe)
      if (isV6) socket.setOption(OPTION.dontFragment6, 1)
    }
    const sourcePort = bindFlow(this.#native, socket, this.#settings.sourcePort)
    // From now on the kernel takes packets of the target alone, and errors about packets to it.
    socket.connect(this.#target)
    return sourcePort
  }

  send(probe: Probe): boolean {
    const isV6 = this.#settings.family === 'IPv6'
    this.#socket.setOption(isV6 ? OPTION.ttl6 : OPTION.ttl4, probe.ttl)
    const number = this.#sent.length + 1
    const packet = this.#packet(number)
    const clockMs = this.#native.clockMs()
    const bytes = this.#payloadBytes + this.#headersBytes()
    this.#sent.push({ probe, clockMs, bytes })
    let errno = this.#socket.send(packet)
    // What comes back may be the error of a packet before this one.
    for (let tries = 1; errno !== 0 && tries < PENDING_MAX; tries++) {
      if (errno === ERRNO.EMSGSIZE || isLack(errno)) break
      this.#drain()
      errno = this.#socket.send(packet)
    }
    if (errno === 0) return true
    if (isLack(errno)) return false
    if (errno !== ERRNO.EMSGSIZE) throw new SystemCallError('send', errno)
    this.#drain()
    // Our own system says how much fits in an entry of the error queue, which has been read by now.
    if (probe.state === 'under-way') this.#tooBig(number, 0, undefined)
    return true
  }

  #headersBytes(): number {
    return IP_BYTES[this.#settings.family] + HEADER_BYTES
  }

  #packet(number: number): Buffer {
    const isEcho = this.#settings.protocol === 'ICMP'
    const packet = Buffer.alloc((isEcho ? HEADER_BYTES : 0) + this.#payloadBytes)
    const mark = isEcho ? HEADER_BYTES : 0
    if (isEcho) {
      packet[0] = ECHO[this.#settings.family]
      packet.writeUInt16BE(number, 6)
    }
    for (let at = 0; at < 4; at++) {
      const byte = this.#mark[at] as number
      packet[mark + at] = byte
      packet[mark + 4 + at] = ~byte & 0xff
    }
    // The number of an echo stands in its header as well: there only the complement is wanted here.
    packet.writeUInt16BE(isEcho ? 0 : number, mark + 8)
    packet.writeUInt16BE(~number & 0xffff, mark + 10)
    return packet
  }

  /** Reads all that waits; poll knows no rest before. */
  #drain(): void {
    for (let error = this.#socket.receiveError(); error; error = this.#socket.receiveError()) {
      this.#takeError(error)
    }
    for (let packet = this.#socket.receive(); packet; packet = this.#socket.receive()) {
      this.#takePacket(packet)
    }
  }

  #takeError(received: Received): void {
    const { error, bytes, kernelMs } = received
    if (error === undefined) return
    const number = this.#numberOf(bytes, this.#settings.protocol === 'ICMP')
    if (number === undefined) return
    if (error.origin === ERROR_ORIGIN.local) {
      if (error.errno === ERRNO.EMSGSIZE && number > 0) this.#tooBig(number, error.info, undefined)
      return
    }
    const answer = answerOf(this.#settings.family, error, this.#target.address)
    if (answer === undefined) {
      if (number > 0) this.#tooBig(number, error.info, error.offender)
    } else if (number === 0) {
      this.#listener.onNameless(answer, kernelMs)
    } else {
      this.#answered(number, answer, kernelMs)
    }
  }

  #takePacket({ bytes, kernelMs, from }: Received): void {
    if (from !== this.#target.address) return
    if (this.#settings.protocol === 'UDP') {
      // Whatever the target sends, it is there. Which probe moved it to do so, it need not say.
      const number = this.#numberOf(bytes, false) || this.#latest()
      if (number > 0) {
        this.#answered(number, { kind: 'target', from, portState: 'open' }, kernelMs)
      }
      return
    }
    if (bytes[0] !== ECHO_REPLY[this.#settings.family]) return
    const number = this.#numberOf(bytes, true)
    if (number) this.#answered(number, { kind: 'target', from }, kernelMs)
  }

  /**
   * The number of the probe in its mark; 0 when the packet is too short to tell, undefined when it is none
   * of this trace's. Of an echo, its header suffices: errors come to the socket with its identifier alone.
   */
  #numberOf(bytes: Buffer, isEcho: boolean): number | undefined {
    const at = isEcho ? HEADER_BYTES : 0
    if (bytes.length < at + MARK_BYTES) {
      return isEcho && bytes.length >= HEADER_BYTES ? this.#known(bytes.readUInt16BE(6)) : 0
    }
    if (!bytes.subarray(at, at + 4).equals(this.#mark)) return undefined
    return this.#known(~bytes.readUInt16BE(at + 10) & 0xffff)
  }

  #known(number: number): number | undefined {
    return number > 0 && number <= this.#sent.length ? number : undefined
  }

  /** The farthest probe under way: an answer of the target without a mark is taken for one to that. */
  #latest(): number {
    const waiting = this.#sent.filter(({ probe }) => probe.state === 'under-way')
    const farthest = waiting.toSorted((one, other) => other.probe.ttl - one.probe.ttl)[0]
    return farthest === undefined ? 0 : this.#sent.indexOf(farthest) + 1
  }

  #answered(
    number: number,
    answer: NonNullable<ReturnType<typeof answerOf>>,
    kernelMs: number | undefined,
  ): void {
    const { probe, clockMs } = this.#sent[number - 1] as Sent
    const rttMs = Math.max(0, (kernelMs ?? this.#native.clockMs()) - clockMs)
    this.#listener.onAnswer(probe, { ...answer, rttMs })
  }

  #tooBig(number: number, mtuBytes: number, from: string | undefined): void {
    const { probe, bytes } = this.#sent[number - 1] as Sent
    const fits = mtuBytes > 0 && mtuBytes < bytes ? mtuBytes : lowerPlateau(bytes)
    const least = this.#headersBytes() + MARK_BYTES
    const payloadBytes = Math.max(fits, least) - this.#headersBytes()
    this.#payloadBytes = Math.min(this.#payloadBytes, payloadBytes)
    this.#listener.onTooBig(probe, mtuBytes > 0 ? mtuBytes : undefined, from)
  }

  close(): void {
    this.#watch.close()
    this.#socket.close()
  }
}

function isLack(errno: number): boolean {
  return errno === ERRNO.ENOBUFS || errno === ERRNO.EAGAIN || errno === ERRNO.ENOMEM
}

function lowerPlateau(bytes: number): number {
  return PLATEAUS.find((plateau) => plateau < bytes) ?? 0
}
