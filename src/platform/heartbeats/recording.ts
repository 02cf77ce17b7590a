// Records what pings and passed deadlines lead to: results, expected slots and alerts, in the transaction that
// changes the state of the heartbeats.
import type { WireResult } from '../../contract/protocol/agent-protocol.ts'
import { detailText } from '../../contract/protocol/wire-result.ts'
import type { Queryable } from '../../database/database.ts'
import { insertResults, markRollupsDue } from '../results/queries/results.ts'
import type { OnRecorded } from '../results/recorded.ts'
import type { HeartbeatEvent, HeartbeatState } from './heartbeat.ts'
import { type HeartbeatRow, saveStates } from './queries/heartbeats.ts'

/** The sender of a ping, as stored with its event. */
export interface PingSource {
  /** Such as `HTTP GET`. */
  source: string
  userAgent: string | null
  /** What the job sent along; null without a body. */
  body: string | null
}

/** An event with the ping that caused it; none where a deadline passed. */
export interface SourcedEvent extends HeartbeatEvent {
  ping?: PingSource
}

/** A heartbeat, its new state, and the events in between. */
export interface Moved {
  row: HeartbeatRow
  state: HeartbeatState
  events: readonly SourcedEvent[]
}

/** Stores the new states with their results, and derives alerts. */
export async function recordMoves(
  tx: Queryable,
  moves: readonly Moved[],
  { nowMs, onRecorded }: { nowMs: number; onRecorded: readonly OnRecorded[] },
): Promise<void> {
  const changed = moves.filter(({ row, state }) => state !== row)
  if (changed.length === 0) return
  await saveStates(
    tx,
    changed.map(({ row, state, events }) => {
      const slots = events.map(({ slotMs }) => slotMs)
      if (state.deadlineMs !== null) slots.push(state.deadlineMs)
      return { ...row, ...state, formerMs: row.deadlineMs, slots }
    }),
  )
  const byLocation = Map.groupBy(changed, ({ row }) => row.locationId)
  for (const [locationId, some] of byLocation) {
    const accountId = some[0]?.row.accountId ?? ''
    const results = some.flatMap(({ row, events }) =>
      events.map((event) => resultOf(row.monitorId, event)),
    )
    if (results.length === 0) continue
    const stored = results.map((result) => ({ result, detail: detailText(result) }))
    await insertResults(tx, { locationId, accountId, agentId: null }, stored)
    const slots = results.map(({ monitorId, slot }) => ({ monitorId, slotMs: slot }))
    await markRollupsDue(tx, locationId, slots, nowMs)
    const recorded = results.map((result) => ({ result, late: false }))
    for (const each of onRecorded)
      await each(tx, { accountId, locationId, agentId: null, results: recorded })
  }
}

function resultOf(monitorId: string, event: SourcedEvent): WireResult {
  const { slotMs, state, durationMs, failure, ping } = event
  const observed = { state, source: ping?.source ?? null, userAgent: ping?.userAgent ?? null }
  return {
    monitorId,
    slot: slotMs,
    verdict: failure === undefined ? 'passed' : 'failed',
    startedAt: slotMs - durationMs,
    clockUncertaintyMs: 0,
    durationMs,
    responseTimeMs: durationMs,
    attempts: 1,
    ...(failure !== undefined && { failures: [failure] }),
    detail: { observed: { ...observed, body: ping?.body ?? null }, attempts: [] },
  }
}
