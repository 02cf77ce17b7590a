// The background jobs that track presence: the platform's own pulse, unresponsive agents, locations without
// agents, and the retention of agents and epochs.
import { beatPulse, forgetAgents, unresponsiveLocations } from './queries/agents.ts'
import type { Database } from '../../database/database.ts'
import { forgetEpochs, markAbsences } from './queries/location-epochs.ts'
import type { BackgroundJob } from '../jobs/background-jobs.ts'
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
