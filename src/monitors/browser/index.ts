// Browser monitors: a Playwright script in Chromium.
import { browserDefinition, type BrowserMonitor } from './definition.ts'
import { defineMonitor } from '../monitor.ts'
import type { ScriptContext } from '../../scripts/context.ts'
import { scriptRun, scriptType } from '../../scripts/monitor.ts'

/** Browser monitors. */
export const browser = defineMonitor<BrowserMonitor, ScriptContext>({
  ...scriptType,
  definition: browserDefinition,
  prepare: (monitor) => scriptRun(monitor, { withBrowser: true, notes: unheeded(monitor) }),
})

/** Notices about settings that a run does not support. */
function unheeded({ sslCheckDomain, snapshots }: BrowserMonitor): string[] {
  const notes: string[] = []
  if ((sslCheckDomain ?? '') !== '') {
    notes.push('sslCheckDomain is ignored: an SSL monitor watches certificates')
  }
  if ((snapshots ?? []).length > 0) {
    notes.push('snapshots are not downloaded: a check suite includes its reference pictures')
  }
  return notes
}
