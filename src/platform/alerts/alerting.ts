// Alerting: derives alerts from results, and incidents and webhooks from alerts, in the transaction that
// records the results, so that each alert is reported exactly once.
import type { WireResult } from '../../contract/protocol/agent-protocol.ts'
import { PROTOCOL_BOUNDS } from '../../contract/protocol/agent-protocol.ts'
import { freshAlertState, isAboutTarget } from '../../contract/api/alert.ts'
import {
  NOTIFIED_FAILURES_MAX,
  NOTIFIED_MESSAGE_CHARACTERS_MAX,
} from '../../contract/api/alert-payload.ts'
import type { Log } from '../../process/log.ts'
import { dropNotifications } from './queries/alert-notifications.ts'
import {
  beginAlertStates,
  lockAlertStates,
  lockDueAlertStates,
  lockEndedAlertStates,
  newerRuns,
  newestOtherSlots,
  readAlertEnds,
  type AlertStateRow,
  type RecordedRun,
} from './queries/states.ts'
import type { Database, Queryable } from '../../database/database.ts'
import {
  initialState,
  moveAlerts,
  type Move,
  type MoveOptions,
  type ReportedRun,
} from './transitions.ts'
import type { BackgroundJob } from '../jobs/background-jobs.ts'
import { locationNoticesJob } from './location-notices.ts'
import type { PlatformClock } from '../../database/platform-clock.ts'
import type { OnRecorded, Recorded, RecordedResult } from '../results/recorded.ts'
import type { Cipher } from '../secrets/cipher.ts'
import { sendWebhooks, type OutboxOptions } from './webhook-outbox.ts'

/** Options of alerting. */
export interface AlertingOptions {
  database: Database
  cipher: Cipher
  clock: Pick<PlatformClock, 'now'>
  log: Log
  /** Where clients reach the platform, for links. */
  publicUrl?: string | undefined
  /** Retries of webhooks, for tests. */
  outbox?: Pick<OutboxOptions, 'againMs' | 'restMs'>
}

/** Alerting as the platform wires it. */
export interface Alerting {
  onRecorded: OnRecorded
  backgroundJobs: BackgroundJob[]
  /** Sends the outbox until the signal fires and begun attempts have ended. Never rejects. */
  send(signal: AbortSignal): Promise<void>
}

/** A new state is evaluated again after this time: another process may have recorded at the same moment. */
const LOOK_AGAIN_MS = 10_000
const AT_ONCE_MAX = 200
const RETENTION_DAYS = 30
const DROPPED_AT_ONCE_MAX = 5_000

/** Makes the alerting of a platform process. */
export function createAlerting(options: AlertingOptions): Alerting {
  const { database, cipher, log, clock, publicUrl } = options
  const now = () => clock.now()
  const moveOptions: MoveOptions = { cipher, log, now, publicUrl }
  const outbox = { database, cipher, log, now, ...options.outbox }
  return {
    onRecorded: (tx, recorded) => onRecorded(tx, recorded, moveOptions),
    backgroundJobs: [
      alertsJob(database, moveOptions),
      locationNoticesJob(database, moveOptions),
      notificationsJob(database),
    ],
    send: (signal) => sendWebhooks(outbox, signal),
  }
}

async function onRecorded(tx: Queryable, recorded: Recorded, options: MoveOptions): Promise<void> {
  const { accountId, locationId } = recorded
  const { all, bad } = aboutTargets(recorded)
  if (all.size === 0) return
  // Most batches end here: all their monitors are well.
  const rows = await lockAlertStates(tx, [...all].toSorted())
  for (const { monitorId } of rows) bad.delete(monitorId)
  if (rows.length === 0 && bad.size === 0) return
  const runs = runsByMonitor(recorded, new Set([...bad, ...rows.map((row) => row.monitorId)]))
  const moves: Move[] = rows.map((row) => ({ row, runs: runs.get(row.monitorId) ?? [] }))
  if (bad.size > 0) {
    const monitorIds = [...bad].toSorted()
    const begun = await beginAlertStates(tx, {
      accountId,
      monitorIds,
      fresh: freshAlertState(),
    })
    const given = monitorIds.flatMap((monitorId) =>
      (runs.get(monitorId) ?? []).map(({ run }) => ({ monitorId, slot: run.slot })),
    )
    const newest = await newestOtherSlots(tx, locationId, given)
    const ends = await readAlertEnds(tx, [...begun.begun])
    for (const row of begun.rows) {
      const own = { row, runs: runs.get(row.monitorId) ?? [] }
      if (!begun.begun.has(row.monitorId)) moves.push(own)
      else {
        const newestSlot = newest.get(row.monitorId)
        const endedSlot = ends.get(row.monitorId) ?? null
        const state = initialState({ locationId, newestSlot, endedSlot })
        const againAt = options.now() + LOOK_AGAIN_MS
        moves.push({ ...own, row: { ...row, state }, againAt })
      }
    }
  }
  await moveAlerts(tx, moves, options)
}

/** Whether a result may move an alert. */
function counts({ result, late }: RecordedResult): boolean {
  return !late && result.onDemand === undefined && isAboutTarget(result.verdict)
}

/** The monitors with verdicts about the target, and those of them that did not always pass. */
function aboutTargets({ results }: Recorded): { all: Set<string>; bad: Set<string> } {
  const all = new Set<string>()
  const bad = new Set<string>()
  for (const one of results) {
    if (!counts(one)) continue
    all.add(one.result.monitorId)
    if (one.result.verdict !== 'passed') bad.add(one.result.monitorId)
  }
  return { all, bad }
}

/** The runs of the wanted monitors that may move alerts, in the order of their slots. */
function runsByMonitor(
  { locationId, results }: Recorded,
  wanted: ReadonlySet<string>,
): Map<string, ReportedRun[]> {
  const runs = new Map<string, ReportedRun[]>()
  for (const one of results) {
    const { result } = one
    if (!wanted.has(result.monitorId) || !counts(one)) continue
    const run = reportedRun(locationId, result)
    const all = runs.get(result.monitorId)
    if (all === undefined) runs.set(result.monitorId, [run])
    else all.push(run)
  }
  for (const all of runs.values()) all.sort((a, b) => a.run.slot - b.run.slot)
  return runs
}

function reportedRun(location: string, result: WireResult): ReportedRun {
  const { slot, startedAt, durationMs, responseTimeMs, failures } = result
  const verdict = result.verdict as ReportedRun['run']['verdict']
  return {
    run: { location, slot, verdict },
    facts: {
      location,
      slot: new Date(slot).toISOString(),
      verdict,
      startedAt: new Date(startedAt).toISOString(),
      durationMs,
      responseTimeMs: responseTimeMs ?? null,
      failures: (failures ?? []).slice(0, NOTIFIED_FAILURES_MAX).map(({ code, message }) => ({
        code,
        message: message.slice(0, NOTIFIED_MESSAGE_CHARACTERS_MAX).toWellFormed(),
      })),
    },
  }
}

function alertsJob(database: Database, options: MoveOptions): BackgroundJob {
  return {
    name: 'alerts',
    everyMs: 3_000,
    timeoutMs: 60_000,
    async run(signal) {
      const again = async (lock: (tx: Queryable) => Promise<AlertStateRow[]>) => {
        let moved = AT_ONCE_MAX
        while (moved === AT_ONCE_MAX && !signal.aborted) {
          moved = await database.transaction(async (tx) => {
            const rows = await lock(tx)
            await moveAlerts(tx, await withNewerRuns(tx, rows), options)
            return rows.length
          })
        }
      }
      await again((tx) => lockDueAlertStates(tx, options.now(), AT_ONCE_MAX))
      await again((tx) => lockEndedAlertStates(tx, AT_ONCE_MAX))
    },
  }
}

async function withNewerRuns(tx: Queryable, rows: readonly AlertStateRow[]): Promise<Move[]> {
  const last = rows.flatMap(({ monitorId, state }) =>
    Object.entries(state.locations).map(([locationId, { slot }]) => ({
      monitorId,
      locationId,
      slot,
    })),
  )
  const newer = await newerRuns(tx, last, PROTOCOL_BOUNDS.lateAfterMs)
  const byMonitor = Map.groupBy(newer, ({ monitorId }) => monitorId)
  return rows.map((row) => ({ row, runs: (byMonitor.get(row.monitorId) ?? []).map(recordedRun) }))
}

function recordedRun(row: RecordedRun): ReportedRun {
  const { locationId, slot, verdict, startedAt, durationMs, responseTimeMs, failureCode } = row
  const failures = failureCode === null ? [] : [{ code: failureCode, message: '' }]
  return {
    run: { location: locationId, slot, verdict },
    facts: {
      location: locationId,
      slot: new Date(slot).toISOString(),
      verdict,
      startedAt: new Date(startedAt).toISOString(),
      durationMs,
      responseTimeMs,
      failures,
    },
  }
}

function notificationsJob(database: Database): BackgroundJob {
  return {
    name: 'alert-notifications-kept',
    everyMs: 3_600_000,
    timeoutMs: 120_000,
    async run(signal) {
      let dropped = DROPPED_AT_ONCE_MAX
      while (dropped === DROPPED_AT_ONCE_MAX && !signal.aborted) {
        dropped = await dropNotifications(database, RETENTION_DAYS, DROPPED_AT_ONCE_MAX)
      }
    },
  }
}
