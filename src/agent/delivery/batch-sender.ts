// Sends one batch of results and reports its outcome. The action for each answer is one table for results and
// artifacts.
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { DroppedSpan, ResultsAnswer } from '../../contract/protocol/agent-protocol.ts'
import type { DeliveryLink } from './sink.ts'
import type { DroppedSpans } from './dropped-spans.ts'
import { retryAfterMs } from '../platform/sync/wait.ts'

/**
 * - `done`: it is delivered.
 * - `retry`: soon, then less and less often.
 * - `hold`: an operator has to act; retried now and then, nothing is lost.
 * - `halve`: a part of it is bad; halves are sent until that part is alone, which is dropped. A file has no
 *   halves.
 */
export type DeliveryAction = 'done' | 'retry' | 'hold' | 'halve'

interface StatusRow {
  from: number
  to: number
  action: DeliveryAction
}

/** The first matching row applies. */
const STATUS_ACTIONS: readonly StatusRow[] = [
  { from: 200, to: 299, action: 'done' },
  { from: 300, to: 399, action: 'hold' },
  { from: 400, to: 400, action: 'halve' },
  // A key that is wrong, revoked or of another location.
  { from: 401, to: 401, action: 'hold' },
  { from: 403, to: 403, action: 'hold' },
  // The wrong address, or a platform that is too old.
  { from: 404, to: 405, action: 'hold' },
  { from: 408, to: 408, action: 'retry' },
  // Another file of that name is there.
  { from: 409, to: 409, action: 'halve' },
  { from: 413, to: 413, action: 'halve' },
  { from: 422, to: 422, action: 'halve' },
  { from: 425, to: 425, action: 'retry' },
  { from: 429, to: 429, action: 'retry' },
  { from: 400, to: 499, action: 'hold' },
  { from: 500, to: 599, action: 'retry' },
]

/** The action for a status; an invalid status is retried. */
export function actionForStatus(status: number): DeliveryAction {
  return STATUS_ACTIONS.find(({ from, to }) => status >= from && status <= to)?.action ?? 'retry'
}

/** The action for a call without a usable answer, by the code of its error. */
export function actionForError(code: string): DeliveryAction {
  return code === 'REDIRECTED' ? 'hold' : 'retry'
}

const RETRY_MS_MIN = 1000
const RETRY_MS_MAX = 30_000
export const HOLD_MS_MAX = 60_000
/** Upper bound of Retry-After. */
export const RETRY_AFTER_MS_MAX = 300_000

/** How often to try again. */
export interface Attempted {
  action: 'retry' | 'hold'
  /** Attempts that failed in a row, from 1. */
  failures: number
  /** The header of the answer: seconds, or a date (RFC 9110, 10.2.3). */
  retryAfter?: string | undefined
  nowMs: number
}

/**
 * How long to wait before the next attempt. Full jitter between nothing and a bound that doubles, so that
 * the agents of a platform that comes back do not all come at once; a hold waits at least half its bound.
 */
export function waitBefore(attempted: Attempted, random: () => number = Math.random): number {
  const { action, failures, retryAfter, nowMs } = attempted
  const asked = Math.min(RETRY_AFTER_MS_MAX, retryAfterMs(retryAfter, nowMs) ?? 0)
  if (action === 'hold') return Math.max(asked, (HOLD_MS_MAX / 2) * (1 + random()))
  const bound = Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** Math.min(20, failures - 1))
  // After Retry-After, each agent waits a little longer, by a random time.
  return asked > 0 ? asked + random() * RETRY_MS_MIN : random() * bound
}

/** The outcome of a batch. */
export interface BatchOutcome {
  action: DeliveryAction
  /** The status, or the code of the error: for counts and logs. */
  code: string
  message: string
  /** Bytes as sent. */
  bytes: number
  retryAfter?: string | undefined
  /** With `done`. */
  answer?: ResultsAnswer
}

const PATH = '/agent/v1/results'
/** Time for one batch to be sent and answered. */
const BATCH_MS_MAX = 30_000
/** Smaller ones gain nothing. */
const GZIP_BYTES_MIN = 1024
export const MESSAGE_CHARS_MAX = 300
const TEXT_BYTES_MAX = 64 * 1024

const pack = promisify(gzip)

/** Makes the sender, which also reports dropped spans. It never rejects. */
export function createBatchSender(
  link: DeliveryLink,
  agentId: () => string,
  dropped?: Pick<DroppedSpans, 'next'>,
) {
  const send = createSender(link, agentId)
  return async (entries: readonly string[], signal: AbortSignal): Promise<BatchOutcome> => {
    const next = dropped?.next()
    const outcome = await send(entries, next?.spans, signal)
    next?.settled(outcome.action === 'done')
    return outcome
  }
}

function createSender(link: DeliveryLink, agentId: () => string) {
  return async (
    entries: readonly string[],
    spans: readonly DroppedSpan[] | undefined,
    signal: AbortSignal,
  ): Promise<BatchOutcome> => {
    const dropped = spans === undefined ? '' : `,"dropped":${JSON.stringify(spans)}`
    const plain = Buffer.from(
      `{"agentId":"${agentId()}","results":[${entries.join(',')}]${dropped}}`,
    )
    const isPacked = plain.length >= GZIP_BYTES_MIN
    const body = isPacked ? await pack(plain) : plain
    const headers = {
      'content-type': 'application/json',
      ...(isPacked ? { 'content-encoding': 'gzip' } : {}),
    }
    const bytes = body.length
    try {
      const call = { method: 'POST', path: PATH, headers, body, bytes, signal } as const
      const {
        status,
        headers: got,
        body: text,
      } = await link.request({
        ...call,
        deadlineMs: BATCH_MS_MAX,
      })
      const outcome = outcomeOf(status, text, entries.length)
      return { ...outcome, bytes, retryAfter: got['retry-after'] }
    } catch (error) {
      return { ...outcomeOfError(error), bytes }
    }
  }
}

/** The outcome of a call without a usable answer. */
export function outcomeOfError(error: unknown): Omit<BatchOutcome, 'bytes'> {
  const { code: given, message } = error as { code?: unknown; message?: unknown }
  const code = typeof given === 'string' ? given : 'UNREACHABLE'
  return {
    action: actionForError(code),
    code,
    message: String(message).slice(0, MESSAGE_CHARS_MAX),
  }
}

function outcomeOf(status: number, body: Buffer, sent: number): Omit<BatchOutcome, 'bytes'> {
  const text = textOf(body)
  const action = actionForAnswer(status, text)
  const code = String(status)
  const message = text.slice(0, MESSAGE_CHARS_MAX)
  if (action === 'done') {
    const answer = answerIn(body, sent)
    if (answer !== undefined) return { action, code, message: '', answer }
    return { action: 'retry', code: 'UNREADABLE', message: `unreadable answer: ${message}` }
  }
  return { action, code, message }
}

/** The part of an answer's body that is read. */
export function textOf(body: Buffer): string {
  return body.toString('utf8', 0, TEXT_BYTES_MAX)
}

/** The action for an answer: a proxy's page about a bad request is not the platform's verdict. */
export function actionForAnswer(status: number, text: string): DeliveryAction {
  const action = actionForStatus(status)
  return action === 'halve' && status !== 413 && !isProblem(text) ? 'hold' : action
}

/** The answer, if it accounts for every result that was sent. */
function answerIn(body: Buffer, sent: number): ResultsAnswer | undefined {
  try {
    const answer = JSON.parse(body.toString()) as ResultsAnswer
    const { recorded, known, refused } = answer
    return recorded + known + refused.length === sent ? answer : undefined
  } catch {
    return undefined
  }
}

/** Whether this is the body of an error of the platform itself. */
export function isProblem(text: string): boolean {
  try {
    return typeof (JSON.parse(text) as { statusCode?: unknown }).statusCode === 'number'
  } catch {
    return false
  }
}
