// Interface between a trace and the senders of its probes, the same for all protocols.
import type { Answer, Probe } from './course.ts'
import type { TracerouteRequest } from './definition.ts'
import type { Family } from '../../network/dial.ts'
import type { PacketError } from '../../network/native/control-messages.ts'
import { icmpMeaning } from '../../network/native/icmp-meaning.ts'
import type { NativeSocket } from '../../network/native/native-socket.ts'
import { OPTION } from '../../network/native/socket-options.ts'

/** What to send, and where to. */
export interface ProbeSettings {
  protocol: TracerouteRequest['protocol']
  family: Family
  /** A literal. */
  address: string
  /** Of the target; 0 where the protocol has none. */
  port: number
  /** The port that packets come from (the identifier of ICMP echoes); of TCP, that of the first flow. */
  sourcePort: number
  /** Bytes of each packet with its headers; small ones where undefined. */
  packetBytes: number | undefined
}

/** An answer; without `rttMs` its round trip follows from the times of probe and answer. */
export type UntimedAnswer = Omit<Answer, 'rttMs'> & { rttMs?: number }

/** Receiver of the answers. */
export interface ProbeListener {
  /** `probe` is undefined for an answer that names none; `kernelMs` is when the kernel received it. */
  onAnswer(probe: Probe | undefined, answer: UntimedAnswer, kernelMs?: number): void
  /** The packet was too large for a link behind `from` (undefined: the agent's own system). Smaller ones follow. */
  onTooBig(probe: Probe, mtuBytes: number | undefined, from: string | undefined): void
}

/** Sends the probes of one trace. */
export interface Prober {
  /**
   * Sends the probe with its time to live. False when the socket buffer is full. Throws a
   * SystemCallError when the system refuses.
   */
  send(probe: Probe): boolean
  /** Reads the answers that have arrived, without waiting for readiness. */
  look(): void
  /** Source port, or echo identifier, of the first flow. */
  readonly sourcePort: number
  /** Closes the sockets; a second call does nothing. */
  close(): void
}

/** Sets what sockets of all protocols need: error queue, time stamps, and one flow label. */
export function prepare(socket: NativeSocket): void {
  socket.setOption(OPTION.timestamps, 1)
  socket.setOption(OPTION.errors[socket.family], 1)
  if (socket.family === 'IPv6') socket.setOption(OPTION.autoFlowLabel6, 0)
}

/** Round trip of a probe in milliseconds, by the kernel's clock unless that clock was set in between. */
export function roundTripMs({ sentAtMs, clockMs }: Probe, kernelMs: number | undefined): number {
  const elapsedMs = performance.now() - sentAtMs
  const betweenMs = (kernelMs ?? Infinity) - clockMs
  return betweenMs >= 0 && betweenMs <= elapsedMs ? betweenMs : elapsedMs
}

/** Reads an ICMP error about a probe to `target`; undefined for a packet that was too large. */
export function answerOf(
  family: Family,
  error: PacketError,
  target: string,
): UntimedAnswer | undefined {
  const { kind, name, mark } = icmpMeaning(family, error.type, error.code)
  const from = error.offender ?? ''
  const refusal = { name, mark }
  if (kind === 'too-large') return undefined
  if (kind === 'ttl-exceeded') return { kind: 'hop', from }
  // From any other address it is a firewall in front of the target.
  return kind === 'arrived' && from === target
    ? { kind: 'target', from, portState: 'closed', refusal }
    : { kind: 'refused', from, refusal }
}
