// Connection up to the finished TLS handshake: dial, STARTTLS if the protocol has it, handshake.
import type { Failure } from '../../contract/failure.ts'
import { connectionFailure } from '../../network/connect-errors.ts'
import type { Endpoint, Family, Handshake, Progress, SecureConnection } from '../../network/dial.ts'
import { withDeadline } from '../../network/deadline.ts'
import type { Context } from '../monitor.ts'
import { type ConnectionPhases, reach } from '../probe.ts'
import { startTls } from './starttls.ts'
import { TargetFailure } from '../../network/target-failure.ts'
import { domainToASCII } from 'node:url'
import { isIP, type Socket } from 'node:net'
import type { SslMonitor } from './definition.ts'

/** Milliseconds. `totalMs` ends with the handshake: later lookups are not the server's time. */
export interface SslPhases extends ConnectionPhases {
  startTlsMs?: number
  totalMs: number
  revocationMs?: number
}

/** An attempt to reach a server; `progress` and `facts` are written while it runs. */
export interface Attempt {
  plan: SslPlan
  endpoint: Endpoint
  context: Context
  progress: Progress
  facts: { address?: string; family?: Family; phases: SslPhases }
}

/** A finished handshake. The caller destroys the socket. */
export interface Reached {
  socket: Socket
  secure: SecureConnection
  where: string
}

/** Connects, with STARTTLS if the protocol begins in plaintext. The caller destroys the socket. */
export async function reachTls(
  { plan, endpoint, context, progress, facts }: Attempt,
  signal: AbortSignal,
): Promise<{ socket: Socket; where: string }> {
  const { dial } = context
  const { socket, where } = await reach(endpoint, undefined, { dial, signal }, progress, facts)
  const protocol = plan.config.startTls
  if (protocol === undefined) return { socket, where }
  const startedAt = performance.now()
  try {
    await startTls(socket, protocol, where, progress, signal)
  } catch (error) {
    socket.destroy()
    throw error
  } finally {
    facts.phases.startTlsMs = performance.now() - startedAt
  }
  return { socket, where }
}

/**
 * Performs the handshake: first with the usual settings, old versions included, then, on a second connection,
 * with all versions and ciphers. Rejects like the dialler.
 */
export async function handshakeWithFallback(
  attempt: Attempt,
  signal: AbortSignal,
): Promise<Reached> {
  try {
    return await shakeOnce(attempt, signal, 'old')
  } catch (error) {
    if (!(error instanceof TargetFailure) || error.failure.code !== 'TLS_PROTOCOL') throw error
    try {
      return await shakeOnce(attempt, signal, 'anything')
    } catch (second) {
      // The error of an ordinary client is the one that users search for.
      throw second instanceof TargetFailure ? error : second
    }
  }
}

async function shakeOnce(
  attempt: Attempt,
  signal: AbortSignal,
  offer: 'old' | 'anything',
): Promise<Reached> {
  const { plan, context, progress, facts } = attempt
  const { socket, where } = await reachTls(attempt, signal)
  const handshake: Handshake = { serverName: plan.name, settings: plan.tls, where, offer }
  if (plan.alpn !== undefined) handshake.alpn = plan.alpn
  const secure = await withDeadline(signal, plan.config.handshakeTimeoutMs, (limited) =>
    context.dial.secure(socket, handshake, progress, limited),
  )
  secure.socket.once('close', () => socket.destroy())
  facts.phases.tlsMs = secure.tlsMs
  return { socket, secure, where }
}

/** Longest wait for the server's verdict on the client certificate. Milliseconds. */
const VERDICT_MS_MAX = 500
const VERDICT_MS_MIN = 100

/**
 * In TLS 1.3 the client finishes before the server has checked its certificate: a server that requires one, or
 * another one, sends an alert a round trip later. Most servers send a session ticket, which ends the wait.
 */
export function serverRefusal(
  { secure, where }: Reached,
  signal: AbortSignal,
): Promise<Failure | undefined> {
  const { socket, tlsMs, peer } = secure
  if (peer.protocol !== 'TLSv1.3') return Promise.resolve(undefined)
  return new Promise((resolve) => {
    const end = (failed?: Failure) => {
      clearTimeout(timer)
      signal.removeEventListener('abort', onEnd)
      socket.off('session', onEnd).off('data', onEnd).off('close', onEnd).off('error', onError)
      resolve(failed)
    }
    const onEnd = () => end()
    const onError = (error: NodeJS.ErrnoException) => {
      // Only an alert concerns the client certificate; servers may close after the handshake.
      end(error.code?.startsWith('ERR_SSL_') === true ? connectionFailure(error, where) : undefined)
    }
    const waitMs = Math.min(VERDICT_MS_MAX, Math.max(VERDICT_MS_MIN, 2 * tlsMs))
    const timer = setTimeout(onEnd, waitMs)
    signal.addEventListener('abort', onEnd)
    socket.on('session', onEnd).on('data', onEnd).on('close', onEnd).on('error', onError)
  })
}

const ALPN_OF_HTTPS = ['h2', 'http/1.1']

/** A definition, ready to be run. */
export type SslPlan = ReturnType<typeof makePlan>

/** Common plan of all attempts of a monitor. */
export function makePlan({ request, maxResponseTime }: SslMonitor) {
  const { sslConfig: config, tls } = request
  const { hostname, port, alpnProtocols } = config
  const { serverName, ...rest } = tls ?? {}
  const offered = alpnProtocols ?? (port === 443 ? ALPN_OF_HTTPS : [])
  return {
    endpoint: { host: hostname, port, family: config.ipFamily },
    /** Name for SNI and verification, in its ASCII form. */
    name: asciiName(config.serverName ?? serverName ?? hostname),
    config,
    /** Without `serverName`; see `name`. */
    tls: Object.keys(rest).length === 0 ? undefined : rest,
    alpn: offered.length === 0 ? undefined : offered,
    assertions: request.assertions,
    maxResponseTime,
  }
}

/** Certificates contain names in ASCII form, without a dot at the end (RFC 9525, 6.3). */
function asciiName(name: string): string {
  const bare = name.replace(/^\[|\]$|\.$/g, '')
  return isIP(bare) === 0 ? domainToASCII(bare) || bare : bare
}
