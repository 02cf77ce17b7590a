// What browser and multistep monitors have in common: their run, their limits, and their Prometheus samples.
import type { Observation, Sample } from '../contract/observation.ts'
import { LIMITS } from '../contract/versions.ts'
import type { ScriptContext } from './context.ts'
import type { ScriptObserved } from './observed.ts'
import type { ScriptMonitor, ScriptOptions } from './run.ts'

/** The type of a monitor whose script is a monitor in itself, apart from its definition. */
export const scriptType = {
  samples: scriptSamples,
  deadlineMs: () => LIMITS.scriptMsMax,
  /** From the request to end until its last file is read: Playwright's grace, and what comes after. */
  overrunMsMax: 12_000,
}

/** Runs the script; the code for it is loaded at the first such run. */
export function scriptRun(monitor: ScriptMonitor, options: ScriptOptions) {
  return async (context: ScriptContext): Promise<Observation> => {
    const { runScript } = await import('./run.ts')
    return runScript(monitor, context, options)
  }
}

const VITALS = ['ttfbMs', 'fcpMs', 'lcpMs', 'inpMs', 'tbtMs', 'loadMs'] as const

/** The samples of one observation; of vitals the worst of all documents. */
export function scriptSamples(observed: Record<string, unknown>): Sample[] {
  const { usage, tests = [], pages = [] } = observed as Partial<ScriptObserved>
  if (usage === undefined) return []
  const samples: Sample[] = [
    { name: 'probe_script_cpu_seconds', value: usage.cpuMs / 1000 },
    { name: 'probe_script_memory_peak_bytes', value: usage.peakMemoryBytes },
  ]
  const counts = new Map<string, number>()
  for (const { status = 'unfinished' } of tests) counts.set(status, (counts.get(status) ?? 0) + 1)
  for (const [status, value] of counts) {
    samples.push({ name: 'probe_script_tests', value, labels: { status } })
  }
  const documents = pages.flatMap(({ vitals }) => vitals)
  for (const name of VITALS) {
    const values = documents.flatMap((one) => one[name] ?? [])
    if (values.length === 0) continue
    const labels = { vital: name.slice(0, -2) }
    samples.push({ name: 'probe_browser_vital_seconds', value: Math.max(...values) / 1000, labels })
  }
  const shifts = documents.flatMap(({ cls }) => cls ?? [])
  if (shifts.length > 0) {
    samples.push({ name: 'probe_browser_layout_shift', value: Math.max(...shifts) })
  }
  return samples
}
