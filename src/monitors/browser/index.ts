// Browser monitors: a Playwright script in Chromium.
import { browserDefinition, type BrowserMonitor } from './definition.ts'
import { LIMITS } from '../../contract/versions.ts'
import { defineMonitor } from '../monitor.ts'
import type { ScriptContext } from '../../scripts/context.ts'
import { SCRIPT_END_MS_MAX } from '../../scripts/bounds.ts'
import { scriptSamples } from '../../scripts/samples.ts'

/** Browser monitors. */
export const browser = defineMonitor<BrowserMonitor, ScriptContext>({
  definition: browserDefinition,
  prepare: (monitor) => async (context) => {
    const { runScript } = await import('../../scripts/run.ts')
    return runScript(monitor, context, { withBrowser: true, notes: unheeded(monitor) })
  },
  samples: scriptSamples,
  deadlineMs: () => LIMITS.scriptMsMax,
  overrunMsMax: SCRIPT_END_MS_MAX,
})

/** Notices about settings that a run does not support. */
function unheeded({ sslCheckDomain, snapshots }: BrowserMonitor): string[] {
  const notes: string[] = []
  if ((sslCheckDomain ?? '') !== '') {
    notes.push('sslCheckDomain is not looked at: an SSL monitor watches certificates')
  }
  if ((snapshots ?? []).length > 0) {
    notes.push('snapshots are not fetched: a check suite brings the pictures that it compares with')
  }
  return notes
}
