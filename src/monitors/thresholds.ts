// Evaluation of a response time against the two thresholds of a monitor.
import { failure, type Failure } from '../contract/failure.ts'

/** Thresholds in milliseconds. */
export interface Thresholds {
  degradedResponseTime: number
  maxResponseTime: number
}

/** The failure when the time is above the maximum, or undefined. */
export function tooSlow(responseTimeMs: number, thresholds: Thresholds): Failure | undefined {
  const maxMs = thresholds.maxResponseTime
  if (responseTimeMs <= maxMs) return undefined
  return failure(
    'RESPONSE_TIME_ABOVE_MAX',
    `the response took ${Math.round(responseTimeMs)} ms; at most ${maxMs} ms are allowed`,
    { responseTimeMs, maxMs },
  )
}

/** Whether the time is above what counts as healthy. */
export function isDegraded(responseTimeMs: number, thresholds: Thresholds): boolean {
  return responseTimeMs > thresholds.degradedResponseTime
}
