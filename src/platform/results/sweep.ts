// The sweep: unreported slots become `missed` with a reason, so that every expected slot has
// exactly one row. Later reports still replace them.
import type { MissedReason } from '../../contract/result.ts'
import type { Database, Queryable } from '../../database/database.ts'
import { markRollupsDue, type MonitorSlot } from './queries/results.ts'
import { startOfDay } from './queries/result-partitions.ts'
import { sortUnderWay } from './queries/slots-under-way.ts'
import {
  advanceSweep,
  beginSweep,
  countDueSlots,
  fillMissed,
  findMissingSlots,
  type MissingSlots,
  readMembers,
  readPulseSince,
  type SweepWindow,
  type SweptMember,
} from './queries/sweep.ts'
import { createAssignment, neededText } from '../agents/assignment.ts'
import type { BackgroundJob } from '../jobs/background-jobs.ts'

export interface SweepParts {
  database: Database
  /** Milliseconds on the platform's clock. */
  now: () => number
  /** Retention of rows. */
  retentionMs: number
  /** How long agents have to deliver before a slot counts as missed; default SWEEP_GRACE_MS. */
  graceMs?: number
}

/** Default time for agents to deliver. */
export const SWEEP_GRACE_MS = 120_000
/** How long after the platform came back nothing is swept: agents have to deliver first. */
export const SWEEP_RETURN_MS = 60_000
/** The first and the maximum window of a transaction; windows adapt to about this many due slots. */
const WINDOW_MS = 30_000
const WINDOW_MS_MAX = 3_600_000
const WINDOW_SLOTS = 20_000
const SWEEP_STATEMENT_MS = 60_000

export interface Swept {
  sweptUntilMs: number
  expected: number
  filled: number
}

/** The sweep as a background job. */
export function sweepJob(parts: SweepParts): BackgroundJob {
  return {
    name: 'account-for-slots',
    everyMs: 10_000,
    timeoutMs: 300_000,
    run: async (signal) => {
      await sweep(parts, signal)
    },
  }
}

/** Sweeps window by window until nothing is due or the signal fires. */
export async function sweep(parts: SweepParts, signal: AbortSignal): Promise<Swept> {
  const done: Swept = { sweptUntilMs: 0, expected: 0, filled: 0 }
  let windowMs = WINDOW_MS
  for (;;) {
    const one = await parts.database.transaction((tx) => sweepOnce(tx, parts, windowMs), {
      statementTimeoutMs: SWEEP_STATEMENT_MS,
    })
    const fitting = windowMs * (WINDOW_SLOTS / Math.max(1, one.expected))
    windowMs = Math.ceil(Math.min(fitting, 2 * windowMs, WINDOW_MS_MAX))
    done.sweptUntilMs = one.sweptUntilMs
    done.expected += one.expected
    done.filled += one.filled
    if (one.isLast || signal.aborted) return done
  }
}

async function sweepOnce(
  tx: Queryable,
  { now, retentionMs, graceMs = SWEEP_GRACE_MS }: SweepParts,
  windowMs: number,
): Promise<Swept & { isLast: boolean }> {
  const nowMs = Math.floor(now())
  const target = nowMs - graceMs
  const floorMs = startOfDay(nowMs - retentionMs)
  const before = await beginSweep(tx, target)
  const since = await readPulseSince(tx)
  const returnMs = Math.min(graceMs, SWEEP_RETURN_MS)
  const isBack = since === undefined || nowMs >= since + returnMs
  // There is nothing to sweep before the first placement, and expired slots need no row.
  const fromMs = Math.max(before, floorMs)
  const untilMs = Math.min(fromMs + windowMs, target)
  if (!isBack || untilMs <= fromMs) {
    if (isBack) await sortUnderWay(tx, { nowMs, graceMs })
    return { sweptUntilMs: before, expected: 0, filled: 0, isLast: true }
  }
  const window: SweepWindow = { fromMs, untilMs, floorMs }
  const expected = await countDueSlots(tx, window)
  const { missing, filled } = await fillWindow(tx, window)
  await sortUnderWay(tx, { nowMs, graceMs })
  // Some were reported between the look and the filling; look again instead of believing it.
  const left = filled === missing ? 0 : countOf(await findMissingSlots(tx, window))
  await advanceSweep(tx, { untilMs, expected, recorded: expected - left })
  return { sweptUntilMs: untilMs, expected, filled, isLast: untilMs === target }
}

async function fillWindow(
  tx: Queryable,
  window: SweepWindow,
): Promise<{ missing: number; filled: number }> {
  const groups = await findMissingSlots(tx, window)
  let filled = 0
  for (const group of groups) {
    for (const { slots, ...why } of await sortByReason(tx, group)) {
      filled += await fillMissed(tx, { ...group, slots }, why)
    }
    // The first slot of a monitor may lie hours back, in an hour that was rolled up.
    await markRollupsDue(tx, group.locationId, group.slots, window.fromMs)
  }
  return { missing: countOf(groups), filled }
}

function countOf(groups: MissingSlots[]): number {
  return groups.reduce((sum, { slots }) => sum + slots.length, 0)
}

interface Reasoned {
  reason: MissedReason
  needed?: string
  slots: MonitorSlot[]
}

/** The reason depends on the owner of the slots and on whether that agent has been live since. */
async function sortByReason(tx: Queryable, group: MissingSlots): Promise<Reasoned[]> {
  const { locationId, epoch, needs, slots } = group
  if (epoch === null) return [{ reason: 'no-agent', slots }]
  const members = await readMembers(tx, locationId, epoch)
  const assignment = createAssignment(members)
  const owners = new Map(
    slots.map(({ monitorId }) => [monitorId, assignment.owner(monitorId, needs)]),
  )
  if (members.length > 0 && [...owners.values()].includes(undefined)) {
    return [{ reason: 'no-capable-agent', needed: neededText(needs), slots }]
  }
  const byReason = Map.groupBy(slots, ({ monitorId, slotMs }) =>
    wasLive(owners.get(monitorId), slotMs) ? 'not-delivered' : 'agent-lost',
  )
  return [...byReason].map(([reason, some]) => ({ reason, slots: some }))
}

/** Whether the agent has been live from the slot until now. */
function wasLive(owner: SweptMember | undefined, slotMs: number): boolean {
  const { liveSinceMs = null } = owner ?? {}
  return liveSinceMs !== null && liveSinceMs <= slotMs
}
