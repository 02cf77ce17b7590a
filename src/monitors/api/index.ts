// API monitors: one request of any method, with headers, body and authentication, and assertions on all of
// the answer; before and after it, people's own scripts.
import { ApiMonitor, scriptFields } from '../../contract/http-monitor.ts'
import { LIMITS } from '../../contract/versions.ts'
import { prepareApi, type PreparedApi } from './plan.ts'
import { checkHttp } from '../http/check.ts'
import type { HttpObserved } from '../http/observed.ts'
import { httpSamples } from '../http/samples.ts'
import type { ScriptContext } from '../../scripts/context.ts'
import { defineMonitor } from '../monitor.ts'

/** A definition with scripts has no plan before its set-up script has run. */
const prepared = new WeakMap<ApiMonitor, PreparedApi | 'scripted'>()

function prepare(monitor: ApiMonitor): PreparedApi | 'scripted' {
  let made = prepared.get(monitor)
  if (made === undefined) {
    made = scriptFields(monitor).length > 0 ? 'scripted' : prepareApi(monitor)
    prepared.set(monitor, made)
  }
  return made
}

function deadlineMs(monitor: ApiMonitor): number {
  const scripts = scriptFields(monitor).length
  if (scripts === 0) return monitor.maxResponseTime
  return monitor.maxResponseTime + scripts * LIMITS.apiScriptMsMax + LIMITS.apiScriptStartMsMax
}

/** API monitors. */
export const api = defineMonitor<ApiMonitor, ScriptContext>({
  checkType: 'API',
  schema: ApiMonitor,
  async run(monitor, context) {
    const made = prepare(monitor)
    if (made === 'scripted') {
      const { runScriptedApi } = await import('./script-run.ts')
      return runScriptedApi(monitor, context)
    }
    if ('plan' in made) return checkHttp(made.plan, context)
    return { observed: {}, failures: [made.failure] }
  },
  samples: (observed) =>
    observed['hops'] === undefined ? [] : httpSamples(observed as unknown as HttpObserved),
  deadlineMs,
  overrunMsMax: 5_000,
})
