// Objections of routers, targets and our own kernel to an echo, and their failures.
import { failure, type Failure } from '../../contract/failure.ts'
import type { IcmpCode } from './definition.ts'
import { connectFailure } from '../../network/connect-errors.ts'
import type { PacketError } from '../../network/native/control-messages.ts'
import { icmpMeaning, type IcmpMeaning } from '../../network/native/icmp-meaning.ts'
import { SystemCallError } from '../../network/native/system-call-error.ts'
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

const CODES: Record<IcmpMeaning['kind'], IcmpCode> = {
  'ttl-exceeded': 'ICMP_TTL_EXCEEDED',
  'too-large': 'ICMP_TOO_LARGE',
  arrived: 'ICMP_UNREACHABLE',
  unreachable: 'ICMP_UNREACHABLE',
  prohibited: 'ICMP_PROHIBITED',
  rejected: 'ICMP_REJECTED',
}

/** Reads an entry of the error queue; undefined if it is no error (a timestamp). */
export function icmpErrorOf(error: PacketError, to: string): IcmpError | undefined {
  const { origin, type, code: icmpCode, info, offender } = error
  if (origin === ERROR_ORIGIN.local) return localError(error.errno, to, info)
  if (origin !== ERROR_ORIGIN.icmp && origin !== ERROR_ORIGIN.icmp6) return undefined
  const family = origin === ERROR_ORIGIN.icmp ? 'IPv4' : 'IPv6'
  const { kind, name } = icmpMeaning(family, type, icmpCode)
  const code = CODES[kind]
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

/** The failure that so many echoes of `sent` failed by this objection. */
export function errorFailure(error: IcmpError, to: string, count: number, sent: number): Failure {
  if (error.own !== undefined) return error.own
  const { code, name, from, mtu } = error
  const who = from === undefined ? 'this agent’s own system' : from === to ? 'the target' : from
  const limit = mtu === undefined ? '' : `, at most ${mtu} bytes pass`
  const message = `${who} reports for ${to}: ${name}${limit} (${count} of ${sent} echoes)`
  return { code, message, details: { address: to, error: name, from, mtu, count } }
}
