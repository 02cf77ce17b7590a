// What agents report: each result is checked alone, one that is no good spoils no other, and all that
// follows from a batch happens with it or not at all.
import {
  type DroppedSpan,
  PROTOCOL_BOUNDS,
  type RefusalCode,
  type ResultsAnswer,
  type WireResult,
} from '../../contract/protocol/agent-protocol.ts'
import { checkResult } from '../../contract/protocol/wire-result.ts'
import type { Database, Queryable } from '../../database/database.ts'
import {
  fillDropped,
  type AwaitedRun,
  insertResults,
  lockRunsOf,
  markRollupsDue,
  type MonitorSlot,
  whyUnrecorded,
} from './queries/results.ts'
import type { OnRecorded } from './recorded.ts'

/** A batch of an agent, its envelope checked. */
export interface ResultsBatch {
  /** Of the agent's location. */
  key: { locationId: string; accountId: string }
  agentId: string
  results: readonly unknown[]
  nowMs: number
  /** Slots longer ago than this are refused: their rows would be dropped at once. */
  retentionMs: number
  /** Called one after the other inside the transaction that records. */
  onRecorded: readonly OnRecorded[]
}

type Refused = ResultsAnswer['refused'][number]

interface Candidate {
  index: number
  result: WireResult
  detail: string | null
}

/** A batch whose results have been looked at one by one. */
interface SortedBatch {
  scheduled: Candidate[]
  onDemand: Candidate[]
  refused: Refused[]
  /** The same slot or run twice in one batch. */
  doubles: number
}

/**
 * Records a batch in one transaction; the same batch may come again and again, or twice at once.
 * Rejects when the database does, and then nothing has happened.
 */
export async function recordResults(
  database: Database,
  batch: ResultsBatch,
): Promise<ResultsAnswer> {
  const sorted = sortBatch(batch)
  const { scheduled, onDemand, refused, doubles } = sorted
  if (scheduled.length + onDemand.length === 0) return { recorded: 0, known: doubles, refused }
  return database.transaction(async (tx) => {
    const rows = await recordScheduled(tx, batch, scheduled)
    const runs = await recordOnDemand(tx, batch, onDemand)
    const recorded = [...rows.recorded, ...runs.recorded]
    if (recorded.length > 0) await notify(tx, batch, recorded)
    return {
      recorded: recorded.length,
      known: doubles + rows.known + runs.known,
      refused: [...refused, ...rows.refused, ...runs.refused].sort((a, b) => a.index - b.index),
    }
  })
}

/** Of a slot that occurs twice the first stays, unless it is a missed one and the other is not. */
function sortBatch(batch: ResultsBatch): SortedBatch {
  const slots = new Map<string, Candidate>()
  const runs = new Map<string, Candidate>()
  const refused: Refused[] = []
  let doubles = 0
  for (const [index, value] of batch.results.entries()) {
    const checked = checkResult(value)
    const problem = 'code' in checked ? checked : slotProblem(checked.result, batch)
    if (problem !== undefined) {
      refused.push({ index, code: problem.code, message: problem.message })
      continue
    }
    const { result, detail } = checked as Candidate
    const into = result.onDemand === undefined ? slots : runs
    const key = result.onDemand ?? `${result.monitorId}${result.slot}`
    const before = into.get(key)
    if (before !== undefined) doubles++
    if (before === undefined || (isMissed(before) && result.verdict !== 'missed')) {
      into.set(key, { index, result, detail })
    }
  }
  return { scheduled: [...slots.values()], onDemand: [...runs.values()], refused, doubles }
}

function isMissed({ result }: Candidate): boolean {
  return result.verdict === 'missed'
}

function slotProblem(
  { slot, onDemand, startedAt }: WireResult,
  { nowMs, retentionMs }: ResultsBatch,
): { code: RefusalCode; message: string } | undefined {
  if (onDemand !== undefined) return undefined
  if (slot > nowMs + PROTOCOL_BOUNDS.aheadMsMax) {
    const message = `the slot is ${Math.round(slot - nowMs)} ms in the future`
    return { code: 'SLOT_AHEAD', message }
  }
  const { aheadMsMax, startedEarlyMsMax } = PROTOCOL_BOUNDS
  if (startedAt > nowMs + aheadMsMax || startedAt < slot - startedEarlyMsMax) {
    return { code: 'MALFORMED', message: 'startedAt: does not match the slot and the current time' }
  }
  if (slot < nowMs - retentionMs) {
    return { code: 'TOO_OLD', message: 'results of that time are no longer retained' }
  }
  return undefined
}

/** Outcome of some results of a batch. */
interface Outcome {
  recorded: Candidate[]
  known: number
  refused: Refused[]
}

async function recordScheduled(
  tx: Queryable,
  { key, agentId, nowMs }: ResultsBatch,
  candidates: Candidate[],
): Promise<Outcome> {
  if (candidates.length === 0) return { recorded: [], known: 0, refused: [] }
  const unrecorded = new Set(await insertResults(tx, { ...key, agentId }, candidates))
  const recorded = candidates.filter((_, at) => !unrecorded.has(at))
  await markRollupsDue(tx, key.locationId, recorded.map(slotOf), nowMs)
  const left = candidates.filter((_, at) => unrecorded.has(at))
  return { recorded, ...(await explain(tx, key.locationId, left)) }
}

/** Results that an agent dropped because its spool was full. */
export interface DroppedBatch extends Omit<ResultsBatch, 'results' | 'onRecorded'> {
  dropped: readonly DroppedSpan[]
}

/**
 * Fills the slots of the spans, in one transaction apart from that of any results: each takes its rows in one
 * order, so that they never wait for each other in a circle. The same spans may come again.
 */
export async function recordDropped(
  database: Database,
  { key, agentId, dropped, nowMs, retentionMs }: DroppedBatch,
): Promise<void> {
  if (dropped.length === 0) return
  const bounds = { fromMs: Math.ceil(nowMs - retentionMs), toMs: Math.floor(nowMs) }
  await database.transaction(async (tx) => {
    const slots = await fillDropped(tx, { ...key, agentId }, dropped, bounds)
    await markRollupsDue(tx, key.locationId, slots, nowMs)
  })
}

const UNRECORDED = {
  'monitor-unknown': ['MONITOR_UNKNOWN', 'the monitor was never assigned to this location'],
  'slot-unknown': ['SLOT_UNKNOWN', 'the monitor is not due at that instant'],
} as const

async function explain(
  tx: Queryable,
  locationId: string,
  left: Candidate[],
): Promise<Omit<Outcome, 'recorded'>> {
  const refused: Refused[] = []
  let known = 0
  if (left.length === 0) return { known, refused }
  for (const { at, reason } of await whyUnrecorded(tx, locationId, left.map(slotOf))) {
    if (reason === 'known') {
      known++
      continue
    }
    const [code, message] = UNRECORDED[reason]
    refused.push({ index: left[at]?.index ?? 0, code, message })
  }
  return { known, refused }
}

function slotOf({ result }: Candidate): MonitorSlot {
  return { monitorId: result.monitorId, slotMs: result.slot }
}

/** Results of runs on demand are stored with these runs, not as slots. */
async function recordOnDemand(
  tx: Queryable,
  { key, agentId }: ResultsBatch,
  candidates: Candidate[],
): Promise<Outcome> {
  const outcome: Outcome = { recorded: [], known: 0, refused: [] }
  if (candidates.length === 0) return outcome
  const ids = candidates.map(({ result }) => result.onDemand ?? '')
  const runs = await lockRunsOf(tx, key.locationId, ids)
  for (const candidate of candidates) {
    const run = runs.get(candidate.result.onDemand ?? '')
    if (run?.monitorId !== candidate.result.monitorId) {
      const message = 'unknown run on demand for this location'
      outcome.refused.push({ index: candidate.index, code: 'RUN_UNKNOWN', message })
    } else if (run.finished || isGivenUp(run, agentId, candidate)) outcome.known++
    else outcome.recorded.push(candidate)
  }
  return outcome
}

/** An agent cancels its run when another agent has it now, which does not end the run of the other. */
function isGivenUp(run: AwaitedRun, agentId: string, { result }: Candidate): boolean {
  return result.verdict === 'cancelled' && !run.cancelAsked && run.agentId !== agentId
}

async function notify(
  tx: Queryable,
  { key, agentId, nowMs, onRecorded }: ResultsBatch,
  recorded: Candidate[],
): Promise<void> {
  const results = recorded.map(({ result }) => ({
    result,
    late: nowMs - (result.startedAt + result.durationMs) > PROTOCOL_BOUNDS.lateAfterMs,
  }))
  const { accountId, locationId } = key
  for (const each of onRecorded) await each(tx, { accountId, locationId, agentId, results })
}
