// What comes of a job: a verdict with what was observed. A verdict about the target (passed, degraded,
// failed) is never mixed up with one about us (errored, cancelled, missed).
import type { Failure } from './failure.ts'
import type { Instant, RunId } from './job.ts'

export const VERDICTS = ['passed', 'degraded', 'failed', 'errored', 'cancelled', 'missed'] as const
export type Verdict = (typeof VERDICTS)[number]
/** Those about the target, and those about us. */
export const TARGET_VERDICTS = ['passed', 'degraded', 'failed'] as const
export type TargetVerdict = (typeof TARGET_VERDICTS)[number]
export const OWN_VERDICTS = ['errored', 'cancelled', 'missed'] as const
export type OwnVerdict = (typeof OWN_VERDICTS)[number]

/**
 * Why a slot has no result. Every such slot is counted under exactly one of these. `overloaded`: its agent
 * was busy; `suspended`: its agent, or the machine, stood still (stopped, frozen, asleep); `clock-set`: the
 * clock that its agent follows was set forward over it. `no-agent`: none had
 * ever reported from its location; `agent-lost`: those that had were there no more, or were lost with it;
 * `not-delivered`: its agent was there all the time and nothing came; `spool-full`: its agent had the result
 * and lost it for want of room; `under-way`: it runs, as its agent says, and its result will take the place;
 * `restarted`: its agent, on a monitors file, was stopped or killed, and has started again.
 */
export const MISSED_REASONS = [
  'still-running',
  'overloaded',
  'suspended',
  'clock-set',
  'draining',
  'removed',
  'no-agent',
  'agent-lost',
  'not-delivered',
  'spool-full',
  'no-capable-agent',
  'under-way',
  'restarted',
] as const
/** Those of them that only a platform writes; a result with one of them is refused. */
const PLATFORM_REASONS: ReadonlySet<string> = new Set([
  'no-agent',
  'agent-lost',
  'not-delivered',
  'spool-full',
  'no-capable-agent',
  'under-way',
])

/** Those that an agent can know. */
export const AGENT_MISSED_REASONS = MISSED_REASONS.filter((one) => !PLATFORM_REASONS.has(one))
export type MissedReason = (typeof MISSED_REASONS)[number]

/** A file that belongs to a result. */
export interface Artifact {
  name: string
  bytes: number
  sha256: string
  contentType: string
}

/** One try of a job; a retry strategy may allow several. */
export interface Attempt {
  /** Milliseconds since the Unix epoch, by the agent's timetable clock. */
  startedAt: Instant
  durationMs: number
  verdict: Verdict
  failures: Failure[]
}

/** The outcome of one slot of one monitor, identified by (monitorId, location, slot). */
export interface Result {
  monitorId: string
  monitorName: string
  checkType: string
  location: string
  slot: Instant
  onDemand?: RunId
  verdict: Verdict
  /** Only with verdict `missed`. */
  missedReason?: MissedReason
  startedAt: Instant
  /** How far `startedAt` may be off the platform's clock, at most. Milliseconds; absent: nobody knows. */
  clockUncertaintyMs?: number
  /** From the start of the first attempt to the end of the last one. */
  durationMs: number
  /** Response time that thresholds and assertions saw in the last attempt; absent when there was no answer. */
  responseTimeMs?: number
  attempts: Attempt[]
  /** What the last attempt saw; its shape belongs to the type of monitor. */
  observed: Record<string, unknown>
  /** Failures of the last attempt. */
  failures: Failure[]
  artifacts: Artifact[]
}
