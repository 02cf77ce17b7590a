// Interface between a trace and the senders of its probes, the same for all protocols.
import type { Answer, Probe } from './course.ts'
import { icmpMeaning } from './answers.ts'
import type { Family } from '../../network/dial.ts'
import type { PacketError } from '../../network/native/control-messages.ts'

/** An answer without its round trip. */
export type UntimedAnswer = Omit<Answer, 'rttMs'>

/** Receiver of the answers. */
export interface ProbeListener {
  onAnswer(probe: Probe, answer: Answer): void
  /** An answer that names no probe; `rttMs` is the round trip if it answers the given one. */
  onUnattributed(untimed: UntimedAnswer, rttMs: (probe: Probe) => number): void
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

/**
 * Round trip of a probe in milliseconds, by the kernel's clock unless that clock was set in between.
 */
export function roundTripMs(probe: Probe, clockMs: number, kernelMs: number | undefined): number {
  const elapsedMs = performance.now() - probe.sentAtMs
  const betweenMs = (kernelMs ?? Infinity) - clockMs
  return betweenMs >= 0 && betweenMs <= elapsedMs ? betweenMs : elapsedMs
}

/** Reads an ICMP error about a probe to `target`; undefined for a packet that was too large. */
export function answerOf(
  family: Family,
  error: PacketError,
  target: string,
): UntimedAnswer | undefined {
  const meaning = icmpMeaning(family, error.type, error.code)
  const from = error.offender ?? ''
  switch (meaning.kind) {
    case 'hop':
      return { kind: 'hop', from }
    case 'arrived':
      // From any other address it is a firewall in front of the target.
      return from === target
        ? { kind: 'target', from, portState: 'closed', refusal: meaning.refusal }
        : { kind: 'refused', from, refusal: meaning.refusal }
    case 'refused':
      return { kind: 'refused', from, refusal: meaning.refusal }
    case 'too-big':
    default:
      return undefined
  }
}
