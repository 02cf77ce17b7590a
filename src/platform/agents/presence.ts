// Presence of agents. Background jobs track it: the platform's own pulse, unresponsive agents, locations without
// agents, and the retention of agents and epochs. POST /agent/v1/presence reports it during a long sync, with the
// progress of runs. The answer to a sync may take minutes, and a proxy may receive it instead of the agent.
import { PresenceAnswer, PresenceRequest } from '../../contract/protocol/agent-protocol.ts'
import { PROGRESS_BOUNDS } from '../../contract/protocol/run-progress.ts'
import { beatPulse, forgetAgents, noteAgent, unresponsiveLocations } from './queries/agents.ts'
import type { Database } from '../../database/database.ts'
import { forgetEpochs, markAbsences } from './queries/location-epochs.ts'
import type { BackgroundJob } from '../jobs/background-jobs.ts'
import { defineAgentOperation, type DefinedAgentOperation } from '../http/agent-operation.ts'
import { readJson } from '../http/body.ts'
import { checked } from '../http/operation.ts'
import { noteProgress } from '../runs/queries/runs.ts'
import type { AgentRegistry } from './agent-registry.ts'

const AGENTS_KEPT_DAYS = 30
const EPOCHS_KEPT_MS = 86_400_000

/** The background jobs of presence. */
export function presenceJobs(database: Database, agents: AgentRegistry): BackgroundJob[] {
  return [
    {
      name: 'presence',
      everyMs: 1_000,
      timeoutMs: 10_000,
      async run(signal) {
        // The pulse comes first: after a pause, heartbeat timeouts restart before any agent counts as lost.
        await beatPulse(database)
        for (const locationId of await unresponsiveLocations(database)) {
          if (signal.aborted) return
          await agents.loseUnresponsive(locationId)
        }
      },
    },
    {
      name: 'absences',
      everyMs: 10_000,
      timeoutMs: 30_000,
      run: () => markAbsences(database),
    },
    {
      name: 'presence-history',
      everyMs: 3_600_000,
      timeoutMs: 60_000,
      async run() {
        await forgetAgents(database, AGENTS_KEPT_DAYS)
        await forgetEpochs(database, EPOCHS_KEPT_MS)
      },
    },
  ]
}

const BODY_BOUNDS = { bodyBytesMax: PROGRESS_BOUNDS.callBytesMax, bodyMs: 15_000, jsonDepthMax: 4 }

/** The call by which an agent reports its presence while it receives a long answer. */
export function presenceOperation(database: Database): DefinedAgentOperation {
  return defineAgentOperation({
    summary: 'Report that an agent is alive, and the progress of its runs, during its sync',
    description:
      'Counts as a sign of life, as a sync does, for the process that the last sync registered. It registers no agent and restores none that was lost. `progress` is the newest report of each run on demand that the agent has; of other runs it is ignored.',
    method: 'post',
    path: '/agent/v1/presence',
    kind: 'presence',
    body: {
      contentType: 'application/json',
      schema: PresenceRequest,
      bytesMax: BODY_BOUNDS.bodyBytesMax,
    },
    answers: {
      schema: PresenceAnswer,
      description: 'Whether it is known as an agent that is live',
    },
    async answer({ c, key: { locationId } }) {
      const report = checked(PresenceRequest, await readJson(c, BODY_BOUNDS))
      const { agentId, instance, progress = [] } = report
      const said = { locationId, id: agentId.toLowerCase(), instance: instance.toLowerCase() }
      if (progress.length > 0) await noteProgress(database, said, progress)
      return JSON.stringify({ live: await noteAgent(database, said) })
    },
  })
}
