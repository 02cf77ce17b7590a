// Multistep monitors: a Playwright script of several requests, without a browser.
import { multistepDefinition, type MultistepMonitor } from './definition.ts'
import { LIMITS } from '../../contract/versions.ts'
import { defineMonitor } from '../monitor.ts'
import type { ScriptContext } from '../../scripts/context.ts'
import { SCRIPT_END_MS_MAX } from '../../scripts/bounds.ts'
import { scriptSamples } from '../../scripts/samples.ts'

/** Multistep monitors. */
export const multistep = defineMonitor<MultistepMonitor, ScriptContext>({
  definition: multistepDefinition,
  prepare: (monitor) => async (context) => {
    const { runScript } = await import('../../scripts/run.ts')
    return runScript(monitor, context, { withBrowser: false })
  },
  samples: scriptSamples,
  deadlineMs: () => LIMITS.scriptMsMax,
  overrunMsMax: SCRIPT_END_MS_MAX,
})
