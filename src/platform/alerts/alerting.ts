// Alerting: derives alerts from results, and incidents and webhooks from alerts, in the transaction that
// records the results, so that each alert is reported exactly once.
import type { WireResult } from '../../contract/protocol/agent-protocol.ts'
import { PROTOCOL_BOUNDS } from '../../contract/protocol/agent-protocol.ts'
import { freshAlertState } from '../../contract/api/alert.ts'
import { isAboutTarget } from '../../contract/result.ts'
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
} from './queries/states.ts'
import type { Database, Queryable } from '../../database/database.ts'
import { moveAlerts, type Move, type MoveOptions, type ReportedRun } from './transitions.ts'
import { untilDone } from '../../database/until-done.ts'
import type { BackgroundJob } from '../jobs/background-jobs.ts'
import { locationNoticesJob } from './location-notices.ts'
import type { PlatformClock } from '../../database/platform-clock.ts'
import type { OnRecorded, Recorded, RecordedResult } from '../results/recorded.ts'
import type { Cipher } from '../secrets/cipher.ts'
import { sendWebhooks } from './webhook-outbox.ts'

export interface AlertingOptions {
  database: Database
  cipher: Cipher
  clock: Pick<PlatformClock, 'now'>
  log: Log
  /** Where clients reach the platform, for links. */
  publicUrl?: string | undefined
}

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
  const parts = { database, cipher, log, publicUrl, now: () => clock.now() }
  return {
    onRecorded: (tx, recorded) => onRecorded(tx, recorded, parts),
    backgroundJobs: [
      alertsJob(database, parts),
      locationNoticesJob(database, parts),
      notificationsJob(database),
    ],
    send: (signal) => sendWebhooks(parts, signal),
  }
}

type RunsOf = (monitorId: string) => ReportedRun[]

async function onRecorded(tx: Queryable, recorded: Recorded, options: MoveOptions): Promise<void> {
  const { locationId, results } = recorded
  const byMonitor = Map.groupBy(results.filter(counts), ({ result }) => result.monitorId)
  if (byMonitor.size === 0) return
  // Most batches end here: all their monitors are well.
  const rows = await lockAlertStates(tx, [...byMonitor.keys()].toSorted())
  const locked = new Set(rows.map(({ monitorId }) => monitorId))
  const begin = [...byMonitor]
    .filter(([id, some]) => !locked.has(id) && some.some((one) => one.result.verdict !== 'passed'))
    .map(([id]) => id)
  /** In the order of their slots. */
  const runsOf: RunsOf = (monitorId) =>
    (byMonitor.get(monitorId) ?? [])
      .map(({ result }) => reportedRun(locationId, result))
      .sort((a, b) => a.run.slot - b.run.slot)
  const moves: Move[] = rows.map((row) => ({ row, runs: runsOf(row.monitorId) }))
  if (begin.length > 0) {
    moves.push(...(await beginStates(tx, recorded, { begin, runsOf, now: options.now() })))
  }
  await moveAlerts(tx, moves, options)
}

/** Whether a result may move an alert. */
function counts({ result, late }: RecordedResult): boolean {
  return !late && result.onDemand === undefined && isAboutTarget(result.verdict)
}

/** Moves of monitors without a state, or whose state another process has just begun. */
async function beginStates(
  tx: Queryable,
  { accountId, locationId }: Recorded,
  { begin, runsOf, now }: { begin: string[]; runsOf: RunsOf; now: number },
): Promise<Move[]> {
  const { rows, begun } = await beginAlertStates(tx, accountId, begin.toSorted())
  const given = begin.flatMap((monitorId) =>
    runsOf(monitorId).map(({ run }) => ({ monitorId, slot: run.slot })),
  )
  const newest = await newestOtherSlots(tx, locationId, given)
  const ends = await readAlertEnds(tx, [...begun])
  return rows.map((row) => {
    const { monitorId } = row
    const runs = runsOf(monitorId)
    if (!begun.has(monitorId)) return { row, runs }
    const state = { ...freshAlertState(), endedSlot: ends.get(monitorId) ?? null }
    const slot = newest.get(monitorId)
    if (slot !== undefined) {
      state.locations[locationId] = { slot, verdict: 'passed', runs: 0, since: null }
    }
    return { row: { ...row, state }, runs, againAt: now + LOOK_AGAIN_MS }
  })
}

type RunFields = Pick<WireResult, 'slot' | 'verdict' | 'startedAt' | 'durationMs' | 'failures'> & {
  responseTimeMs?: number | null | undefined
}

function reportedRun(location: string, result: RunFields): ReportedRun {
  const { slot, startedAt, durationMs, responseTimeMs = null, failures = [] } = result
  const verdict = result.verdict as ReportedRun['run']['verdict']
  return {
    run: { location, slot, verdict },
    facts: {
      location,
      slot: new Date(slot).toISOString(),
      verdict,
      startedAt: new Date(startedAt).toISOString(),
      durationMs,
      responseTimeMs,
      failures: failures.slice(0, NOTIFIED_FAILURES_MAX).map(({ code, message }) => ({
        code,
        message: message.slice(0, NOTIFIED_MESSAGE_CHARACTERS_MAX).toWellFormed(),
      })),
    },
  }
}

function alertsJob(database: Database, options: MoveOptions): BackgroundJob {
  const moveLocked = (lock: (tx: Queryable) => Promise<AlertStateRow[]>) => () =>
    database.transaction(async (tx) => {
      const rows = await lock(tx)
      if (rows.length > 0) await moveAlerts(tx, await withNewerRuns(tx, rows), options)
      return rows.length
    })
  const moveDue = moveLocked((tx) => lockDueAlertStates(tx, options.now(), AT_ONCE_MAX))
  const moveEnded = moveLocked((tx) => lockEndedAlertStates(tx, AT_ONCE_MAX))
  return {
    name: 'alerts',
    everyMs: 3_000,
    timeoutMs: 60_000,
    async run(signal) {
      await untilDone(AT_ONCE_MAX, signal, moveDue)
      await untilDone(AT_ONCE_MAX, signal, moveEnded)
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
  return rows.map((row) => ({
    row,
    runs: (byMonitor.get(row.monitorId) ?? []).map(({ locationId, failureCode, ...run }) => {
      const failures = failureCode === null ? [] : [{ code: failureCode, message: '' }]
      return reportedRun(locationId, { ...run, failures })
    }),
  }))
}

function notificationsJob(database: Database): BackgroundJob {
  return {
    name: 'alert-notifications-kept',
    everyMs: 3_600_000,
    timeoutMs: 120_000,
    run: (signal) =>
      untilDone(DROPPED_AT_ONCE_MAX, signal, () =>
        dropNotifications(database, RETENTION_DAYS, DROPPED_AT_ONCE_MAX),
      ),
  }
}
