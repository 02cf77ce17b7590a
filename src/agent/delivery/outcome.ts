// What is done about each answer of the platform: one table for results and artifacts.
import { jsonOf } from '../../contract/exact-json.ts'
import { retryAfterMs } from '../platform/backoff.ts'
import type { LinkAnswer } from '../platform/link.ts'

/**
 * - `done`: it is delivered.
 * - `retry`: soon, then less and less often.
 * - `hold`: an operator has to act; retried now and then, nothing is lost.
 * - `halve`: a part of it is bad; halves are sent until that part is alone, which is dropped. A file has no
 *   halves.
 */
export type DeliveryAction = 'done' | 'retry' | 'hold' | 'halve'

/** The outcome of a call. */
export interface Outcome {
  action: DeliveryAction
  /** The status, or the code of the error: for counts and logs. */
  code: string
  message: string
  /** By Retry-After. */
  askedForMs?: number | undefined
  /** The platform itself says so, not something before it. */
  isByPlatform: boolean
}

const MESSAGE_CHARS_MAX = 300
const TEXT_BYTES_MAX = 64 * 1024
/** A bad request, another file of that name, or too large. */
const HALVE: ReadonlySet<number> = new Set([400, 409, 413, 422])
const RETRY: ReadonlySet<number> = new Set([408, 425, 429])

/** The action for a status: those of 3xx and 4xx that are not named are held, such as a wrong key or address. */
export function actionForStatus(status: number): DeliveryAction {
  if (status >= 200 && status < 300) return 'done'
  if (HALVE.has(status)) return 'halve'
  return status >= 300 && status < 500 && !RETRY.has(status) ? 'hold' : 'retry'
}

/** The outcome by the status of an answer. */
export function outcomeOf({
  status,
  headers,
  body,
}: Pick<LinkAnswer, 'status' | 'headers' | 'body'>): Outcome {
  const text = body.toString('utf8', 0, TEXT_BYTES_MAX)
  const isByPlatform = isProblem(text)
  const action = actionForStatus(status)
  // A proxy's page about a bad request is not the platform's verdict.
  const isOfProxy = action === 'halve' && status !== 413 && !isByPlatform
  return {
    action: isOfProxy ? 'hold' : action,
    code: String(status),
    message: text.slice(0, MESSAGE_CHARS_MAX),
    askedForMs: retryAfterMs(headers['retry-after'], Date.now()),
    isByPlatform,
  }
}

/** The outcome of a call without a usable answer. */
export function outcomeOfError(error: unknown): Outcome {
  const { code: given, message } = error as { code?: unknown; message?: unknown }
  const code = typeof given === 'string' ? given : 'UNREACHABLE'
  return {
    action: code === 'REDIRECTED' ? 'hold' : 'retry',
    code,
    message: String(message).slice(0, MESSAGE_CHARS_MAX),
    isByPlatform: false,
  }
}

/** Whether this is the body of an error of the platform itself. */
function isProblem(text: string): boolean {
  const body = jsonOf(text) as { statusCode?: unknown } | null | undefined
  return typeof body?.statusCode === 'number'
}
