// Moves the alert states of monitors by their runs or by time, then updates incidents and queues
// notifications. Everything runs in the caller's transaction, with the rows of the states locked.
import {
  alertRulesOf,
  stepAlert,
  type AlertEvent,
  type AlertRules,
  type TargetRun,
} from '../../contract/api/alert.ts'
import type { BadRun } from '../../contract/api/alert-payload.ts'
import type { AlertSettings, Monitor } from '../../contract/monitor.ts'
import type { Log } from '../../process/log.ts'
import { readAlertSettings } from './queries/channels.ts'
import {
  deleteAlertStates,
  readAlertedMonitors,
  saveAlertStates,
  type AlertedMonitor,
  type AlertStateChange,
  type AlertStateRow,
} from './queries/states.ts'
import type { Queryable } from '../../database/database.ts'
import {
  openAlertIncident,
  resolveAlertIncident,
  UNWATCHED_DESCRIPTION,
  type IncidentContext,
} from './triggered-incidents.ts'
import { queueAlerts, type AlertToSend } from './alert-queue.ts'
import type { NoticeOptions } from '../incidents/notices.ts'
import { decrypt } from '../checks/encrypted-monitor.ts'
import type { Cipher } from '../secrets/cipher.ts'

/** Dependencies of moving alerts, apart from the transaction. */
export interface MoveOptions extends NoticeOptions {
  cipher: Cipher
  log: Log
}

/** A run about the target, and how it is reported. */
export interface ReportedRun {
  run: TargetRun
  facts: BadRun
}

/** A locked state and its new runs; none: only time has passed. */
export interface Move {
  row: AlertStateRow
  runs: readonly ReportedRun[]
  /** Latest instant at which the state is checked again. */
  againAt?: number
}

const RECOVERED_DESCRIPTION = 'The monitor that opened this incident has recovered.'

/** Moves states. The moves name different monitors. */
export async function moveAlerts(
  tx: Queryable,
  moves: readonly Move[],
  options: MoveOptions,
): Promise<void> {
  if (moves.length === 0) return
  const ids = moves.map(({ row }) => row.monitorId)
  const monitors = new Map((await readAlertedMonitors(tx, ids)).map((one) => [one.id, one]))
  const settingsOf = accountSettings(tx)
  const changes: AlertStateChange[] = []
  const gone: { monitorId: string; endedSlot: number | null }[] = []
  const toSend: AlertToSend[] = []
  for (const move of moves) {
    const { row } = move
    const monitor = monitors.get(row.monitorId)
    const definition = monitor && opened(monitor, options)
    if (monitor === undefined) {
      await endUnwatched(tx, row, options)
      gone.push({ monitorId: row.monitorId, endedSlot: null })
    } else if (definition === undefined || !isWatched(monitor, move)) {
      changes.push({ ...row, dueAt: null })
    } else {
      const { locations, muted } = monitor
      const facts = { parallel: definition.runParallel, locations, muted }
      const rules = alertRulesOf(await settingsOf(row.accountId, definition), facts)
      const moved = await moveOne(tx, { move, monitor, definition, rules }, options)
      toSend.push(...moved.toSend)
      const { endedSlot } = moved.change.state
      if (moved.isWell) gone.push({ monitorId: row.monitorId, endedSlot })
      else changes.push(moved.change)
    }
  }
  if (changes.length > 0) await saveAlertStates(tx, changes)
  if (gone.length > 0) await deleteAlertStates(tx, gone)
  await queueAlerts(tx, toSend, options)
}

/** Ends the state of an unwatched monitor: closes its incident and sends no alert. */
async function endUnwatched(
  tx: Queryable,
  { accountId, incidentId }: AlertStateRow,
  options: MoveOptions,
): Promise<void> {
  if (incidentId === null) return
  const update = { description: UNWATCHED_DESCRIPTION, notifySubscribers: false }
  await resolveAlertIncident({ ...options, tx, accountId }, incidentId, update)
}

/**
 * Whether a location can still report the state of the monitor. Where some have had no agent for long,
 * another one must have reported; otherwise the alert neither ends nor sends reminders.
 */
function isWatched({ locations, unattended }: AlertedMonitor, { row, runs }: Move): boolean {
  if (unattended.length === 0) return true
  const reported = new Set(runs.map(({ run }) => run.location))
  return locations.some((id) => reported.has(id) || Object.hasOwn(row.state.locations, id))
}

interface OneMove {
  move: Move
  monitor: AlertedMonitor
  definition: Monitor
  rules: AlertRules
}

/** Steps through the runs of a move; `isWell`: the state need not be stored. */
async function moveOne(
  tx: Queryable,
  { move, monitor, definition, rules }: OneMove,
  options: MoveOptions,
): Promise<{ change: AlertStateChange; isWell: boolean; toSend: AlertToSend[] }> {
  const now = options.now()
  const context = { ...options, tx, accountId: monitor.accountId }
  const toSend: AlertToSend[] = []
  let { state, lastBad, incidentId } = move.row
  let isWell = false
  let dueAt: number | null = null
  for (const came of move.runs.length > 0 ? move.runs : [undefined]) {
    const step = stepAlert(state, now, rules, came?.run)
    if (came !== undefined && came.run.verdict !== 'passed') lastBad = came.facts
    for (const event of step.events) {
      const before = incidentId
      incidentId = await followIncident(context, { event, incidentId, monitor, definition })
      const run = (event.kind.endsWith('recovery') ? came?.facts : lastBad) ?? null
      const happenedAt = came === undefined ? now : Math.min(now, endOf(came.facts))
      const notice = { event, run, incidentId: incidentId ?? before, happenedAt }
      if (!event.quiet) toSend.push({ ...notice, monitor, definition })
    }
    ;({ state, dueAt, well: isWell } = step)
  }
  const due = Math.min(dueAt ?? Infinity, move.againAt ?? Infinity)
  const change = { ...move.row, state, lastBad, incidentId, dueAt: due === Infinity ? null : due }
  return { change, isWell, toSend }
}

function endOf({ startedAt, durationMs }: BadRun): number {
  return Date.parse(startedAt) + durationMs
}

/** Opens or resolves the incident of an alert; returns the id of its incident afterwards. */
async function followIncident(
  context: IncidentContext,
  one: Pick<OneMove, 'monitor' | 'definition'> & { event: AlertEvent; incidentId: string | null },
): Promise<string | null> {
  const { event, incidentId, monitor, definition } = one
  const trigger = definition.triggerIncident
  if (event.kind === 'failure' && incidentId === null && trigger !== null) {
    return openAlertIncident(context, monitor, trigger)
  }
  if (event.kind !== 'recovery') return incidentId
  if (incidentId !== null) {
    const notifySubscribers = trigger?.notifySubscribers ?? false
    const update = { description: RECOVERED_DESCRIPTION, notifySubscribers }
    await resolveAlertIncident(context, incidentId, update)
  }
  return null
}

function opened(monitor: AlertedMonitor, { cipher, log }: MoveOptions): Monitor | undefined {
  try {
    return decrypt(cipher, monitor.effective) as Monitor
  } catch (error) {
    const message = 'monitor definition cannot be decrypted; its alerts are not sent'
    log.error({ err: error, monitor: monitor.id }, message)
    return undefined
  }
}

/** The settings of a monitor: its own, or those of its account, which are read once. */
function accountSettings(tx: Queryable) {
  const known = new Map<string, AlertSettings | undefined>()
  return async (accountId: string, definition: Monitor) => {
    if (!definition.useGlobalAlertSettings) return definition.alertSettings
    if (!known.has(accountId)) known.set(accountId, await readAlertSettings(tx, accountId))
    return known.get(accountId)
  }
}
