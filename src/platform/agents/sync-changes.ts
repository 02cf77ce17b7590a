// What changed for an agent since the answer that it holds, read as one state of the database.
import type { SyncAnswer } from '../../contract/protocol/agent-protocol.ts'
import { type AgentStanding, agentStanding } from './queries/agents.ts'
import type { Database } from '../../database/database.ts'
import { readEpochs } from './queries/location-epochs.ts'
import { placementsSince } from '../checks/queries/placement-changes.ts'
import type { Connection } from '../../database/statement.ts'
import { notFound } from '../http/errors.ts'
import { handOver, type Held, wasGone } from './handover.ts'
import type { AnswerChanges } from './sync-answer.ts'

/** Variables of an account, known to all its monitors. */
export type ReadVariables = (
  connection: Connection,
  accountId: string,
) => Promise<NonNullable<SyncAnswer['changes']>['variables']>

/** Who asks, and from where on. */
export interface ChangesAsk {
  accountId: string
  locationId: string
  agentId: string
  instance: string
  /** `have` of the request. */
  have: string | null
  nowMs: number
  readVariables: ReadVariables
}

/** The changes, and the token that stands for them. */
export interface ReadChanges {
  changes: AnswerChanges
  token: string
}

/** Takes longer than any hand-over: who had a monitor before this is of no interest any more. */
const HISTORY_MS = 600_000

/**
 * The token for what an agent has. It names the process, since one that was started anew has to go on
 * where its results ended.
 */
export function tokenOf(
  { epoch, revision }: Pick<AgentStanding, 'epoch' | 'revision'>,
  instance: string,
): string {
  return `${epoch}.${revision}.${instance.slice(0, 8)}`
}

function heldBy({ have, instance }: ChangesAsk, now: AgentStanding): Held | undefined {
  const [, epoch, revision, start] =
    /^(\d{1,15})\.(\d{1,15})\.([0-9a-f]{8})$/.exec(have ?? '') ?? []
  const held = { epoch: Number(epoch), revision: Number(revision) }
  const isOurs = start === instance.slice(0, 8)
  return isOurs && held.epoch <= now.epoch && held.revision <= now.revision ? held : undefined
}

/** Reads what an agent has to be told. Throws 404 when it is gone. */
export function readChanges(database: Database, ask: ChangesAsk): Promise<ReadChanges> {
  return database.transaction((tx) => read(tx, ask), {
    isolation: 'repeatable read',
    readOnly: true,
  })
}

async function read(tx: Connection, ask: ChangesAsk): Promise<ReadChanges> {
  const { locationId, agentId, nowMs } = ask
  const standing = await agentStanding(tx, locationId, agentId)
  if (standing === undefined) throw notFound('agent')
  const claimed = heldBy(ask, standing)
  const epochs = await readEpochs(tx, locationId, {
    epoch: claimed?.epoch ?? standing.epoch,
    sinceMs: nowMs - HISTORY_MS,
  })
  const holds =
    claimed !== undefined &&
    epochs.some(({ epoch }) => epoch === claimed.epoch) &&
    !wasGone(epochs, claimed.epoch, agentId)
  const held = holds ? claimed : undefined
  const placements = await placementsSince(tx, locationId, {
    revision: held?.revision ?? -1,
    all: held?.epoch !== standing.epoch,
  })
  const variables = await ask.readVariables(tx, ask.accountId)
  const told = handOver({ agentId, held, epochs, placements, nowMs })
  return {
    changes: { whole: held === undefined, variables, ...told },
    token: tokenOf(standing, ask.instance),
  }
}
