// Which runs on demand one agent hears of when it syncs: those that are its own and not taken yet, and
// those that it must end. Each run is with one agent at a time.
import type { SyncAnswer, SyncRequest } from '../../contract/protocol/agent-protocol.ts'
import type { Monitor } from '../../contract/monitor.ts'
import { noteRunStates, openRunsFor, takeRuns } from './queries/runs.ts'
import type { Connection } from '../../database/statement.ts'

/** What handing out runs needs to know of the agent that syncs. */
export interface RunHandOut {
  locationId: string
  agentId: string
  /** `runs` of its request. */
  said: SyncRequest['runs']
  /** A leaving agent finishes what it has and is given nothing more. */
  leaving: boolean
  /** Which agent a monitor's present slot belongs to; undefined when no live one can run it. */
  ownerOf: (monitorId: string, needs: readonly string[]) => string | undefined
  /** Opens an encrypted definition. */
  open: (effective: string) => Monitor
}

/**
 * `runs` and `cancel` of a sync's answer. Rejects when the database is away; what was given to the agent
 * is reported again until it names it.
 */
export async function handOutRuns(
  connection: Connection,
  { locationId, agentId, said, leaving, ownerOf, open }: RunHandOut,
): Promise<Pick<SyncAnswer, 'runs' | 'cancel'>> {
  const leftovers = await noteRunStates(connection, { locationId, agentId }, said)
  const all = await openRunsFor(connection, locationId)
  if (all.length === 0) return { runs: [], cancel: leftovers }
  const free = all.filter(
    (one) => one.agentId === null && !leaving && ownerOf(one.monitorId, one.needs) === agentId,
  )
  const ids = free.map(({ id }) => id)
  const given = new Set(await takeRuns(connection, { locationId, agentId }, ids))
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
