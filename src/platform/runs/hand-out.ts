// Runs on demand that an agent receives when it syncs: its own ones that it has not accepted yet, and
// those that it must end. Each run is with one agent at a time.
import type { SyncAnswer, SyncRequest } from '../../contract/protocol/agent-protocol.ts'
import type { Monitor } from '../../contract/monitor.ts'
import { noteRunStates, openRunsFor, assignRuns } from './queries/runs.ts'
import type { Queryable } from '../../database/database.ts'

/** The syncing agent, and functions that handing out runs needs. */
export interface RunHandOut {
  locationId: string
  agentId: string
  /** `runs` of its request. */
  said: SyncRequest['runs']
  /** A leaving agent finishes its runs and receives no more. */
  leaving: boolean
  /** Which agent a monitor's present slot belongs to; undefined when no live one can run it. */
  ownerOf: (monitorId: string, needs: readonly string[]) => string | undefined
  /** Opens an encrypted definition. */
  open: (effective: string) => Monitor
}

/**
 * `runs` and `cancel` of a sync's answer. Rejects when the database does not answer. A run is sent again until
 * the agent confirms it.
 */
export async function handOutRuns(
  connection: Queryable,
  { locationId, agentId, said, leaving, ownerOf, open }: RunHandOut,
): Promise<Pick<SyncAnswer, 'runs' | 'cancel'>> {
  const leftovers = await noteRunStates(connection, { locationId, agentId }, said)
  const all = await openRunsFor(connection, locationId)
  if (all.length === 0) return { runs: [], cancel: leftovers }
  const free = all.filter(
    (one) => one.agentId === null && !leaving && ownerOf(one.monitorId, one.needs) === agentId,
  )
  const ids = free.map(({ id }) => id)
  const given = new Set(await assignRuns(connection, { locationId, agentId }, ids))
  const mine = all.filter((one) => one.agentId === agentId)
  const handedOut = [
    ...mine.filter((one) => !one.taken && !one.cancelAsked),
    ...free.filter(({ id }) => given.has(id)),
  ]
  return {
    runs: handedOut.map(({ id, effective }) => ({ run: id, monitor: open(effective) })),
    cancel: [...leftovers, ...mine.filter((one) => one.cancelAsked).map(({ id }) => id)],
  }
}
