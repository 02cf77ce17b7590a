// Sends one batch of results and reports its outcome.
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { DroppedSpan, ResultsAnswer } from '../../contract/protocol/agent-protocol.ts'
import { actionForError, actionForStatus, type DeliveryAction } from './actions.ts'
import type { DeliveryLink } from './link.ts'
import type { DroppedSpans } from './dropped-spans.ts'

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
