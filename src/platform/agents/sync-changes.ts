// Changes for an agent since its last answer, read from one snapshot of the database.
import { type AgentStanding, agentStanding } from './queries/agents.ts'
import type { Database, Queryable } from '../../database/database.ts'
import { readEpochs } from './queries/location-epochs.ts'
import { placementsSince } from '../checks/queries/placement-changes.ts'
import { orNotFound } from '../http/errors.ts'
import { handOver, type SyncedState, wasGone } from './handover.ts'
import type { Cipher } from '../secrets/cipher.ts'
import { openAccountVariables } from '../variables/routes.ts'
import type { AnswerChanges } from './sync-answer.ts'

/** Who asks, and from where on. */
export interface ChangesAsk {
  accountId: string
  locationId: string
  agentId: string
  instance: string
  /** `have` of the request. */
  have: string | null
  nowMs: number
}

/** The changes, and the token of the state that they lead to. */
export interface ReadChanges {
  changes: AnswerChanges
  token: string
}

/** Longer than any hand-over: earlier owners of a monitor do not matter any more. */
const HISTORY_MS = 600_000

/**
 * The token of an agent's state. It names the process, since a restarted agent must continue after its last
 * recorded results.
 */
export function tokenOf(
  { epoch, revision }: Pick<AgentStanding, 'epoch' | 'revision'>,
  instance: string,
): string {
  return `${epoch}.${revision}.${instance.slice(0, 8)}`
}

function syncedStateOf(
  { have, instance }: ChangesAsk,
  now: AgentStanding,
): SyncedState | undefined {
  const [, epoch, revision, start] =
    /^(\d{1,15})\.(\d{1,15})\.([0-9a-f]{8})$/.exec(have ?? '') ?? []
  const synced = { epoch: Number(epoch), revision: Number(revision) }
  const isOurs = start === instance.slice(0, 8)
  return isOurs && synced.epoch <= now.epoch && synced.revision <= now.revision ? synced : undefined
}

/** Reads the changes to report to an agent. Throws 404 when it does not exist. */
export function readChanges(
  { database, cipher }: { database: Database; cipher: Cipher },
  ask: ChangesAsk,
): Promise<ReadChanges> {
  return database.transaction((tx) => read(tx, cipher, ask), {
    isolation: 'repeatable read',
    readOnly: true,
  })
}

async function read(tx: Queryable, cipher: Cipher, ask: ChangesAsk): Promise<ReadChanges> {
  const { locationId, agentId, nowMs } = ask
  const standing = orNotFound(await agentStanding(tx, locationId, agentId), 'agent')
  const claimedState = syncedStateOf(ask, standing)
  const epochs = await readEpochs(tx, locationId, {
    epoch: claimedState?.epoch ?? standing.epoch,
    sinceMs: nowMs - HISTORY_MS,
  })
  const holds =
    claimedState !== undefined &&
    epochs.some(({ epoch }) => epoch === claimedState.epoch) &&
    !wasGone(epochs, claimedState.epoch, agentId)
  const synced = holds ? claimedState : undefined
  const placements = await placementsSince(tx, locationId, {
    revision: synced?.revision ?? -1,
    all: synced?.epoch !== standing.epoch,
  })
  const variables = await openAccountVariables(tx, cipher, ask.accountId)
  const handOverAnswer = handOver({ agentId, synced, epochs, placements, nowMs })
  return {
    changes: { whole: synced === undefined, variables, ...handOverAnswer },
    token: tokenOf(standing, ask.instance),
  }
}
