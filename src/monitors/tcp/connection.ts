// TCP connection of a running check: its facts so far, and the steps that change it.
import type { Socket } from 'node:net'
import type { Failure } from '../../contract/failure.ts'
import { connectionFailure, peerPlace } from '../../network/connect-errors.ts'
import type { Connection, Family, Progress } from '../../network/dial.ts'
import type { Context } from '../monitor.ts'
import { TargetFailure } from '../../network/target-failure.ts'
import type { Plan } from './plan.ts'
import type { Received } from '../../network/tcp-received.ts'
import type { PeerFacts } from '../../network/tls/facts.ts'

/** Outcome of a step of a dialogue. A sent text is not shown: it may be a password. */
export interface StepOutcome {
  /** From 1. */
  step: number
  kind: 'expect' | 'send' | 'startTls'
  /** The pattern of `expect`. */
  pattern?: string
  /** Bytes of `send`. */
  bytes?: number
  passed: boolean
  durationMs: number
}

/** Milliseconds. `firstByteMs` starts when the request was sent; `totalMs` excludes the idle timeout. */
export interface Phases {
  dnsMs?: number
  connectMs?: number
  proxyMs?: number
  tlsMs?: number
  firstByteMs?: number
  downloadMs?: number
  totalMs: number
}

/** Facts of one connection. */
export interface Probe {
  address?: string
  family?: Family
  phases: Phases
  response?: { data: string; bytes: number; truncated: boolean }
  tls?: PeerFacts
  dialogue?: StepOutcome[]
  failures: Failure[]
  /** A pattern of an assertion or of the dialogue did not match. */
  failedDueToRegex: boolean
}

/** A running probe. */
export interface Running {
  plan: Plan
  context: Context
  probe: Probe
  progress: Progress
  startedAt: number
  /** When the request was sent. */
  sentAt: number
  /** As it was dialled. */
  connection: Connection
  socket: Socket
  received: Received | undefined
}

/** The peer of an established connection, for messages. */
export function peerOf({ connection, plan }: Running): string {
  return peerPlace(plan, connection)
}

/** Upgrades the connection to TLS; rejects when a certificate that must verify does not. */
export async function secure(running: Running): Promise<void> {
  const { plan, context, probe, progress } = running
  const handshake = { serverName: plan.host, settings: plan.tlsSettings, where: peerOf(running) }
  running.received?.detach()
  const plain = running.socket
  const { socket, tlsMs, peer } = await context.dial.secure(
    plain,
    handshake,
    progress,
    context.signal,
  )
  socket.once('close', () => plain.destroy())
  running.socket = socket
  probe.phases.tlsMs = tlsMs
  probe.tls = peer
  if (peer.failure !== undefined && !plan.skipSSL) throw new TargetFailure(peer.failure)
  running.received?.attach(socket)
}

/** Sends and waits until the system has accepted all data. Rejects with CONNECTION_… or the signal's reason. */
export async function send(running: Running, data: Buffer): Promise<void> {
  const { socket, context, progress } = running
  const { signal } = context
  progress.phase = 'send'
  signal.throwIfAborted()
  const onAbort = () => socket.destroy()
  signal.addEventListener('abort', onAbort)
  const error = await new Promise<Error | null | undefined>((resolve) => {
    socket.write(data, resolve)
  })
  signal.removeEventListener('abort', onAbort)
  signal.throwIfAborted()
  if (error === null || error === undefined) return
  throw new TargetFailure(connectionFailure(error, peerOf(running)))
}
