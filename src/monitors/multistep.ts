// Multistep monitors: a Playwright script of several requests, without a browser.
import { MultistepMonitor } from '../contract/multistep-monitor.ts'
import { LIMITS } from '../contract/versions.ts'
import { defineMonitor } from './monitor.ts'
import { SCRIPT_END_MS_MAX } from './script-bounds.ts'
import { scriptSamples } from './script-samples.ts'

/** Multistep monitors. */
export const multistep = defineMonitor<MultistepMonitor>({
  checkType: 'MULTI_STEP',
  schema: MultistepMonitor,
  async run(monitor, context) {
    const { runScript } = await import('./script-run.ts')
    return runScript(monitor, context)
  },
  samples: scriptSamples,
  deadlineMs: () => LIMITS.scriptMsMax,
  overrunMsMax: SCRIPT_END_MS_MAX,
})
