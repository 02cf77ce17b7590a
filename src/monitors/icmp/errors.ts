// Names for what routers, targets and our own kernel say against an echo (RFC 792, RFC 1812, RFC 4443).
import { failure, type Failure } from '../../contract/failure.ts'
import type { IcmpCode } from './definition.ts'
import { connectFailure } from '../../network/connect-errors.ts'
import type { PacketError } from '../../network/native/control-messages.ts'
import { SystemCallError } from '../../network/native/libc.ts'
import { cutOffFailure, isCutOff } from '../../network/own-network.ts'
import { ERROR_ORIGIN } from '../../network/native/socket-options.ts'

/** An objection to an echo. */
export interface IcmpError {
  code: string
  /** Short text of the error: `host unreachable`. */
  name: string
  /** Type and code of the ICMP message; undefined for errors of the agent's own system. */
  type?: number
  icmpCode?: number
  /** Sender; undefined for errors of the agent's own system. */
  from?: string
  /** The largest packet that would pass. Bytes, IP header included. */
  mtu?: number
  /** Failure of the agent's own system. */
  own?: Failure
}

type Name = readonly [code: IcmpCode | 'CONNECT_UNREACHABLE', name: string]

const unreachable = (name: string): Name => ['ICMP_UNREACHABLE', name]
const prohibited = (name: string): Name => ['ICMP_PROHIBITED', name]
const rejected = (name: string): Name => ['ICMP_REJECTED', name]

/** Type → code → name; for a code that is not listed, the type's last one. */
const IPV4: Record<number, readonly Name[]> = {
  3: [
    unreachable('network unreachable'),
    unreachable('host unreachable'),
    unreachable('protocol unreachable'),
    unreachable('port unreachable'),
    ['ICMP_TOO_LARGE', 'fragmentation needed'],
    unreachable('source route failed'),
    unreachable('network unknown'),
    unreachable('host unknown'),
    unreachable('source host isolated'),
    prohibited('network prohibited'),
    prohibited('host prohibited'),
    unreachable('network unreachable for this type of service'),
    unreachable('host unreachable for this type of service'),
    prohibited('communication prohibited'),
    prohibited('host precedence violation'),
    prohibited('precedence cutoff'),
    unreachable('unreachable'),
  ],
  11: [
    ['ICMP_TTL_EXCEEDED', 'TTL exceeded in transit'],
    rejected('fragment reassembly time exceeded'),
  ],
  12: [rejected('parameter problem')],
}

const IPV6: Record<number, readonly Name[]> = {
  1: [
    unreachable('no route to destination'),
    prohibited('communication prohibited'),
    unreachable('beyond scope of the source address'),
    unreachable('address unreachable'),
    unreachable('port unreachable'),
    prohibited('source address failed policy'),
    prohibited('route rejected'),
    rejected('error in source routing header'),
    unreachable('unreachable'),
  ],
  2: [['ICMP_TOO_LARGE', 'packet too big']],
  3: [
    ['ICMP_TTL_EXCEEDED', 'hop limit exceeded in transit'],
    rejected('fragment reassembly time exceeded'),
  ],
  4: [rejected('parameter problem')],
}

/** Reads an entry of the error queue; undefined if it is no error (a timestamp). */
export function icmpErrorOf(error: PacketError, to: string): IcmpError | undefined {
  const { origin, type, code: icmpCode, info, offender } = error
  if (origin === ERROR_ORIGIN.local) return localError(error.errno, to, info)
  if (origin !== ERROR_ORIGIN.icmp && origin !== ERROR_ORIGIN.icmp6) return undefined
  const names = (origin === ERROR_ORIGIN.icmp ? IPV4 : IPV6)[type]
  const [code, name] = names?.[icmpCode] ?? names?.at(-1) ?? rejected(`ICMP type ${type}`)
  const said: IcmpError = { code, name, type, icmpCode }
  if (offender !== undefined) said.from = offender
  if (code === 'ICMP_TOO_LARGE' && info > 0) said.mtu = info
  return said
}

const EMSGSIZE = 90
const EADDRNOTAVAIL = 99

/** Error of the agent's own kernel when it does not send the packet. */
export function localError(errno: number, to: string, mtu?: number): IcmpError {
  if (errno === EMSGSIZE) {
    const said: IcmpError = { code: 'ICMP_TOO_LARGE', name: 'packet too large for the interface' }
    if (mtu !== undefined && mtu > 0) said.mtu = mtu
    return said
  }
  const error = new SystemCallError('send', errno)
  const own = errno === EADDRNOTAVAIL ? noAddress(to) : connectFailure(error, to)
  return { code: own.code, name: `not sent: ${error.code}`, own }
}

/** Where there is no address of ours, there is no way; sockets do not run out of those. */
function noAddress(to: string): Failure {
  if (isCutOff()) return cutOffFailure({ where: to, reason: 'EADDRNOTAVAIL' })
  return failure(
    'CONNECT_UNREACHABLE',
    `${to} cannot be reached: this system has no address for it`,
  )
}

/** The same objection, said by the same: they are counted together. */
export function sameError(one: IcmpError, other: IcmpError): boolean {
  return one.name === other.name && one.from === other.from && one.mtu === other.mtu
}

/** The failure that so many echoes of `sent` failed by this objection. */
export function errorFailure(error: IcmpError, to: string, count: number, sent: number): Failure {
  if (error.own !== undefined) return error.own
  const { code, name, from, mtu } = error
  const who = from === undefined ? 'this agent’s own system' : from === to ? 'the target' : from
  const limit = mtu === undefined ? '' : `, at most ${mtu} bytes pass`
  const message = `${who} says about ${to}: ${name}${limit} (${count} of ${sent} echoes)`
  return { code, message, details: { address: to, error: name, from, mtu, count } }
}
