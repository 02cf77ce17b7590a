// Runs on demand that an agent receives when it syncs: its own ones that it has not accepted yet, and
// those that it must end. Each run is with one agent at a time.
import type { SyncAnswer, SyncRequest } from '../../contract/protocol/agent-protocol.ts'
import type { Monitor } from '../../contract/monitor.ts'
import type { AgentStanding } from '../agents/queries/agents.ts'
import type { Database, Queryable } from '../../database/database.ts'
import { readEpochs } from '../agents/queries/location-epochs.ts'
import { type Assignment, createAssignment, type Member } from '../agents/assignment.ts'
import { decrypt } from '../checks/encrypted-monitor.ts'
import type { Cipher } from '../secrets/cipher.ts'
import { noteRunStates, openRunsFor, assignRuns } from './queries/runs.ts'

/** The agent that syncs. */
export interface RunsAsk {
  locationId: string
  agentId: string
  /** `runs` of its request. */
  said: SyncRequest['runs']
  /** A leaving agent finishes its runs and receives no more. */
  leaving: boolean
}

/** `runs` and `cancel` of an answer. */
export type RunsToReport = Pick<SyncAnswer, 'runs' | 'cancel'>

/** What handing out needs: who owns which monitor at present, and the definitions. */
export interface RunFacts {
  readAssignment: () => Promise<Assignment<Member>>
  /** Opens an encrypted definition. */
  open: (effective: string) => Monitor
}

/**
 * `runs` and `cancel` of a sync's answer. Rejects when the database does not answer. A run is sent again until
 * the agent confirms it.
 */
export async function handOutRuns(
  connection: Queryable,
  { locationId, agentId, said, leaving }: RunsAsk,
  { readAssignment, open }: RunFacts,
): Promise<RunsToReport> {
  const to = { locationId, agentId }
  const leftovers = said.length > 0 ? await noteRunStates(connection, to, said) : []
  const all = await openRunsFor(connection, locationId)
  const queued = leaving ? [] : all.filter((one) => one.agentId === null)
  const assignment = queued.length > 0 ? await readAssignment() : undefined
  const free = queued.filter(
    ({ monitorId, needs }) => assignment?.owner(monitorId, needs)?.id === agentId,
  )
  const ids = free.map(({ id }) => id)
  const given = new Set(ids.length > 0 ? await assignRuns(connection, to, ids) : [])
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

/** A run that was reported is not reported again before this, but with an answer that is due anyway. */
export const REPORT_AGAIN_MS = 1_000
const REMEMBERED_MAX = 10_000

/** Runs on demand to report to one agent. */
export interface RunsReport extends RunsToReport {
  /** At least one of them was not reported lately. They count as reported from now on. */
  isNews: boolean
}

/** Creates the function that hands out runs to the agents that sync with this process. */
export function createRunHandOut({ database, cipher }: { database: Database; cipher: Cipher }) {
  /** `<agent> <run>` → until when it counts as reported. */
  const reported = new Map<string, number>()
  return async (ask: RunsAsk, { epoch }: Pick<AgentStanding, 'epoch'>): Promise<RunsReport> => {
    const { runs, cancel } = await handOutRuns(database, ask, {
      async readAssignment() {
        const since = { epoch, sinceMs: Number.MAX_SAFE_INTEGER }
        const [current] = await readEpochs(database, ask.locationId, since)
        return createAssignment(current?.members ?? [])
      },
      open: (effective) => decrypt(cipher, effective) as Monitor,
    })
    const keys = [
      ...runs.map(({ run }) => `${ask.agentId} ${run}`),
      ...cancel.map((run) => `${ask.agentId} cancel ${run}`),
    ]
    const now = performance.now()
    const isNews = keys.some((key) => (reported.get(key) ?? 0) < now)
    if (isNews) {
      if (reported.size + keys.length > REMEMBERED_MAX) reported.clear()
      for (const key of keys) reported.set(key, now + REPORT_AGAIN_MS)
    }
    return { runs, cancel, isNews }
  }
}
