// Browser monitors: a Playwright script in Chromium.
import { BrowserMonitor } from './definition.ts'
import { LIMITS } from '../../contract/versions.ts'
import { defineMonitor } from '../monitor.ts'
import { SCRIPT_END_MS_MAX } from '../../scripts/bounds.ts'
import { scriptSamples } from '../../scripts/samples.ts'

/** Browser monitors. */
export const browser = defineMonitor<BrowserMonitor>({
  checkType: 'BROWSER',
  schema: BrowserMonitor,
  async run(monitor, context) {
    const { runScript } = await import('../../scripts/run.ts')
    return runScript(monitor, context)
  },
  samples: scriptSamples,
  deadlineMs: () => LIMITS.scriptMsMax,
  overrunMsMax: SCRIPT_END_MS_MAX,
})
