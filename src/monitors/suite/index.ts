// Check suites: a Playwright project with its own configuration, on the engine that it asks for. This file ties
// the type to its run, which is loaded at the first one: an agent for uptime checks alone does not carry it.
import { failure } from '../../contract/failure.ts'
import { suiteDefinition, type SuiteMonitor } from './definition.ts'
import { LIMITS } from '../../contract/versions.ts'
import { defineMonitor } from '../monitor.ts'
import type { Observation, Sample } from '../../contract/observation.ts'
import type { ScriptContext } from '../../scripts/context.ts'

export const suite = defineMonitor({
  definition: suiteDefinition,
  prepare: (monitor: SuiteMonitor) => (context: ScriptContext) =>
    runWhereCodeRuns(monitor, context),
  samples: suiteSamples,
  deadlineMs: () => LIMITS.suiteMsMax,
  overrunMsMax: 10_000,
})

async function runWhereCodeRuns(
  monitor: SuiteMonitor,
  context: ScriptContext,
): Promise<Observation> {
  const { scripts } = context
  if (scripts === undefined) {
    const message = 'this agent does not run check suites'
    return { observed: {}, failures: [failure('SCRIPT_UNSUPPORTED', message)] }
  }
  const { runSuite } = await import('../../suites/run.ts')
  return runSuite(monitor, context, scripts)
}

/** Numbers of tests by outcome, and their duration. */
function suiteSamples(observed: Record<string, unknown>): Sample[] {
  const { stats, durationMs } = observed as { stats?: Record<string, number>; durationMs?: number }
  const samples: Sample[] = Object.entries(stats ?? {})
    .filter(([outcome]) => outcome !== 'total')
    .map(([outcome, value]) => ({ name: 'probe_suite_tests', value, labels: { outcome } }))
  if (durationMs !== undefined) {
    samples.push({ name: 'probe_suite_duration_seconds', value: durationMs / 1000 })
  }
  return samples
}
