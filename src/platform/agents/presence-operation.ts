// POST /agent/v1/presence: an agent reports its presence during a long sync, and the progress of its runs. The
// answer to the sync may take minutes, and a proxy may receive it instead of the agent: only the agent's own
// report counts.
import { PresenceAnswer, PresenceRequest } from '../../contract/protocol/agent-protocol.ts'
import { PROGRESS_BOUNDS } from '../../contract/protocol/run-progress.ts'
import { noteAgent } from './queries/agents.ts'
import type { Database } from '../../database/database.ts'
import { noteProgress } from '../runs/queries/runs.ts'
import {
  agentJson,
  defineAgentOperation,
  type DefinedAgentOperation,
} from '../http/agent-operation.ts'
import { readJson } from '../http/body.ts'
import { checked } from '../http/operation.ts'

const BODY_BOUNDS = { bodyBytesMax: PROGRESS_BOUNDS.callBytesMax, bodyMs: 15_000, jsonDepthMax: 4 }

/** The call by which an agent reports its presence while it receives a long answer. */
export function presenceOperation(database: Database): DefinedAgentOperation {
  return defineAgentOperation({
    summary: 'Report that an agent is there, and the progress of its runs, during its sync',
    description:
      'Counts as a sign of life, as a sync does, for the process that the last sync registered. It registers no agent and restores none that was lost. `progress` is the newest report of each run on demand that the agent has; of other runs it is ignored.',
    method: 'post',
    path: '/agent/v1/presence',
    kind: 'presence',
    body: { contentType: 'application/json', schema: PresenceRequest },
    answers: {
      schema: PresenceAnswer,
      description: 'Whether it is known as an agent that is live',
    },
    errors: {
      408: 'The body came too slowly',
      413: `The body is larger than ${BODY_BOUNDS.bodyBytesMax} bytes`,
      415: 'The body is not application/json',
    },
    async answer({ c, key: { locationId } }) {
      const {
        agentId,
        instance,
        progress = [],
      } = checked(PresenceRequest, await readJson(c, BODY_BOUNDS))
      const said = { locationId, id: agentId.toLowerCase(), instance: instance.toLowerCase() }
      await noteProgress(database, said, progress)
      return agentJson(JSON.stringify({ live: await noteAgent(database, said) }))
    },
  })
}
