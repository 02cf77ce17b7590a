// Probes of TCP: each is the first packet of a connection, whose time to live ends at its hop. Every lane
// has one socket and one port; the kernel keeps the answers to an earlier attempt of the same port apart
// from those to the present one by their sequence numbers.
import type { Family } from '../../network/dial.ts'
import { SystemCallError } from '../../network/native/libc.ts'
import type { Native, NativeSocket } from '../../network/native/native-socket.ts'
import { watch, type Watch } from '../../network/native/readiness.ts'
import type { SocketAddress } from '../../network/native/socket-address.ts'
import { ERROR_ORIGIN, OPTION, POLL } from '../../network/native/socket-options.ts'
import { bindSourcePort } from '../../network/native/source-port.ts'
import type { Probe } from './course.ts'
import { answerOf, roundTripMs, type Prober, type ProbeListener, type Saying } from './prober.ts'

/** What probes of connections need to know. */
export interface ConnectionSettings {
  family: Family
  /** A literal. */
  address: string
  port: number
  /** Of the first lane; the others have those that follow. */
  sourcePort: number
}

const ERRNO = { EADDRNOTAVAIL: 99, ECONNRESET: 104, ECONNREFUSED: 111 } as const
/** Other ports that are tried where a flow to this target exists already. */
const PORTS_MAX = 4
/** Where things stand among the numbers of struct tcp_info; the state is the first byte of its number. */
const TCP_INFO = { bytes: 72, state: 0, rttMicroseconds: 17 } as const
/** States of a connection (RFC 9293): it stands, its first packet is under way, the target has ended it. */
const STATES = { established: 1, synSent: 2, closeWait: 8 } as const

/** One flow. */
interface Lane {
  socket: NativeSocket
  watch: Watch
  port: number
  probe: Probe | undefined
  /** By the kernel's clock. */
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
  readonly #lanes = new Map<number, Lane>()
  #isClosed = false

  constructor(native: Native, settings: ConnectionSettings, listener: ProbeListener) {
    this.#native = native
    this.#settings = settings
    this.#listener = listener
    this.#target = native.address(settings.address, settings.port)
  }

  get sourcePort(): number {
    return this.#lanes.get(0)?.port ?? this.#settings.sourcePort
  }

  send(probe: Probe): boolean {
    for (let tries = 0; ; tries++) {
      try {
        this.#connect(probe)
        return true
      } catch (error) {
        const isTaken = error instanceof SystemCallError && error.errno === ERRNO.EADDRNOTAVAIL
        if (!isTaken || tries >= PORTS_MAX) throw error
        // Somebody else has a connection from this very port to this very target.
        const lane = this.#lanes.get(probe.lane)
        if (lane === undefined) throw error
        this.#lanes.delete(probe.lane)
        const next = this.#open(probe.lane, lane.port + 1)
        closeLane(lane)
        this.#lanes.set(probe.lane, next)
      }
    }
  }

  #connect(probe: Probe): void {
    let lane = this.#lanes.get(probe.lane)
    if (lane === undefined) {
      lane = this.#open(probe.lane, this.#settings.sourcePort + probe.lane)
      this.#lanes.set(probe.lane, lane)
    } else if (lane.probe !== undefined) {
      lane.socket.disconnect()
    }
    const { socket } = lane
    while (socket.receiveError() !== undefined) {
      // What is left of an attempt that was given up.
    }
    socket.setOption(this.#settings.family === 'IPv6' ? OPTION.ttl6 : OPTION.ttl4, probe.ttl)
    lane.probe = probe
    lane.clockMs = this.#native.clockMs()
    const isDone = socket.connect(this.#target)
    lane.watch.resume()
    if (isDone) this.#look(lane)
  }

  #open(index: number, wanted: number): Lane {
    const { family } = this.#settings
    const socket = this.#native.open({ family, type: 'stream', protocol: 'tcp' })
    try {
      socket.setOption(OPTION.timestamps, 1)
      socket.setOption(family === 'IPv6' ? OPTION.errors6 : OPTION.errors4, 1)
      if (family === 'IPv6') socket.setOption(OPTION.autoFlowLabel6, 0)
      const port = bindSourcePort(this.#native, socket, wanted)
      const onReady = () => {
        const lane = this.#lanes.get(index)
        if (lane !== undefined) this.#look(lane)
      }
      const one = watch(this.#native.libc, socket.fd, POLL.out, onReady)
      return { socket, watch: one, port, probe: undefined, clockMs: 0 }
    } catch (error) {
      socket.close()
      throw error
    }
  }

  look(): void {
    for (const lane of this.#lanes.values()) if (lane.probe !== undefined) this.#look(lane)
  }

  /** Something became of the lane's attempt. */
  #look(lane: Lane): void {
    const { socket } = lane
    for (let entry = socket.receiveError(); entry; entry = socket.receiveError()) {
      const { error, kernelMs } = entry
      if (error === undefined || error.origin === ERROR_ORIGIN.local) continue
      const saying = answerOf(this.#settings.family, error, this.#target.address)
      if (saying !== undefined) return this.#answered(lane, saying, kernelMs)
    }
    const [errno = 0] = socket.getOption(OPTION.error)
    const info = socket.getOption(OPTION.tcpInfo, TCP_INFO.bytes)
    const state = (info[TCP_INFO.state] ?? 0) & 0xff
    // Some targets end a connection before we look at it, politely or not: it stood all the same.
    const stood = state === STATES.established || state === STATES.closeWait
    if (stood || errno === ERRNO.ECONNRESET) return this.#connected(lane, info)
    // What was ready was the attempt before this one.
    if (state === STATES.synSent) return
    if (errno === ERRNO.ECONNREFUSED) {
      const saying: Saying = { kind: 'target', from: this.#target.address, portState: 'closed' }
      return this.#answered(lane, saying, undefined)
    }
    // The attempt came to nothing, and nobody on the way said so: to be given up when its time is over.
    this.#rest(lane)
  }

  #connected(lane: Lane, info: readonly number[]): void {
    const { probe } = lane
    const rttMs = (info[TCP_INFO.rttMicroseconds] ?? 0) / 1000
    const saying: Saying = { kind: 'target', from: this.#target.address, portState: 'open' }
    if (rttMs === 0 || probe === undefined) return this.#answered(lane, saying, undefined)
    this.#rest(lane)
    this.#listener.onAnswer(probe, { ...saying, rttMs })
  }

  #answered(lane: Lane, saying: Saying, kernelMs: number | undefined): void {
    const { probe, clockMs } = lane
    this.#rest(lane)
    if (probe === undefined) return
    this.#listener.onAnswer(probe, { ...saying, rttMs: roundTripMs(probe, clockMs, kernelMs) })
  }

  /** Resets what stands of the connection; poll would call again and again for a socket without one. */
  #rest(lane: Lane): void {
    lane.socket.disconnect()
    lane.watch.pause()
    lane.probe = undefined
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    for (const lane of this.#lanes.values()) closeLane(lane)
    this.#lanes.clear()
  }
}

function closeLane({ socket, watch: one }: Lane): void {
  socket.disconnect()
  one.close()
  socket.close()
}
