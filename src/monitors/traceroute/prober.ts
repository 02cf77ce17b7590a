// The words between a trace and what sends its probes, whatever the protocol.
import type { Answer, Probe } from './course.ts'
import { icmpMeaning } from './answers.ts'
import type { Family } from '../../network/dial.ts'
import type { PacketError } from '../../network/native/control-messages.ts'

/** What an answer says, without its time. */
export type Saying = Omit<Answer, 'rttMs'>

/** What a trace wants to hear. */
export interface ProbeListener {
  onAnswer(probe: Probe, answer: Answer): void
  /** Somebody answered a probe, and did not say which; `rttMs` tells how long it took if to this one. */
  onNameless(saying: Saying, rttMs: (probe: Probe) => number): void
  /** The packet was too large for a link behind `from` (our own system where undefined); smaller ones follow. */
  onTooBig(probe: Probe, mtuBytes: number | undefined, from: string | undefined): void
}

/** Sends the probes of one trace. */
export interface Prober {
  /**
   * Sends the probe with its time to live. False when the system has no room for it now. Throws a
   * SystemCallError when the system refuses.
   */
  send(probe: Probe): boolean
  /** Reads what has come by now, without waiting to be told. */
  look(): void
  /** The port, or the identifier of echoes, that the first lane's packets come from. */
  readonly sourcePort: number
  /** Lets go of everything; the second time does nothing. */
  close(): void
}

/**
 * The round trip of a probe: between the kernel's clock at its sending and at the arrival of the answer,
 * unless somebody has set that clock meanwhile. Milliseconds.
 */
export function roundTripMs(probe: Probe, clockMs: number, kernelMs: number | undefined): number {
  const elapsedMs = performance.now() - probe.sentAtMs
  const betweenMs = (kernelMs ?? Infinity) - clockMs
  return betweenMs >= 0 && betweenMs <= elapsedMs ? betweenMs : elapsedMs
}

/** What an ICMP error says about a probe to `target`; undefined for a packet that was too large. */
export function answerOf(family: Family, error: PacketError, target: string): Saying | undefined {
  const meaning = icmpMeaning(family, error.type, error.code)
  const from = error.offender ?? ''
  switch (meaning.kind) {
    case 'hop':
      return { kind: 'hop', from }
    case 'arrived':
      // Anybody else who says so is a firewall that speaks for the target.
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
