// Result of a job: a verdict with the observation. A verdict about the target (passed, degraded,
// failed) is never mixed up with one about the agent or platform (errored, cancelled, missed).
import type { Failure } from './failure.ts'
import type { Instant, RunId } from './job.ts'

/** Verdicts about the target, and about the agent or platform. */
export const TARGET_VERDICTS = ['passed', 'degraded', 'failed'] as const
export type TargetVerdict = (typeof TARGET_VERDICTS)[number]
export const OWN_VERDICTS = ['errored', 'cancelled', 'missed'] as const
export const VERDICTS = [...TARGET_VERDICTS, ...OWN_VERDICTS] as const
export type Verdict = (typeof VERDICTS)[number]

/** Whether a verdict is about the target; others change no alert. */
export function isAboutTarget(verdict: Verdict): verdict is TargetVerdict {
  return TARGET_VERDICTS.includes(verdict as TargetVerdict)
}

const BY_AGENT = [
  'still-running',
  'overloaded',
  'suspended',
  'clock-set',
  'draining',
  'removed',
  'restarted',
] as const
const BY_PLATFORM = [
  'no-agent',
  'agent-lost',
  'not-delivered',
  'spool-full',
  'no-capable-agent',
  'under-way',
] as const

/**
 * Why a slot has no result. Every such slot counts under exactly one reason. `overloaded`: its agent was busy;
 * `suspended`: its agent or the machine was stopped, frozen or asleep; `clock-set`: the clock of its agent
 * was set forward over the slot. `no-agent`: no agent had ever reported from its location; `agent-lost`: its
 * agents were gone, or were lost with the result; `not-delivered`: its agent was live and delivered no result;
 * `spool-full`: its agent dropped the result because its spool was full; `under-way`: its agent reports it as
 * running, and its result will replace the reason; `restarted`: its agent, with a monitors file, was stopped
 * and has started again.
 */
export const MISSED_REASONS = [...BY_AGENT, ...BY_PLATFORM] as const
export type MissedReason = (typeof MISSED_REASONS)[number]
/** Reasons that an agent can report; a result with another one is refused. */
export const AGENT_MISSED_REASONS: readonly MissedReason[] = BY_AGENT

/** A file that belongs to a result. */
export interface Artifact {
  name: string
  bytes: number
  sha256: string
  contentType: string
}

/** One attempt of a job; a retry strategy may allow several. */
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
  /** How far `startedAt` may be off the platform's clock, at most. Milliseconds; left out if unknown. */
  clockUncertaintyMs?: number
  /** From the start of the first attempt to the end of the last one. */
  durationMs: number
  /** Response time of the last attempt, for thresholds and assertions; undefined without an answer. */
  responseTimeMs?: number
  attempts: Attempt[]
  /** Observation of the last attempt; its shape depends on the monitor type. */
  observed: Record<string, unknown>
  /** Failures of the last attempt. */
  failures: Failure[]
  artifacts: Artifact[]
}
