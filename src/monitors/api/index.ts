// API monitors: one request of any method, with headers, body and authentication, and assertions on all of
// the answer; before and after it, user scripts.
import { type ApiMonitor, scriptFields } from '../../contract/http-monitor.ts'
import { LIMITS } from '../../contract/versions.ts'
import { apiDefinition } from './definition.ts'
import { prepareApi } from './plan.ts'
import { checkHttp } from '../http/check.ts'
import { httpSamples } from '../http/observed.ts'
import type { ScriptContext } from '../../scripts/context.ts'
import { defineMonitor } from '../monitor.ts'

function deadlineMs(monitor: ApiMonitor): number {
  const scripts = scriptFields(monitor).length
  if (scripts === 0) return monitor.maxResponseTime
  return monitor.maxResponseTime + scripts * LIMITS.apiScriptMsMax + LIMITS.apiScriptStartMsMax
}

/** API monitors. */
export const api = defineMonitor<ApiMonitor, ScriptContext>({
  definition: apiDefinition,
  prepare(monitor) {
    // Before its set-up script has run, a definition has no plan.
    if (scriptFields(monitor).length > 0) {
      return async (context) => {
        const { runScriptedApi } = await import('./script-run.ts')
        return runScriptedApi(monitor, context)
      }
    }
    const plan = prepareApi(monitor)
    return (context) => checkHttp(plan, context)
  },
  samples: httpSamples,
  deadlineMs,
  overrunMsMax: 5_000,
})
