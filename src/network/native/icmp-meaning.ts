// Meanings of ICMP errors, with the marks of traceroute(8) (RFC 792, RFC 1812 5.2.7.1, RFC 4443).
import type { Family } from '../dial.ts'

/** Why a packet was not delivered, as reported by a router or the target. */
export interface IcmpMeaning {
  /** `arrived`: at a closed port or an unknown protocol, which only the target itself can report. */
  kind: 'ttl-exceeded' | 'too-large' | 'arrived' | 'unreachable' | 'prohibited' | 'rejected'
  /** Text: `host unreachable`. */
  name: string
  /** As traceroute(8) prints it: `!H`. */
  mark: string
}

type Entry = readonly [kind: IcmpMeaning['kind'], name: string, mark?: string]

const PARAMETER: Entry = ['rejected', 'parameter problem']
const PROTOCOL: Entry = ['arrived', 'protocol unreachable', '!P']
const PORT: Entry = ['arrived', 'port unreachable', '!p']
const REASSEMBLY: Entry = ['rejected', 'fragment reassembly time exceeded']

/** By type and code. */
const IPV4: Record<number, readonly Entry[]> = {
  3: [
    ['unreachable', 'network unreachable', '!N'],
    ['unreachable', 'host unreachable', '!H'],
    PROTOCOL,
    PORT,
    ['too-large', 'fragmentation needed', '!F'],
    ['unreachable', 'source route failed', '!S'],
    ['unreachable', 'network unknown', '!U'],
    ['unreachable', 'host unknown', '!W'],
    ['unreachable', 'source host isolated', '!I'],
    ['prohibited', 'network prohibited', '!A'],
    ['prohibited', 'host prohibited', '!Z'],
    ['unreachable', 'network unreachable for this type of service', '!Q'],
    ['unreachable', 'host unreachable for this type of service', '!T'],
    ['prohibited', 'communication prohibited', '!X'],
    ['prohibited', 'host precedence violation', '!V'],
    ['prohibited', 'precedence cutoff', '!C'],
  ],
  11: [['ttl-exceeded', 'TTL exceeded in transit'], REASSEMBLY],
  12: [PARAMETER, PARAMETER, PARAMETER],
}

const IPV6: Record<number, readonly Entry[]> = {
  1: [
    ['unreachable', 'no route to destination', '!N'],
    ['prohibited', 'communication prohibited', '!X'],
    ['unreachable', 'beyond scope of the source address', '!S'],
    ['unreachable', 'address unreachable', '!H'],
    PORT,
    ['prohibited', 'source address failed policy', '!X'],
    ['prohibited', 'route rejected', '!X'],
    ['rejected', 'error in source routing header'],
  ],
  2: [['too-large', 'packet too big', '!F']],
  3: [['ttl-exceeded', 'hop limit exceeded in transit'], REASSEMBLY],
  // An unknown next header: the target does not have this protocol (RFC 4443, 3.4).
  4: [PARAMETER, PROTOCOL, PARAMETER],
}

/** The type "destination unreachable". */
const UNREACHABLE = { IPv4: 3, IPv6: 1 } as const

/** The meaning of an ICMP error; every type and code has one. */
export function icmpMeaning(family: Family, type: number, code: number): IcmpMeaning {
  const known = (family === 'IPv4' ? IPV4 : IPV6)[type]?.[code]
  const isUnreachable = type === UNREACHABLE[family]
  const [kind, name, mark] = known ?? [
    isUnreachable ? 'unreachable' : 'rejected',
    `ICMP type ${type} code ${code}`,
  ]
  return { kind, name, mark: mark ?? `!<${type}-${code}>` }
}
