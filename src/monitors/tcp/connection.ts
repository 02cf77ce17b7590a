// Plan of a TCP check, its connection with the facts so far, and the steps that change it.
import type { Socket } from 'node:net'
import type { Failure } from '../../contract/failure.ts'
import { connectionFailure } from '../../network/connect-errors.ts'
import type { Progress } from '../../network/dial.ts'
import type { Context } from '../monitor.ts'
import { type ConnectionFacts, type ConnectionPhases, speakTls } from '../probe.ts'
import { TargetFailure } from '../../network/target-failure.ts'
import type { TcpMonitor } from './definition.ts'
import type { Received } from '../../network/tcp-received.ts'

/** A definition, ready to be run. */
export type Plan = ReturnType<typeof makePlan>

/** Common plan of all attempts of a monitor. */
export function makePlan({ request, maxResponseTime }: TcpMonitor) {
  const { hostname, url, port, ipFamily: family, tls, dialogue } = request
  const text = request.data ?? request.body ?? ''
  const dataAssertions = request.assertions.filter(({ source }) => source === 'RESPONSE_DATA')
  return {
    request,
    endpoint: { host: hostname ?? url ?? '', port, family },
    data: text === '' ? undefined : Buffer.from(text),
    /** TLS from the first byte. */
    tlsFirst: tls !== false && !dialogue.some((step) => 'startTls' in step),
    tls: { settings: typeof tls === 'object' ? tls : undefined, skipSSL: request.skipSSL },
    /** Those about RESPONSE_DATA: without any, no answer is awaited. */
    dataAssertions,
    /** Whether anything that the target sends is read. */
    reads: dataAssertions.length > 0 || dialogue.length > 0,
    /**
     * Whether data that satisfies the assertions still does so with any data after it, so that reading may
     * stop. The answer `1` satisfies `LESS_THAN 10` and `EQUALS 1`, until its next byte.
     */
    settlesEarly: dataAssertions.every(
      ({ comparison }) => comparison === 'CONTAINS' || comparison === 'NOT_EMPTY',
    ),
    /** Which of them no more data can make hold again, once they do not. */
    brokenForGood: dataAssertions.map(
      ({ comparison, property, regex }) =>
        (comparison === 'NOT_CONTAINS' || comparison === 'IS_EMPTY') && !property && !regex,
    ),
    maxResponseTime,
  }
}

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
export interface Phases extends ConnectionPhases {
  firstByteMs?: number
  downloadMs?: number
  totalMs: number
}

/** Facts of one connection. */
export interface Probe extends ConnectionFacts {
  phases: Phases
  response?: { data: string; bytes: number; truncated: boolean }
  dialogue?: StepOutcome[]
  failures: Failure[]
  /** A pattern of an assertion or of the dialogue did not match. */
  failedDueToRegex?: true
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
  /** The peer, for messages. */
  where: string
  socket: Socket
  /** Stays empty where nothing is read. */
  received: Received
}

/** Upgrades the connection to TLS; rejects when a certificate that must verify does not, or with TCP_DATA_TOO_LARGE. */
export async function secure(running: Running): Promise<void> {
  const { plan, context, probe, progress, where, received } = running
  const handshake = { serverName: plan.endpoint.host, where, ...plan.tls }
  received.detach()
  received.throwIfTooLarge()
  running.socket = await speakTls(running.socket, handshake, context, progress, probe)
  received.attach(running.socket)
}

/**
 * Sends and waits until the system has accepted all data. Rejects with CONNECTION_…, TCP_DATA_TOO_LARGE when the
 * target floods us meanwhile, or the signal's reason.
 */
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
  running.received.throwIfTooLarge()
  throw new TargetFailure(connectionFailure(error, running.where))
}
