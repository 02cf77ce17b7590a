// Browser monitors: a Playwright script in Chromium.
import { BrowserMonitor } from '../contract/browser-monitor.ts'
import { LIMITS } from '../contract/versions.ts'
import { defineMonitor } from './monitor.ts'
import { SCRIPT_END_MS_MAX } from './script-bounds.ts'
import { scriptSamples } from './script-samples.ts'

/** Browser monitors. */
export const browser = defineMonitor<BrowserMonitor>({
  checkType: 'BROWSER',
  schema: BrowserMonitor,
  async run(monitor, context) {
    const { runScript } = await import('./script-run.ts')
    return runScript(monitor, context)
  },
  samples: scriptSamples,
  deadlineMs: () => LIMITS.scriptMsMax,
  overrunMsMax: SCRIPT_END_MS_MAX,
})
