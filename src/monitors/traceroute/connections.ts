// TCP probes: each is the first packet of a connection, with a time to live that ends at its hop. Every flow
// has one socket and one port. The kernel separates the answers to earlier attempts of a port by their
// sequence numbers.
import type { Family } from '../../network/dial.ts'
import { SystemCallError } from '../../network/native/libc.ts'
import type { Native, NativeSocket } from '../../network/native/native-socket.ts'
import { watch, type Watch } from '../../network/native/readiness.ts'
import type { SocketAddress } from '../../network/native/socket-address.ts'
import { ERROR_ORIGIN, OPTION, POLL } from '../../network/native/socket-options.ts'
import type { Probe } from './course.ts'
import {
  answerOf,
  roundTripMs,
  type Prober,
  type ProbeListener,
  type UntimedAnswer,
} from './prober.ts'

/** Settings of the TCP probes. */
export interface ConnectionSettings {
  family: Family
  /** A literal. */
  address: string
  port: number
  /** Port of the first flow; the other flows use the ports that follow. */
  sourcePort: number
}

const ERRNO = { EADDRNOTAVAIL: 99, ECONNRESET: 104, ECONNREFUSED: 111 } as const
/** Other ports to try when a connection from this port to the target exists. */
const PORTS_MAX = 4
/** Offsets in struct tcp_info, in 32-bit words; the state is the lowest byte of its word. */
const TCP_INFO = { bytes: 72, state: 0, rttMicroseconds: 17 } as const
/** Connection states (RFC 9293): established, SYN sent, closed by the target. */
const STATES = { established: 1, synSent: 2, closeWait: 8 } as const

/** One flow: same addresses, same ports. */
interface Flow {
  socket: NativeSocket
  watch: Watch
  port: number
  probe: Probe | undefined
  /** When the probe was sent, by the kernel's clock. */
  clockMs: number
}

/** Opens no socket before the first probe. */
export function openConnectionProber(
  native: Native,
  settings: ConnectionSettings,
  listener: ProbeListener,
): Prober {
  return new ConnectionProber(native, settings, listener)
}

class ConnectionProber implements Prober {
  readonly #native: Native
  readonly #settings: ConnectionSettings
  readonly #listener: ProbeListener
  readonly #target: SocketAddress
  readonly #flows = new Map<number, Flow>()
  #isClosed = false

  constructor(native: Native, settings: ConnectionSettings, listener: ProbeListener) {
    this.#native = native
    this.#settings = settings
    this.#listener = listener
    this.#target = native.address(settings.address, settings.port)
  }

  get sourcePort(): number {
    return this.#flows.get(0)?.port ?? this.#settings.sourcePort
  }

  send(probe: Probe): boolean {
    for (let tries = 0; ; tries++) {
      try {
        this.#connect(probe)
        return true
      } catch (error) {
        const isTaken = error instanceof SystemCallError && error.errno === ERRNO.EADDRNOTAVAIL
        if (!isTaken || tries >= PORTS_MAX) throw error
        // Another process has a connection from this port to this target.
        const flow = this.#flows.get(probe.flow)
        if (flow === undefined) throw error
        this.#flows.delete(probe.flow)
        const next = this.#open(probe.flow, flow.port + 1)
        closeFlow(flow)
        this.#flows.set(probe.flow, next)
      }
    }
  }

  #connect(probe: Probe): void {
    let flow = this.#flows.get(probe.flow)
    if (flow === undefined) {
      flow = this.#open(probe.flow, this.#settings.sourcePort + probe.flow)
      this.#flows.set(probe.flow, flow)
    } else if (flow.probe !== undefined) {
      flow.socket.disconnect()
    }
    const { socket } = flow
    while (socket.receiveError() !== undefined) {
      // Discard the errors of an abandoned attempt.
    }
    socket.setOption(this.#settings.family === 'IPv6' ? OPTION.ttl6 : OPTION.ttl4, probe.ttl)
    flow.probe = probe
    flow.clockMs = this.#native.clockMs()
    const isDone = socket.connect(this.#target)
    flow.watch.resume()
    if (isDone) this.#look(flow)
  }

  #open(index: number, wanted: number): Flow {
    const { family } = this.#settings
    const socket = this.#native.open({ family, type: 'stream', protocol: 'tcp' })
    try {
      socket.setOption(OPTION.timestamps, 1)
      socket.setOption(family === 'IPv6' ? OPTION.errors6 : OPTION.errors4, 1)
      if (family === 'IPv6') socket.setOption(OPTION.autoFlowLabel6, 0)
      const port = socket.bindPort(wanted)
      const onReady = () => {
        const flow = this.#flows.get(index)
        if (flow !== undefined) this.#look(flow)
      }
      const one = watch(this.#native.libc, socket.fd, POLL.out, onReady)
      return { socket, watch: one, port, probe: undefined, clockMs: 0 }
    } catch (error) {
      socket.close()
      throw error
    }
  }

  look(): void {
    for (const flow of this.#flows.values()) if (flow.probe !== undefined) this.#look(flow)
  }

  /** Reads the result of the flow's attempt. */
  #look(flow: Flow): void {
    const { socket } = flow
    for (let entry = socket.receiveError(); entry; entry = socket.receiveError()) {
      const { error, kernelMs } = entry
      if (error === undefined || error.origin === ERROR_ORIGIN.local) continue
      const untimed = answerOf(this.#settings.family, error, this.#target.address)
      if (untimed !== undefined) return this.#answered(flow, untimed, kernelMs)
    }
    const [errno = 0] = socket.getOption(OPTION.error)
    const info = socket.getOption(OPTION.tcpInfo, TCP_INFO.bytes)
    const state = (info[TCP_INFO.state] ?? 0) & 0xff
    // Some targets close or reset a connection at once: it was established all the same.
    const stood = state === STATES.established || state === STATES.closeWait
    if (stood || errno === ERRNO.ECONNRESET) return this.#connected(flow, info)
    // The event belongs to the attempt before this one.
    if (state === STATES.synSent) return
    if (errno === ERRNO.ECONNREFUSED) {
      const untimed: UntimedAnswer = {
        kind: 'target',
        from: this.#target.address,
        portState: 'closed',
      }
      return this.#answered(flow, untimed, undefined)
    }
    // The attempt failed without an ICMP error: the probe expires after its wait.
    this.#rest(flow)
  }

  #connected(flow: Flow, info: readonly number[]): void {
    const { probe } = flow
    const rttMs = (info[TCP_INFO.rttMicroseconds] ?? 0) / 1000
    const untimed: UntimedAnswer = { kind: 'target', from: this.#target.address, portState: 'open' }
    if (rttMs === 0 || probe === undefined) return this.#answered(flow, untimed, undefined)
    this.#rest(flow)
    this.#listener.onAnswer(probe, { ...untimed, rttMs })
  }

  #answered(flow: Flow, untimed: UntimedAnswer, kernelMs: number | undefined): void {
    const { probe, clockMs } = flow
    this.#rest(flow)
    if (probe === undefined) return
    this.#listener.onAnswer(probe, { ...untimed, rttMs: roundTripMs(probe, clockMs, kernelMs) })
  }

  /** Disconnects; poll would report a socket without a connection as ready again and again. */
  #rest(flow: Flow): void {
    flow.socket.disconnect()
    flow.watch.pause()
    flow.probe = undefined
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    for (const flow of this.#flows.values()) closeFlow(flow)
    this.#flows.clear()
  }
}

function closeFlow({ socket, watch: one }: Flow): void {
  socket.disconnect()
  one.close()
  socket.close()
}
