// Maps errors of the operating system and of Node's sockets to stable failure codes.
import { failure, type Failure, type FailureCode } from '../contract/failure.ts'
import { cutOffFailure, isCutOff } from './own-network.ts'
import { handshakeCode } from './tls/errors.ts'

interface Meaning {
  code: FailureCode
  sentence: string
}

/** No connection to the target; a missing name is not one of them, as it may be a typing error. */
export const NOT_CONNECTED: readonly FailureCode[] = [
  'CONNECT_REFUSED',
  'CONNECT_UNREACHABLE',
  'CONNECT_FAILED',
  'TIMEOUT_CONNECT',
]

const OUT_OF: Record<string, string> = {
  EMFILE: 'file descriptors',
  ENFILE: 'file descriptors of the whole system',
  ENOBUFS: 'network buffers',
  ENOMEM: 'memory',
  EADDRNOTAVAIL: 'local addresses or ports',
}

const unreachable = (sentence: string): Meaning => ({ code: 'CONNECT_UNREACHABLE', sentence })

const CONNECTING: Record<string, Meaning> = {
  ECONNREFUSED: { code: 'CONNECT_REFUSED', sentence: 'refused the connection' },
  EHOSTUNREACH: unreachable('cannot be reached: no route to the host'),
  ENETUNREACH: unreachable('cannot be reached: no route to the network'),
  ENETDOWN: unreachable('cannot be reached: the network is down'),
  EHOSTDOWN: unreachable('cannot be reached: the host is down'),
  EAFNOSUPPORT: unreachable('cannot be reached: this system does not support the address family'),
  ETIMEDOUT: { code: 'TIMEOUT_CONNECT', sentence: 'did not answer; the system gave up' },
}

/** Our own system has no route; without any network that says nothing about the target. */
const NO_ROUTE: ReadonlySet<string> = new Set(['ENETUNREACH', 'ENETDOWN', 'EHOSTUNREACH'])

/** A firewall, a security module or a prohibiting route of our own system; no packet left it. */
const FORBIDDEN: Meaning = {
  code: 'ADDRESS_BLOCKED',
  sentence: 'cannot be reached: the firewall of this agent’s system blocks it',
}

/** Over IPv6 Linux says EACCES for a router's "administratively prohibited", too (RFC 4443, 3.1). */
const FILTERED = unreachable('cannot be reached: a firewall on the path blocks it')

function meaningOf(reason: string, where: string): Meaning | undefined {
  if (reason === 'EACCES') return where.startsWith('[') ? FILTERED : FORBIDDEN
  return reason === 'EPERM' ? FORBIDDEN : CONNECTING[reason]
}

const ALWAYS: Record<string, Meaning> = {
  ECONNRESET: { code: 'CONNECTION_RESET', sentence: 'reset the connection' },
  ECONNABORTED: { code: 'CONNECTION_RESET', sentence: 'aborted the connection' },
  EPIPE: { code: 'CONNECTION_CLOSED', sentence: 'closed the connection while we were sending' },
  ETIMEDOUT: {
    code: 'CONNECTION_RESET',
    sentence: 'stopped answering; the system closed the connection',
  },
  ERR_STREAM_DESTROYED: { code: 'CONNECTION_CLOSED', sentence: 'closed the connection' },
  ERR_STREAM_PREMATURE_CLOSE: { code: 'CONNECTION_CLOSED', sentence: 'closed the connection' },
}

/** The failure for an error while connecting to `where` (`address:port`). */
export function connectFailure(error: NodeJS.ErrnoException, where: string): Failure {
  const reason = error.code ?? ''
  const meaning = meaningOf(reason, where)
  if (meaning === undefined) return connectionFailure(error, where)
  if (NO_ROUTE.has(reason) && isCutOff()) return cutOffFailure({ where, reason })
  const details = meaning === FORBIDDEN ? { where, reason } : { where }
  return failure(meaning.code, `${where} ${meaning.sentence}`, details)
}

/** The failure for errors that say that our own system is out of something; undefined for others. */
export function exhausted(reason: string, details?: Record<string, unknown>): Failure | undefined {
  const resource = OUT_OF[reason]
  if (resource === undefined) return undefined
  return failure('RESOURCES_EXHAUSTED', `this agent is out of ${resource} (${reason})`, details)
}

/** The failure for an error on an open connection, including TLS alerts; `when` says when a close was too early. */
export function connectionFailure(
  error: NodeJS.ErrnoException,
  where: string,
  when = 'before it answered',
): Failure {
  const reason = error.code ?? ''
  const own = exhausted(reason, { where })
  if (own !== undefined) return own
  if (reason.startsWith('ERR_SSL_')) {
    return failure(handshakeCode(reason), `TLS with ${where} failed: ${plain(error)}`, {
      where,
      reason,
    })
  }
  // Node also reports ECONNRESET for an orderly close that is too early, but then without a system call.
  if (reason === 'ECONNRESET' && error.syscall === undefined) {
    return failure('CONNECTION_CLOSED', `${where} closed the connection ${when}`, { where })
  }
  const meaning = ALWAYS[reason]
  if (meaning !== undefined) return failure(meaning.code, `${where} ${meaning.sentence}`, { where })
  return failure('CONNECT_FAILED', `the connection to ${where} failed: ${plain(error)}`, {
    where,
    reason,
  })
}

/** The reason without the file and line numbers of OpenSSL's errors. */
function plain(error: NodeJS.ErrnoException & { reason?: string }): string {
  return (error.reason ?? error.message).split('\n')[0] as string
}

/** The peer of an open connection, for messages: through a proxy, its address is not the target's. */
export function peerPlace(
  target: { host: string; port: number },
  { address, proxyHost }: { address: string; proxyHost?: string | undefined },
): string {
  if (proxyHost === undefined) return placeOf(address, target.port)
  return `${placeOf(target.host, target.port)} (through the proxy ${proxyHost})`
}

/** `address:port`, with brackets where the address needs them. */
export function placeOf(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}
