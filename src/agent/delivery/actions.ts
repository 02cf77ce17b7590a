// The action for each answer to a delivery: one table for results and artifacts.
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
export const STATUS_ACTIONS: readonly StatusRow[] = [
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

export const RETRY_MS_MIN = 1000
export const RETRY_MS_MAX = 30_000
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
