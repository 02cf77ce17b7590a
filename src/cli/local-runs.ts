// Runs of monitors here and now, for commands: by the agent's runner, with the agent's settings.
import type { AgentConfig } from '../agent/config.ts'
import { type AttemptTurn, createRunner, type RunnerSettings } from '../agent/run/runner.ts'
import { locationContextOf } from '../agent/run/run-plan.ts'
import { createClock } from '../agent/schedule/clock.ts'
import type { FileStaging } from '../agent/sink.ts'
import type { Snapshot } from '../agent/source.ts'
import type { Job } from '../contract/job.ts'
import type { Result } from '../contract/result.ts'
import { MONITOR_TYPES } from '../monitors/registry.ts'
import type { ScriptHost } from '../scripts/host.ts'
import { dialFrom } from './settings.ts'

/** Runs a job to its result; never rejects. `files`: stores the files of this run. */
export type RunHere = (
  job: Job,
  signal: AbortSignal,
  more?: { turn?: AttemptTurn; files?: FileStaging | undefined },
) => Promise<Result>

/** Prepares runs in the location of a snapshot. */
export function runsHere(
  config: AgentConfig,
  snapshot: Snapshot,
  scripts: ScriptHost,
  more: Partial<RunnerSettings> = {},
): RunHere {
  const { workRoot, scrubHeaders } = config
  const common = { types: MONITOR_TYPES, clock: createClock(), workRoot, scrubHeaders, scripts }
  const runner = createRunner({ ...common, ...more })
  const locationContext = locationContextOf(snapshot, dialFrom(config))
  return (job, signal, { turn, files } = {}) => {
    const one = files === undefined ? runner : createRunner({ ...common, ...more, files })
    return one.run(job, locationContext, signal, turn)
  }
}
