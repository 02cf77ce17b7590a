// State of a heartbeat: which result a ping, or its absence, gives, and when the next ping is late. Pure; instants and
// times in milliseconds.

/** States of an event, as the public contract names them. */
export const HEARTBEAT_EVENT_STATES = ['RECEIVED', 'EARLY', 'GRACE', 'LATE', 'FAILING'] as const
export type HeartbeatEventState = (typeof HEARTBEAT_EVENT_STATES)[number]

/** What a ping reports: the start of a run, or its end with the exit code of the job; null: it failed. */
export type PingOutcome = 'start' | { exitCode: number | null }

export interface HeartbeatState {
  periodMs: number
  graceMs: number
  /** The last ping that reported the end of a run; null before the first. */
  lastPingMs: number | null
  /** Start of the run under way; null where none was reported. */
  startedMs: number | null
  /** Slot of the newest result; slots of one heartbeat differ. */
  lastSlotMs: number
  /** When the next ping is late; null while the check is not active. */
  deadlineMs: number | null
  /** The deadline has passed since the last ping. */
  isLate: boolean
}

/** One result of a heartbeat. */
export interface HeartbeatEvent {
  slotMs: number
  state: HeartbeatEventState
  /** From the reported start of the run to its end; 0 without a start. */
  durationMs: number
  failure?: { code: 'HEARTBEAT_MISSED' | 'HEARTBEAT_FAILED'; message: string }
}

/** A new state, and the events that led to it, oldest first. */
export interface HeartbeatStep {
  state: HeartbeatState
  events: HeartbeatEvent[]
}

/** A ping before this share of the period is early; clocks and run times of jobs vary by less. */
const EARLY_SHARE = 0.9

/** The step of a ping. A heartbeat that is not active ignores it. */
export function receivePing(
  before: HeartbeatState,
  outcome: PingOutcome,
  atMs: number,
): HeartbeatStep {
  if (before.deadlineMs === null) return { state: before, events: [] }
  const { state, events } = expireDeadline(before, atMs)
  if (outcome === 'start') return { state: { ...state, startedMs: atMs }, events }
  const { exitCode } = outcome
  const isFailure = exitCode !== 0
  const code = exitCode === null ? '' : ` (exit code ${exitCode})`
  const slotMs = Math.max(atMs, state.lastSlotMs + 1)
  events.push({
    slotMs,
    state: isFailure ? 'FAILING' : timeliness(state, atMs),
    durationMs: state.startedMs === null ? 0 : Math.max(0, atMs - state.startedMs),
    ...(isFailure && {
      failure: { code: 'HEARTBEAT_FAILED', message: `the job reported a failure${code}` },
    }),
  })
  const next = { ...state, lastPingMs: atMs, startedMs: null, lastSlotMs: slotMs, isLate: false }
  return { state: { ...next, deadlineMs: atMs + state.periodMs + state.graceMs }, events }
}

function timeliness(state: HeartbeatState, atMs: number): HeartbeatEventState {
  const { lastPingMs, periodMs, isLate } = state
  if (isLate) return 'LATE'
  if (lastPingMs === null) return 'RECEIVED'
  const elapsedMs = atMs - lastPingMs
  if (elapsedMs < EARLY_SHARE * periodMs) return 'EARLY'
  return elapsedMs <= periodMs ? 'RECEIVED' : 'GRACE'
}

/**
 * The step of time. A deadline that has passed gives one event; the next deadline follows a whole number of periods
 * later and lies ahead, so that a platform that was away adds one event, not one for each period.
 */
export function expireDeadline(state: HeartbeatState, nowMs: number): HeartbeatStep {
  const { deadlineMs, periodMs, graceMs } = state
  if (deadlineMs === null || deadlineMs > nowMs) return { state, events: [] }
  const slotMs = Math.max(deadlineMs, state.lastSlotMs + 1)
  const message = `no ping within ${periodMs / 1000} s and a grace of ${graceMs / 1000} s`
  const failure = { code: 'HEARTBEAT_MISSED', message } as const
  const periods = Math.floor((nowMs - deadlineMs) / periodMs) + 1
  return {
    state: {
      ...state,
      lastSlotMs: slotMs,
      isLate: true,
      deadlineMs: deadlineMs + periods * periodMs,
    },
    events: [{ slotMs, state: 'FAILING', durationMs: 0, failure }],
  }
}

/** The state after a change of the definition: the deadline follows the last ping, and lies ahead. */
export function reschedule(
  before: HeartbeatState | undefined,
  to: { periodMs: number; graceMs: number; isActive: boolean },
  nowMs: number,
): HeartbeatState {
  const { periodMs, graceMs, isActive } = to
  const fresh = {
    lastPingMs: null,
    startedMs: null,
    lastSlotMs: 0,
    deadlineMs: null,
    isLate: false,
  }
  const state = { ...(before ?? fresh), periodMs, graceMs }
  if (!isActive) return { ...state, deadlineMs: null, isLate: false, startedMs: null }
  const isSame = before?.periodMs === periodMs && before.graceMs === graceMs
  if (isSame && before.deadlineMs !== null) return state
  const waitMs = periodMs + graceMs
  const deadlineMs = (before?.deadlineMs == null ? nowMs : (before.lastPingMs ?? nowMs)) + waitMs
  return { ...state, deadlineMs: deadlineMs > nowMs ? deadlineMs : nowMs + waitMs }
}
