// The background jobs that track presence: the platform's own pulse, unresponsive agents, locations without
// agents, and the retention of agents and epochs.
import { beatPulse, forgetAgents, unresponsiveLocations } from './queries/agents.ts'
import type { Database } from '../../database/database.ts'
import { forgetEpochs, markAbsences } from './queries/location-epochs.ts'
import type { BackgroundJob } from '../jobs/background-jobs.ts'
import { type AgentRegistry, HEARTBEAT_BOUNDS } from './agent-registry.ts'

const PRESENCE_MS = 1_000
const ABSENCE_MS = 10_000
const FORGET_MS = 3_600_000
const AGENTS_KEPT_DAYS = 30
const EPOCHS_KEPT_MS = 86_400_000

/** The background jobs of presence. */
export function presenceJobs(database: Database, agents: AgentRegistry): BackgroundJob[] {
  return [
    {
      name: 'presence',
      everyMs: PRESENCE_MS,
      timeoutMs: 10_000,
      async run(signal) {
        // The pulse comes first: after a pause, heartbeat timeouts restart before any agent counts as lost.
        await beatPulse(database, HEARTBEAT_BOUNDS.pauseS)
        for (const locationId of await unresponsiveLocations(database, HEARTBEAT_BOUNDS)) {
          if (signal.aborted) return
          await agents.loseUnresponsive(locationId)
        }
      },
    },
    {
      name: 'absences',
      everyMs: ABSENCE_MS,
      timeoutMs: 30_000,
      run: () => markAbsences(database),
    },
    {
      name: 'presence-history',
      everyMs: FORGET_MS,
      timeoutMs: 60_000,
      async run() {
        await forgetAgents(database, AGENTS_KEPT_DAYS)
        await forgetEpochs(database, EPOCHS_KEPT_MS)
      },
    },
  ]
}
