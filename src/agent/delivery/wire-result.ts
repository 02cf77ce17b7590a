// A result as it goes to the platform: short for what passed, whole for the rest, within the size that the
// platform accepts.
import { PROTOCOL_BOUNDS, type WireResult } from '../../contract/protocol/agent-protocol.ts'
import type { Failure } from '../../contract/failure.ts'
import type { Result } from '../../contract/result.ts'
import { LeastRecentlyUsed } from '../../network/least-recently-used.ts'

const FAILURES_MAX = 100
const ATTEMPTS_MAX = 100
const MESSAGE_CHARS_MAX = 20_000
/** Of a failure of a result that is too large with more. */
const SHORT_MESSAGE_CHARS_MAX = 1000
const SHORT_FAILURES_MAX = 10
const DURATION_MS_MAX = 86_400_000

/**
 * The result as a line of JSON. `isFull`: with what was observed and each attempt. A result beyond the
 * platform's limit loses what was observed, then details of failures, and says so in `observed.leftOut`.
 */
export function wireText(result: Result, isFull: boolean): string {
  if (!isFull) {
    const text = JSON.stringify(wireOf(result))
    if (fits(text)) return text
  }
  const { observed, attempts } = result
  const whole = JSON.stringify(wireOf(result, { observed, attempts: attempts.map(wireAttempt) }))
  if (fits(whole)) return whole
  const leftOut = `what was observed: the result has ${Buffer.byteLength(whole)} bytes`
  const unseen = JSON.stringify(
    wireOf(result, { observed: { leftOut }, attempts: attempts.map(wireAttempt) }),
  )
  if (fits(unseen)) return unseen
  const short = { ...result, failures: result.failures.slice(0, SHORT_FAILURES_MAX).map(shortened) }
  const more = `${leftOut}; and details of failures`
  return JSON.stringify(wireOf(short, { observed: { leftOut: more }, attempts: [] }))
}

function fits(text: string): boolean {
  // No character takes more than three bytes for each of its units.
  if (text.length * 3 <= PROTOCOL_BOUNDS.resultBytesMax) return true
  return Buffer.byteLength(text) <= PROTOCOL_BOUNDS.resultBytesMax
}

function wireOf(result: Result, detail?: WireResult['detail']): WireResult {
  const { onDemand, missedReason, clockUncertaintyMs, responseTimeMs, failures, artifacts } = result
  return {
    monitorId: result.monitorId,
    slot: result.slot,
    ...(onDemand === undefined ? {} : { onDemand }),
    verdict: result.verdict,
    ...(missedReason === undefined ? {} : { missedReason }),
    startedAt: result.startedAt,
    ...(clockUncertaintyMs === undefined ? {} : { clockUncertaintyMs: within(clockUncertaintyMs) }),
    durationMs: within(result.durationMs),
    ...(responseTimeMs === undefined ? {} : { responseTimeMs: within(responseTimeMs) }),
    attempts: Math.min(ATTEMPTS_MAX, result.attempts.length),
    ...(failures.length === 0
      ? {}
      : { failures: failures.slice(0, FAILURES_MAX).map(wireFailure) }),
    ...(detail === undefined || isEmpty(detail) ? {} : { detail }),
    ...(artifacts.length === 0
      ? {}
      : { artifacts: artifacts.slice(0, PROTOCOL_BOUNDS.artifactsPerResultMax) }),
  }
}

function isEmpty({ observed, attempts }: NonNullable<WireResult['detail']>): boolean {
  return attempts.length === 0 && Object.keys(observed).length === 0
}

function within(ms: number): number {
  return Math.min(DURATION_MS_MAX, Math.max(0, ms))
}

function wireAttempt({ startedAt, durationMs, verdict, failures }: Result['attempts'][number]) {
  return { startedAt, durationMs, verdict, failures: failures.slice(0, FAILURES_MAX) }
}

function wireFailure({ code, message, details }: Failure) {
  const cut = message.slice(0, MESSAGE_CHARS_MAX)
  return details === undefined ? { code, message: cut } : { code, message: cut, details }
}

function shortened({ code, message }: Failure): Failure {
  return { code, message: message.slice(0, SHORT_MESSAGE_CHARS_MAX) }
}

/**
 * Decides which passed results go whole: those on demand, those with a missing file, and one of each monitor in
 * a while; everything that did not pass does anyway.
 */
export function createFullness(everyMs: () => number): (result: Result) => boolean {
  const last = new LeastRecentlyUsed<string, number>(MONITORS_MAX)
  return ({ monitorId, verdict, slot, onDemand, observed }) => {
    if (verdict !== 'passed' || onDemand !== undefined) return true
    if (observed['artifactsLeftOut'] !== undefined) return true
    const before = last.get(monitorId)
    if (before !== undefined && slot - before < everyMs() && slot >= before) return false
    last.set(monitorId, slot)
    return true
  }
}

const MONITORS_MAX = 100_000
