// Alert state machine: decides when a monitor's results open and end an alert, one pure step at a time.
// Verdicts about the agent or the platform are not passed in, so they neither open nor end an alert.
import type { Instant } from '../job.ts'
import type { AlertSettings } from '../monitor.ts'
import type { TargetVerdict } from '../result.ts'

/** A run whose verdict is about the target. */
export interface TargetRun {
  location: string
  slot: Instant
  verdict: TargetVerdict
}

/** State of one location. */
export interface LocationState {
  /** Newest evaluated slot; older ones change nothing. */
  slot: Instant
  verdict: TargetVerdict
  /** Failed runs in a row, the newest one counted. */
  runs: number
  /** The slot of the first of them; null when the last run did not fail. */
  since: Instant | null
}

/** An alert that is open. */
export interface OpenAlert {
  /** The first failed slot. */
  since: Instant
  openedAt: Instant
  /** False while no notification was sent because the monitor is muted. */
  told: boolean
  reminders: number
  remindAt: Instant | null
}

/** State of a monitor between steps; stored as JSON. */
export interface AlertState {
  locations: Record<string, LocationState>
  alert: OpenAlert | null
  /** A degraded notification was sent, its recovery not yet. */
  degraded: boolean
  /** The slot that ended the last alert; bad runs up to it open nothing, from any location. */
  endedSlot: Instant | null
}

/** Kinds of alert notification. */
export type AlertKind = 'failure' | 'reminder' | 'recovery' | 'degraded' | 'degraded-recovery'

/** One notification to send. */
export interface AlertEvent {
  kind: AlertKind
  /** First slot of the reported period. */
  since: Instant
  /** Locations with this verdict; none with a recovery. */
  locations: string[]
  /** Only incidents follow: the monitor is muted now and was not when it failed. */
  quiet: boolean
  /** With a reminder: which one, from 1. */
  reminder?: number
}

/** When a monitor alerts. Instants and times in milliseconds. */
export interface AlertRules {
  /** Failed runs in a row, or time since the first of them. */
  escalation: { runs: number } | { failingMs: number }
  reminders: { amountMax: number; everyMs: number }
  /** Whether all locations run every slot; else they take turns. */
  parallel: boolean
  /** Share of the locations that have to fail, 0 to 1; 0: any one. */
  failingShare: number
  /** Locations of the monitor now; results of other locations no longer count. */
  locations: readonly string[]
  muted: boolean
}

/** Result of a step. */
export interface AlertStep {
  state: AlertState
  /** Nothing is failing, degraded or open: the state need not be stored. */
  well: boolean
  /** When time alone may change something; null: only a run can. */
  dueAt: Instant | null
  events: AlertEvent[]
}

/** A number of reminders that stands for no end, as the public contract spells it. */
const WITHOUT_END = 100_000

/** The rules of a monitor; without settings the public contract's defaults hold. */
export function alertRulesOf(
  settings: AlertSettings | null | undefined,
  monitor: Pick<AlertRules, 'parallel' | 'locations' | 'muted'>,
): AlertRules {
  const { escalationType, runBasedEscalation, timeBasedEscalation } = settings ?? {}
  const { amount = 0, interval = 5 } = settings?.reminders ?? {}
  const share = settings?.parallelRunFailureThreshold
  const minutes = timeBasedEscalation?.minutesFailingThreshold ?? 5
  return {
    ...monitor,
    escalation:
      escalationType === 'TIME_BASED'
        ? { failingMs: minutes * 60_000 }
        : { runs: runBasedEscalation?.failedRunThreshold ?? 1 },
    reminders: {
      amountMax: amount >= WITHOUT_END ? Infinity : amount,
      everyMs: interval * 60_000,
    },
    failingShare: share?.enabled === true && monitor.parallel ? share.percentage / 100 : 0,
  }
}

/** The state of a monitor of which nothing is known yet. */
export function freshAlertState(): AlertState {
  return { locations: {}, alert: null, degraded: false, endedSlot: null }
}

/**
 * One step: a run, or only the time that has passed. A slot that is not newer than the last one of its
 * location changes nothing, so that a run may be given any number of times.
 */
export function stepAlert(
  before: AlertState,
  at: Instant,
  rules: AlertRules,
  run?: TargetRun,
): AlertStep {
  const locations = locationStates(before, rules, run)
  const failing = failingOf(locations, rules)
  const events: AlertEvent[] = []
  const alert = moveAlert({ before: before.alert, failing, at, rules, events })
  const some = Object.entries(locations)
  const slow = some.filter(([, { verdict }]) => verdict === 'degraded')
  let { degraded } = before
  if (alert !== null) degraded = false
  else if (!degraded && slow.length > 0 && !rules.muted) {
    degraded = true
    const since = Math.min(...slow.map(([, { slot }]) => slot))
    events.push({ kind: 'degraded', since, locations: slow.map(([id]) => id), quiet: false })
  } else if (degraded && slow.length === 0 && !failing.some) {
    degraded = false
    events.push({ kind: 'degraded-recovery', since: at, locations: [], quiet: rules.muted })
  }
  const well = alert === null && !degraded && some.every(([, one]) => one.verdict === 'passed')
  const dueAt = alert === null ? failing.escalatesAt : alert.remindAt
  // At least the first slot of the alert, so that no two alerts have the same one.
  const endedSlot =
    before.alert !== null && alert === null
      ? Math.max(run?.slot ?? at, before.alert.since)
      : before.endedSlot
  return { state: { locations, alert, degraded, endedSlot }, well, dueAt, events }
}

/** States of the locations after `run`. */
function locationStates(
  before: Pick<AlertState, 'locations' | 'endedSlot'>,
  rules: AlertRules,
  run: TargetRun | undefined,
): AlertState['locations'] {
  const here = new Set(rules.locations)
  const locations = Object.fromEntries(
    Object.entries(before.locations).filter(([id]) => here.has(id)),
  )
  if (run === undefined || !here.has(run.location)) return locations
  const last = locations[run.location]
  if (last !== undefined && run.slot <= last.slot) return locations
  const { slot, verdict } = run
  if (verdict !== 'passed' && slot <= (before.endedSlot ?? -Infinity)) return locations
  locations[run.location] =
    verdict === 'failed'
      ? { slot, verdict, runs: (last?.runs ?? 0) + 1, since: last?.since ?? slot }
      : { slot, verdict, runs: 0, since: null }
  return locations
}

/** Summary of the failing locations. */
interface Failing {
  ids: string[]
  /** At least one fails, enough or not. */
  some: boolean
  /** As many fail as it takes. */
  enough: boolean
  since: Instant
  /** Failed runs that count: the sum of all if locations take turns, else those of each required location. */
  runs: number
  /** With escalation by time: when it is reached; null while too few fail. */
  escalatesAt: Instant | null
}

function failingOf(locations: AlertState['locations'], rules: AlertRules): Failing {
  const failed = Object.entries(locations).flatMap(([id, { since, runs }]) =>
    since === null ? [] : [{ id, since, runs }],
  )
  const needed = Math.max(1, Math.ceil(rules.failingShare * rules.locations.length))
  const enough = failed.length >= needed
  const since = failed.map((one) => one.since).toSorted((a, b) => a - b)[needed - 1] ?? 0
  const runs = rules.parallel
    ? (failed.map((one) => one.runs).toSorted((a, b) => b - a)[needed - 1] ?? 0)
    : failed.reduce((sum, one) => sum + one.runs, 0)
  const { escalation } = rules
  const escalatesAt = enough && 'failingMs' in escalation ? since + escalation.failingMs : null
  const ids = failed.map(({ id }) => id)
  return { ids, some: failed.length > 0, enough, since, runs, escalatesAt }
}

interface Move {
  before: OpenAlert | null
  failing: Failing
  at: Instant
  rules: AlertRules
  /** Receives the notifications. */
  events: AlertEvent[]
}

function moveAlert({ before, failing, at, rules, events }: Move): OpenAlert | null {
  const { muted } = rules
  const notify = (kind: AlertKind, since: Instant, more: Partial<AlertEvent> = {}) => {
    events.push({ kind, since, locations: failing.ids, quiet: false, ...more })
  }
  if (before === null) {
    if (!isReached(failing, rules, at)) return null
    const { since } = failing
    if (!muted) notify('failure', since)
    const remindAt = nextReminder(rules, 0, at)
    return { since, openedAt: at, told: !muted, reminders: 0, remindAt: muted ? null : remindAt }
  }
  if (!failing.enough) {
    if (before.told) notify('recovery', before.since, { locations: [], quiet: muted })
    return null
  }
  if (muted) return { ...before, remindAt: null }
  if (!before.told) {
    notify('failure', before.since)
    return { ...before, told: true, remindAt: nextReminder(rules, 0, at) }
  }
  if (before.remindAt === null || before.reminders >= rules.reminders.amountMax) {
    // The reminder settings may have changed since the alert opened.
    return { ...before, remindAt: nextReminder(rules, before.reminders, at) }
  }
  if (before.remindAt > at) return before
  const reminders = before.reminders + 1
  notify('reminder', before.since, { reminder: reminders })
  return { ...before, reminders, remindAt: nextReminder(rules, reminders, at) }
}

function isReached(failing: Failing, { escalation }: AlertRules, at: Instant): boolean {
  if (!failing.enough) return false
  if ('runs' in escalation) return failing.runs >= escalation.runs
  return failing.escalatesAt !== null && at >= failing.escalatesAt
}

/** After a pause of the platform one reminder is due, not all that were missed. */
function nextReminder({ reminders }: AlertRules, sent: number, at: Instant): Instant | null {
  return sent < reminders.amountMax ? at + reminders.everyMs : null
}
