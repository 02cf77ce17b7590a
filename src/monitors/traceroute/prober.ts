// Interface between a trace and the senders of its probes, the same for all protocols; and the meaning of ICMP
// errors for a probe, with the marks that traceroute(8) gave them (RFC 792, RFC 1812 5.2.7.1, RFC 4443).
import type { Answer, Probe, Refusal } from './course.ts'
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

/** Meaning of one ICMP error for a probe. */
export type IcmpMeaning =
  /** A router on the way: the probe's time to live was over. */
  | { kind: 'hop' }
  /** The packet arrived at a closed port. Only the target itself can report this. */
  | { kind: 'arrived'; refusal: Refusal }
  /** The packet is larger than the next link and may not be fragmented. */
  | { kind: 'too-big' }
  | { kind: 'refused'; refusal: Refusal }

const refusal = (name: string, mark: string): Refusal => ({ name, mark })

const NETWORK = refusal('network unreachable', '!N')
const HOST = refusal('host unreachable', '!H')
const PROHIBITED = refusal('administratively prohibited', '!X')
const PROTOCOL = refusal('protocol unreachable', '!P')
const PORT = refusal('port unreachable', '!p')

/** Codes of "destination unreachable" of ICMP for IPv4; those of arrival and size are not among them. */
const UNREACHABLE_4: ReadonlyMap<number, Refusal> = new Map([
  [0, NETWORK],
  [1, HOST],
  [5, refusal('source route failed', '!S')],
  [6, refusal('network unknown', '!U')],
  [7, refusal('host unknown', '!W')],
  [8, refusal('source host isolated', '!I')],
  [9, refusal('network administratively prohibited', '!A')],
  [10, refusal('host administratively prohibited', '!Z')],
  [11, refusal('network unreachable for this type of service', '!Q')],
  [12, refusal('host unreachable for this type of service', '!T')],
  [13, PROHIBITED],
  [14, refusal('host precedence violation', '!V')],
  [15, refusal('precedence cut-off in effect', '!C')],
])

/** Codes of "destination unreachable" of ICMPv6. */
const UNREACHABLE_6: ReadonlyMap<number, Refusal> = new Map([
  [0, NETWORK],
  [1, PROHIBITED],
  [2, refusal('beyond the scope of the source address', '!S')],
  [3, HOST],
  [5, refusal('source address failed the policy', '!X')],
  [6, refusal('route rejected', '!X')],
])

/** The meaning of an ICMP error; every type and code has one. */
export function icmpMeaning(family: Family, type: number, code: number): IcmpMeaning {
  return family === 'IPv4' ? meaning4(type, code) : meaning6(type, code)
}

function meaning4(type: number, code: number): IcmpMeaning {
  if (type === 11 && code === 0) return { kind: 'hop' }
  if (type === 3 && code === 2) return { kind: 'arrived', refusal: PROTOCOL }
  if (type === 3 && code === 3) return { kind: 'arrived', refusal: PORT }
  if (type === 3 && code === 4) return { kind: 'too-big' }
  const known = type === 3 ? UNREACHABLE_4.get(code) : undefined
  return { kind: 'refused', refusal: known ?? other(type, code) }
}

function meaning6(type: number, code: number): IcmpMeaning {
  if (type === 3 && code === 0) return { kind: 'hop' }
  if (type === 1 && code === 4) return { kind: 'arrived', refusal: PORT }
  // An unknown next header: the target has not this protocol (RFC 4443, 3.4).
  if (type === 4 && code === 1) return { kind: 'arrived', refusal: PROTOCOL }
  if (type === 2) return { kind: 'too-big' }
  const known = type === 1 ? UNREACHABLE_6.get(code) : undefined
  return { kind: 'refused', refusal: known ?? other(type, code) }
}

function other(type: number, code: number): Refusal {
  return refusal(`ICMP type ${type} code ${code}`, `!<${type}-${code}>`)
}
