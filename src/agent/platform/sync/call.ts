// One sync with the platform: the request, and the meaning of its answer.
import { jsonOf } from '../../../contract/exact-json.ts'
import { excerpt } from '../../../contract/failure.ts'
import type { SyncRequest } from '../../../contract/protocol/agent-protocol.ts'
import { jsonBody, type LinkAnswer, type PlatformLink } from '../link.ts'
import { LinkError } from '../link-error.ts'
import { MalformedAnswerError, readSyncAnswer, type ReadAnswer } from './answer.ts'
import type { SyncProblem } from './state.ts'
import { retryAfterMs } from '../backoff.ts'

export type SyncOutcome =
  | { kind: 'answered'; answer: ReadAnswer; link: LinkAnswer }
  /** Aborted by the agent itself, to report something new or to end. */
  | { kind: 'cut' }
  | { kind: 'failed'; problem: SyncProblem; askedForMs: number | undefined }
  /** The key was revoked: nothing will ever work again. */
  | { kind: 'revoked'; message: string }
  /** Another agent uses this agent's id. */
  | { kind: 'twin' }

/** Beyond the hold, until an answer without much in it begins, and one with all monitors. */
const ANSWER_MS = 10_000
const WHOLE_ANSWER_MS = 60_000
/** All monitors may be some megabytes, and the line a slow one. */
const PACE = { idleMs: 20_000, wholeMs: 600_000 }
const ANSWER_BYTES_MAX = 64 * 1024 * 1024

/** Sends one sync. Never rejects. */
export async function sync(
  link: PlatformLink,
  request: SyncRequest,
  signal: AbortSignal,
): Promise<SyncOutcome> {
  const endBeats = startPresenceBeats(link, request)
  try {
    const answer = await link.request({
      method: 'POST',
      path: '/agent/v1/sync',
      ...(await jsonBody(JSON.stringify(request))),
      deadlineMs: request.waitMs + (request.have === null ? WHOLE_ANSWER_MS : ANSWER_MS),
      pace: PACE,
      answerBytesMax: ANSWER_BYTES_MAX,
      signal,
    })
    if (answer.status === 200) return answered(answer)
    return refusalOf(answer)
  } catch (error) {
    if (!(error instanceof LinkError)) throw error
    const { code, message } = error
    if (code === 'ABORTED') return { kind: 'cut' }
    return failed({ code, message, isRefusal: code === 'REDIRECTED' })
  } finally {
    endBeats()
  }
}

function answered(link: LinkAnswer): SyncOutcome {
  try {
    return { kind: 'answered', answer: readSyncAnswer(link.body), link }
  } catch (error) {
    if (!(error instanceof MalformedAnswerError)) throw error
    return failed(malformed(error))
  }
}

/** The problem of an answer that is not what the protocol says. */
export function malformed({ message }: MalformedAnswerError): SyncProblem {
  const sentence = `the platform’s answer violates the protocol: ${message}`
  return { code: 'MALFORMED', message: sentence, isRefusal: false }
}

function failed(problem: SyncProblem, askedForMs?: number): SyncOutcome {
  return { kind: 'failed', problem, askedForMs }
}

const STATUS_TEXTS: Readonly<Record<number, string>> = {
  401: 'the platform does not accept API_KEY; check that it is a key of this platform’s location',
  403: 'the platform, or a proxy in front of it, forbids the call',
  404: 'there is no platform at PLATFORM_URL, or one that is too old for this agent',
  405: 'there is no platform at PLATFORM_URL, or one that is too old for this agent',
  426: 'the platform requires a newer agent',
}

/** What an answer that is no success means, whichever call of the agents it answers. */
export function refusalOf({
  status,
  headers,
  body,
}: Pick<LinkAnswer, 'status' | 'headers' | 'body'>): SyncOutcome {
  const { message, reason } = errorIn(body)
  if (status === 409) return { kind: 'twin' }
  if (status === 401 && reason === 'revoked') {
    return { kind: 'revoked', message: 'API_KEY was revoked on the platform; set a new one' }
  }
  const said = message === undefined ? '' : ` (${message})`
  // A page of an intermediary, as while the platform is being replaced, is not an answer of the platform.
  const isRefusal = status in STATUS_TEXTS && message !== undefined
  const text = STATUS_TEXTS[status] ?? `the platform answers ${status}`
  return failed(
    { code: `HTTP_${status}`, message: `${text}${said}`, isRefusal },
    retryAfterMs(headers['retry-after'], Date.now()),
  )
}

const MESSAGE_LENGTH_MAX = 300

/** What an error body in the platform's form says; a proxy's page says nothing. */
function errorIn(body: Buffer): { message?: string; reason?: unknown } {
  const { message, attributes } = (jsonOf(body.toString()) ?? {}) as Record<string, unknown>
  const { reason } = (attributes ?? {}) as { reason?: unknown }
  if (typeof message !== 'string') return { reason }
  return { message: excerpt(message, MESSAGE_LENGTH_MAX), reason }
}

/** From one heartbeat to the next; three fit into the heartbeat timeout of the platform. */
const BEAT_MS = 8_000
/** After the platform's hold, when its answer is due. */
const AFTER_HOLD_MS = 2_000

/**
 * Sends heartbeats during a long sync, such as an answer with all monitors on a slow line: otherwise the agent would
 * count as lost. Starts after some seconds; the returned function ends it. Never throws.
 */
function startPresenceBeats(
  link: PlatformLink,
  { agent: { id, instance }, waitMs }: Pick<SyncRequest, 'agent' | 'waitMs'>,
): () => void {
  const ended = new AbortController()
  const body = Buffer.from(JSON.stringify({ agentId: id, instance }))
  const beat = () => {
    timer = setTimeout(beat, BEAT_MS)
    const asked = link.request({
      method: 'POST',
      path: '/agent/v1/presence',
      headers: { 'content-type': 'application/json' },
      body,
      deadlineMs: BEAT_MS,
      signal: ended.signal,
    })
    // The sync itself reports the problem.
    asked.catch(() => undefined)
  }
  let timer = setTimeout(beat, Math.max(BEAT_MS, waitMs + AFTER_HOLD_MS))
  return () => {
    clearTimeout(timer)
    ended.abort()
  }
}
