// Plan of a WebSocket monitor and one attempt: connects, opens the WebSocket, exchanges messages, pings and closes.
import { hash, randomBytes } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { Socket } from 'node:net'
import type { Failure } from '../../contract/failure.ts'
import { LIMITS } from '../../contract/versions.ts'
import { DeadlineReached } from '../../network/deadline.ts'
import type { Progress } from '../../network/dial.ts'
import { type Answer, exchange, type ResponseHead } from '../../network/http/exchange.ts'
import { emptyBody, releaseBody } from '../../network/http/body.ts'
import { failureOf, TargetFailure, targetFailure } from '../../network/target-failure.ts'
import { endOfMatch } from '../assertions/assertions.ts'
import { excerptOf } from '../assertions/comparison.ts'
import type { Context } from '../monitor.ts'
import { type ConnectionFacts, type ConnectionPhases, reach } from '../probe.ts'
import type { WebSocketCode, WebSocketMonitor } from './definition.ts'
import { type Message, WebSocketConnection } from './connection.ts'
import { headersOf, targetFor } from '../../network/http/target.ts'

/** A definition, ready to be run. */
export type Plan = ReturnType<typeof makePlan>

/** Common plan of all attempts of a monitor. Throws like `headersOf`. */
export function makePlan({ request }: WebSocketMonitor) {
  const { url, subprotocols, expect } = request
  const asserts = (...sources: string[]) =>
    request.assertions.some(({ source }) => sources.includes(source))
  const headers = headersOf(request)
  headers.push('Connection', 'Upgrade', 'Upgrade', 'websocket', 'Sec-WebSocket-Version', '13')
  if (subprotocols.length > 0) headers.push('Sec-WebSocket-Protocol', subprotocols.join(', '))
  const target = targetFor(new URL(url.replace(/^ws/i, 'http')), { method: 'GET', headers })
  const reads = typeof expect === 'string' || asserts('MESSAGE', 'JSON_MESSAGE')
  return {
    request,
    /** The handshake request, without its key, which each attempt generates. */
    target,
    /** With `ws:` or `wss:`, without credentials. */
    shownUrl: target.shownUrl.replace(/^http/, 'ws'),
    /** Whether to wait for a message. */
    reads,
    /** Whether a refusal is a failure. Else an assertion checks its status, and nothing needs a WebSocket. */
    needsOpen: !asserts('STATUS_CODE') || reads || asserts('PING_TIME', 'CLOSE_CODE'),
  }
}

/**
 * Milliseconds. `totalMs` is the sum up to the open WebSocket or the message that was awaited: what the target
 * and the network took. Where the attempt failed before, it is the time from its start.
 */
export interface Phases extends ConnectionPhases {
  /** From the request of the handshake to its answer. */
  handshakeMs?: number
  /** From the open connection to the message that was waited for. */
  messageMs?: number
  pingMs?: number
  totalMs: number
}

/** Observation of one attempt. */
export interface Probe extends ConnectionFacts {
  statusCode?: number
  headers?: IncomingHttpHeaders
  /** The one that the target picked. */
  subprotocol?: string
  phases: Phases
  /** The message that was waited for, or the last one before. */
  message?: Message
  messages: number
  closeCode?: number
  closeReason?: string
  failures: Failure[]
}

interface Running {
  plan: Plan
  context: Context
  probe: Probe
  progress: Progress
}

/**
 * Makes one attempt. What the target does wrong is in `failures`; rejects with the signal's reason when the
 * run is cancelled. No socket is left in either case.
 */
export async function probeWebSocket(plan: Plan, context: Context): Promise<Probe> {
  const probe: Probe = { phases: { totalMs: 0 }, messages: 0, failures: [] }
  const startedAt = performance.now()
  const running: Running = { plan, context, probe, progress: { phase: 'dns' } }
  let open: WebSocketConnection | undefined
  try {
    const { socket, where } = await connect(running)
    open = await shakeHands(running, socket, where)
    if (open !== undefined) await converse(running, open)
  } catch (error) {
    probe.failures.push(failureOf(error, running.progress))
    probe.phases.totalMs = performance.now() - startedAt
  } finally {
    open?.destroy()
  }
  if (open !== undefined) noteClosing(probe, open)
  return probe
}

function connect({ plan, context, probe, progress }: Running) {
  const { host, port, secure } = plan.target
  const { ipFamily: family, tls: settings, skipSSL } = plan.request
  const tls = secure ? { settings, skipSSL, alpn: ['http/1.1'] } : undefined
  return reach({ host, port, family }, tls, context, progress, probe)
}

/** Our own work between the phases is not the target's. */
function sumOf({ dnsMs = 0, connectMs = 0, proxyMs = 0, tlsMs = 0, ...later }: Phases): number {
  const { handshakeMs = 0, messageMs = 0 } = later
  return dnsMs + connectMs + proxyMs + tlsMs + handshakeMs + messageMs
}

/** The opening handshake (RFC 6455, 4.1); undefined where its status is not 101 and an assertion speaks of it. */
async function shakeHands(
  { plan, context, probe, progress }: Running,
  socket: Socket,
  where: string,
): Promise<WebSocketConnection | undefined> {
  const { target } = plan
  const { signal } = context
  const key = randomBytes(16).toString('base64')
  const answer: Answer = { body: emptyBody() }
  const options = { where, bufferBytes: 0, isEnough: () => true, keepsUpgraded: true }
  const headers = [...target.sentHeaders, 'Sec-WebSocket-Key', key]
  const outgoing = { method: 'GET', path: target.path, headers, body: undefined }
  try {
    await exchange({ socket, outgoing, answer, options, progress, signal })
  } finally {
    releaseBody(answer.body)
  }
  const response = answer.response as ResponseHead
  probe.statusCode = response.statusCode as number
  probe.headers = response.headers
  probe.phases.handshakeMs = (answer.firstByteMs ?? 0) + (answer.downloadMs ?? 0)
  probe.phases.totalMs = sumOf(probe.phases)
  if (answer.upgradedHead === undefined) {
    if (response.statusCode === 101) {
      const message = `${where} switched protocols without the headers Connection and Upgrade`
      throw targetFailure<WebSocketCode>('WEBSOCKET_HANDSHAKE', message)
    }
    if (!plan.needsOpen) return undefined
    const { statusCode } = response
    const message = `${where} answered the handshake with ${statusCode}, not with 101`
    throw targetFailure<WebSocketCode>('WEBSOCKET_REFUSED', message, { statusCode })
  }
  const problem = handshakeProblem(response.headers, key, plan.request.subprotocols)
  if (problem !== undefined) {
    socket.destroy()
    throw targetFailure<WebSocketCode>('WEBSOCKET_HANDSHAKE', `${where} ${problem}`)
  }
  const { 'sec-websocket-protocol': subprotocol } = response.headers
  if (subprotocol !== undefined) probe.subprotocol = subprotocol
  return new WebSocketConnection(socket, answer.upgradedHead, where, signal)
}

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'

/** Error text of an invalid handshake answer, or undefined. */
function handshakeProblem(
  headers: IncomingHttpHeaders,
  key: string,
  offered: readonly string[],
): string | undefined {
  const { 'sec-websocket-accept': accept, 'sec-websocket-protocol': chosen } = headers
  if (headers.upgrade?.toLowerCase() !== 'websocket') return 'switched to another protocol'
  if (accept?.trim() !== hash('sha1', key + GUID, 'base64'))
    return 'answered another handshake: Sec-WebSocket-Accept is wrong'
  if (headers['sec-websocket-extensions'] !== undefined)
    return 'uses an extension that was not offered'
  if (chosen !== undefined && !offered.includes(chosen)) {
    return `chose the subprotocol ${excerptOf(chosen, 100)}, which was not offered`
  }
  return undefined
}

async function converse(running: Running, open: WebSocketConnection): Promise<void> {
  const { plan, probe, progress } = running
  progress.phase = 'download'
  const openedAt = performance.now()
  const { message, ping } = plan.request
  if (typeof message === 'string') open.send(message)
  if (plan.reads) {
    const { receivedAt } = await readExpected(running, open)
    // It may have come together with the handshake.
    probe.phases.messageMs = Math.max(0, receivedAt - openedAt)
    probe.phases.totalMs = sumOf(probe.phases)
  }
  open.discardMessages()
  if (ping) {
    const sentAt = performance.now()
    const pongAt = await orTimedOut(
      'WEBSOCKET_PING',
      () => 'the ping was not answered',
      open.ping(),
    )
    probe.phases.pingMs = pongAt - sentAt
  }
  try {
    await open.close()
  } catch (error) {
    // A target that has not answered our close by the deadline has done all that was asked of it.
    if (!(error instanceof DeadlineReached)) throw error
  }
}

/** Reads until a message matches; without a pattern the first one does. */
async function readExpected(
  { plan, context, probe }: Running,
  open: WebSocketConnection,
): Promise<Message> {
  const { expect } = plan.request
  const what = () =>
    probe.message === undefined
      ? 'no message arrived'
      : `no message matched ${expect ?? ''}; the last was ${excerptOf(textOf(probe.message), 200)}`
  for (;;) {
    const message = await orTimedOut('WEBSOCKET_EXPECT', what, open.next())
    probe.message = message
    if (typeof expect !== 'string') return message
    const end = await endOfMatch(expect, textOf(message), context.signal)
    if (typeof end !== 'number') throw new TargetFailure(end)
    if (end >= 0) return message
  }
}

/** A deadline that comes in this wait is this failure. */
async function orTimedOut<T>(
  code: WebSocketCode,
  what: () => string,
  wait: Promise<T>,
): Promise<T> {
  try {
    return await wait
  } catch (error) {
    if (!(error instanceof DeadlineReached)) throw error
    const { deadlineMs } = error
    throw targetFailure<WebSocketCode>(code, `${what()} within ${deadlineMs} ms`, { deadlineMs })
  }
}

/** A message as text; bytes that are not UTF-8 become replacement characters. */
export function textOf({ payload }: Message): string {
  return payload.toString('utf8')
}

/** The beginning of a message, for results. */
export function shownMessage(message: Message) {
  const { type, payload } = message
  const shown = payload.subarray(0, LIMITS.bodyExcerptBytesMax)
  const data = type === 'text' ? shown.toString('utf8') : shown.toString('base64')
  return { type, data, bytes: payload.length, truncated: payload.length > shown.length }
}

function noteClosing(probe: Probe, { messages, closing }: WebSocketConnection): void {
  probe.messages = messages
  if (closing?.code !== undefined) probe.closeCode = closing.code
  if (closing !== undefined && closing.reason !== '') probe.closeReason = closing.reason
}
