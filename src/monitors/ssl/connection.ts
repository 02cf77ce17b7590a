// The way to a finished TLS handshake: dial, ask for TLS where the protocol wants that, shake hands. All under
// one clock, so that a server that stalls anywhere is a time-out of that phase.
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

/** Milliseconds. `totalMs` ends with the handshake: what is looked up afterwards is not the server's time. */
export interface SslPhases {
  dnsMs?: number
  connectMs?: number
  proxyMs?: number
  startTlsMs?: number
  tlsMs?: number
  totalMs: number
  revocationMs?: number
}

/** A clock that aborts its signal when time is up, or together with the run. */
export class PhaseClock {
  readonly #controller = new AbortController()
  readonly #outer: AbortSignal
  readonly #startedAt = performance.now()
  readonly #totalMs: number
  #timer: NodeJS.Timeout | undefined
  /** What the deadline is called when it comes. */
  #limitMs = 0

  /** `totalMs` is for all phases together. */
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

  /** From now on so long, where that is less than the rest of the whole. */
  limit(ms: number): void {
    if (ms < this.#leftMs()) this.#wind(ms, ms)
  }

  /** Back to the rest of the whole. */
  unlimit(): void {
    if (this.#limitMs !== this.#totalMs) this.#wind(this.#leftMs(), this.#totalMs)
  }

  /** Stops the clock; to be called in any case. */
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

/** A handshake that is done. The socket is the caller's to destroy. */
export interface Reached {
  connection: Connection
  secure: SecureConnection
  where: string
}

/** Connects, and asks for TLS where the protocol begins in the clear. The socket is the caller's to destroy. */
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
 * Shakes hands with whatever the server still speaks: first with what is usual, old versions included, then,
 * on a second connection, with anything. Rejects like the dialler.
 */
export async function shakeAnyHands(
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
      // What a usual client is told is what people look for.
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

/** The longest that a server's verdict on our certificate is waited for. Milliseconds. */
const VERDICT_MS_MAX = 500
const VERDICT_MS_MIN = 20

/**
 * In TLS 1.3 the client is done before the server has looked at its certificate: a server that wants one, or
 * another one, says so by an alert a round trip later. Most send a session ticket then, which ends the wait.
 */
export function serversVerdict(
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
      // Only an alert speaks of our certificate; servers that hang up after the handshake may.
      end(error.code?.startsWith('ERR_SSL_') === true ? connectionFailure(error, where) : undefined)
    }
    const waitMs = Math.min(VERDICT_MS_MAX, Math.max(VERDICT_MS_MIN, 2 * tlsMs))
    const timer = setTimeout(onEnd, waitMs)
    signal.addEventListener('abort', onEnd)
    socket.on('session', onEnd).on('data', onEnd).on('close', onEnd).on('error', onError)
  })
}
