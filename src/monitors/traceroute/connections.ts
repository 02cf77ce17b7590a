// TCP probes: each is the first packet of a connection, with a time to live that ends at its hop. Every flow
// has one socket and one port. The kernel separates the answers to earlier attempts of a port by their
// sequence numbers.
import { SystemCallError } from '../../network/native/system-call-error.ts'
import type { Native } from '../../network/native/native.ts'
import type { NativeSocket } from '../../network/native/native-socket.ts'
import type { Watch } from '../../network/native/readiness.ts'
import type { SocketAddress } from '../../network/native/socket-address.ts'
import { ERROR_ORIGIN, OPTION, POLL } from '../../network/native/socket-options.ts'
import type { Probe } from './course.ts'
import {
  answerOf,
  prepare,
  type Prober,
  type ProbeListener,
  type ProbeSettings,
  type UntimedAnswer,
} from './prober.ts'

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
}

/** Opens no socket before the first probe. */
export class ConnectionProber implements Prober {
  readonly #native: Native
  readonly #settings: ProbeSettings
  readonly #listener: ProbeListener
  readonly #target: SocketAddress
  readonly #flows = new Map<number, Flow>()

  constructor(native: Native, settings: ProbeSettings, listener: ProbeListener) {
    this.#native = native
    this.#settings = settings
    this.#listener = listener
    this.#target = native.address(settings.address, settings.port)
  }

  get sourcePort(): number {
    return this.#flows.get(0)?.port ?? this.#settings.sourcePort
  }

  send(probe: Probe): boolean {
    const { flow: index } = probe
    let flow = this.#flows.get(index) ?? this.#open(index, this.#settings.sourcePort + index)
    for (let tries = 0; ; tries++) {
      try {
        this.#connect(flow, probe)
        return true
      } catch (error) {
        const isTaken = error instanceof SystemCallError && error.errno === ERRNO.EADDRNOTAVAIL
        if (!isTaken || tries >= PORTS_MAX) throw error
        // Another process has a connection from this port to this target.
        this.#close(index)
        flow = this.#open(index, flow.port + 1)
      }
    }
  }

  #connect(flow: Flow, probe: Probe): void {
    const { socket } = flow
    if (flow.probe !== undefined) socket.disconnect()
    while (socket.receiveError() !== undefined) {
      // Discard the errors of an abandoned attempt.
    }
    socket.setOption(OPTION.ttl[this.#settings.family], probe.ttl)
    flow.probe = probe
    probe.clockMs = this.#native.clockMs()
    const isDone = socket.connect(this.#target)
    flow.watch.resume()
    if (isDone) this.#look(flow)
  }

  #open(index: number, wanted: number): Flow {
    const { family } = this.#settings
    const socket = this.#native.open({ family, type: 'stream', protocol: 'tcp' })
    try {
      prepare(socket)
      const port = socket.bindPort(wanted)
      const watch = this.#native.watch(socket.fd, POLL.out, () => this.#look(flow))
      const flow: Flow = { socket, watch, port, probe: undefined }
      this.#flows.set(index, flow)
      return flow
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
    const { address: from } = this.#target
    for (let entry = socket.receiveError(); entry; entry = socket.receiveError()) {
      const { error, kernelMs } = entry
      if (error === undefined || error.origin === ERROR_ORIGIN.local) continue
      const answer = answerOf(this.#settings.family, error, from)
      if (answer !== undefined) return this.#answered(flow, answer, kernelMs)
    }
    const [errno = 0] = socket.getOption(OPTION.error)
    const info = socket.getOption(OPTION.tcpInfo, TCP_INFO.bytes)
    const state = (info[TCP_INFO.state] ?? 0) & 0xff
    // Some targets close or reset a connection at once: it was established all the same.
    const stood = state === STATES.established || state === STATES.closeWait
    if (stood || errno === ERRNO.ECONNRESET) {
      const rttMs = (info[TCP_INFO.rttMicroseconds] ?? 0) / 1000
      const answer: UntimedAnswer = { kind: 'target', from, portState: 'open' }
      return this.#answered(flow, rttMs > 0 ? { ...answer, rttMs } : answer)
    }
    // The event belongs to the attempt before this one.
    if (state === STATES.synSent) return
    if (errno === ERRNO.ECONNREFUSED) {
      return this.#answered(flow, { kind: 'target', from, portState: 'closed' })
    }
    // The attempt failed without an ICMP error: the probe expires after its wait.
    this.#rest(flow)
  }

  #answered(flow: Flow, answer: UntimedAnswer, kernelMs?: number): void {
    const { probe } = flow
    this.#rest(flow)
    if (probe !== undefined) this.#listener.onAnswer(probe, answer, kernelMs)
  }

  /** Disconnects; poll would report a socket without a connection as ready again and again. */
  #rest(flow: Flow): void {
    flow.socket.disconnect()
    flow.watch.pause()
    flow.probe = undefined
  }

  #close(index: number): void {
    const flow = this.#flows.get(index)
    if (flow === undefined) return
    this.#flows.delete(index)
    flow.socket.disconnect()
    flow.watch.close()
    flow.socket.close()
  }

  close(): void {
    for (const index of this.#flows.keys()) this.#close(index)
  }
}
