// Connection up to the finished TLS handshake: dial, STARTTLS if the protocol has it, handshake. All phases have
// one clock, so that a stalled server is a timeout of that phase.
import type { Failure } from '../../contract/failure.ts'
import { connectionFailure, peerPlace } from '../../network/connect-errors.ts'
import type {
  Connection,
  Endpoint,
  Handshake,
  Progress,
  SecureConnection,
} from '../../network/dial.ts'
import { DeadlineReached } from '../../network/deadline.ts'
import { type Context } from '../monitor.ts'
import type { SslPlan } from './plan.ts'
import { startTls } from './starttls.ts'
import { TargetFailure } from '../../network/target-failure.ts'

/** Milliseconds. `totalMs` ends with the handshake: later lookups are not the server's time. */
export interface SslPhases {
  dnsMs?: number
  connectMs?: number
  proxyMs?: number
  startTlsMs?: number
  tlsMs?: number
  totalMs: number
  revocationMs?: number
}

/** A clock that aborts its signal at the deadline, or together with the run. */
export class PhaseClock {
  readonly #controller = new AbortController()
  readonly #outer: AbortSignal
  readonly #startedAt = performance.now()
  readonly #totalMs: number
  #timer: NodeJS.Timeout | undefined
  /** Name of the phase, for the failure at the deadline. */
  #limitMs = 0

  /** `totalMs`: time for all phases together. */
  constructor(outer: AbortSignal, totalMs: number) {
    this.#outer = outer
    this.#totalMs = totalMs
    if (outer.aborted) this.#onAbort()
    outer.addEventListener('abort', this.#onAbort)
    this.#wind(totalMs, totalMs)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Limits the next phase, within the rest of the total. */
  limit(ms: number): void {
    if (ms < this.#leftMs()) this.#wind(ms, ms)
  }

  /** Restores the rest of the total. */
  unlimit(): void {
    if (this.#limitMs !== this.#totalMs) this.#wind(this.#leftMs(), this.#totalMs)
  }

  /** Stops the clock; must be called in any case. */
  stop(): void {
    clearTimeout(this.#timer)
    this.#outer.removeEventListener('abort', this.#onAbort)
  }

  #leftMs(): number {
    return this.#totalMs - (performance.now() - this.#startedAt)
  }

  #wind(ms: number, limitMs: number): void {
    clearTimeout(this.#timer)
    this.#limitMs = limitMs
    this.#timer = setTimeout(this.#onTime, Math.max(0, ms))
  }

  readonly #onTime = () => {
    this.#controller.abort(new DeadlineReached(this.#limitMs))
  }

  readonly #onAbort = () => {
    this.#controller.abort(this.#outer.reason)
  }
}

/** A finished handshake. The caller destroys the socket. */
export interface Reached {
  connection: Connection
  secure: SecureConnection
  where: string
}

/** Connects, with STARTTLS if the protocol begins in plaintext. The caller destroys the socket. */
export async function reachTls(
  plan: SslPlan,
  endpoint: Endpoint,
  context: Context,
  progress: Progress,
  signal: AbortSignal,
  phases?: SslPhases,
): Promise<{ connection: Connection; where: string }> {
  const connection = await context.dial.connect(endpoint, progress, signal)
  if (phases !== undefined) {
    phases.dnsMs = connection.dnsMs
    phases.connectMs = connection.connectMs
    if (connection.proxyMs !== undefined) phases.proxyMs = connection.proxyMs
  }
  const where = peerPlace(endpoint, connection)
  const protocol = plan.config.startTls
  if (protocol === undefined) return { connection, where }
  const startedAt = performance.now()
  try {
    await startTls(connection.socket, protocol, where, progress, signal)
  } catch (error) {
    connection.socket.destroy()
    throw error
  } finally {
    if (phases !== undefined) phases.startTlsMs = performance.now() - startedAt
  }
  return { connection, where }
}

/**
 * Performs the handshake: first with the usual settings, old versions included, then, on a second connection,
 * with all versions and ciphers. Rejects like the dialler.
 */
export async function handshakeWithFallback(
  plan: SslPlan,
  endpoint: Endpoint,
  context: Context,
  progress: Progress,
  clock: PhaseClock,
  phases: SslPhases,
): Promise<Reached> {
  try {
    return await shakeOnce(plan, endpoint, context, progress, clock, phases, 'old')
  } catch (error) {
    if (!(error instanceof TargetFailure) || error.failure.code !== 'TLS_PROTOCOL') throw error
    try {
      return await shakeOnce(plan, endpoint, context, progress, clock, phases, 'anything')
    } catch (second) {
      // The error of an ordinary client is the one that users search for.
      throw second instanceof TargetFailure ? error : second
    }
  }
}

async function shakeOnce(
  plan: SslPlan,
  endpoint: Endpoint,
  context: Context,
  progress: Progress,
  clock: PhaseClock,
  phases: SslPhases,
  offer: 'old' | 'anything',
): Promise<Reached> {
  const { handshakeTimeoutMs } = plan.config
  const { connection, where } = await reachTls(
    plan,
    endpoint,
    context,
    progress,
    clock.signal,
    phases,
  )
  const handshake: Handshake = { serverName: plan.name, settings: plan.tls, where, offer }
  if (plan.alpn !== undefined) handshake.alpn = plan.alpn
  clock.limit(handshakeTimeoutMs)
  const { socket } = connection
  const secure = await context.dial.secure(socket, handshake, progress, clock.signal)
  clock.unlimit()
  secure.socket.once('close', () => socket.destroy())
  phases.tlsMs = secure.tlsMs
  return { connection, secure, where }
}

/** Longest wait for the server's verdict on the client certificate. Milliseconds. */
const VERDICT_MS_MAX = 500
const VERDICT_MS_MIN = 20

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
