// Multistep monitors: a Playwright script of several requests, without a browser.
import { multistepDefinition, type MultistepMonitor } from './definition.ts'
import { defineMonitor } from '../monitor.ts'
import type { ScriptContext } from '../../scripts/context.ts'
import { scriptRun, scriptType } from '../../scripts/monitor.ts'

/** Multistep monitors. */
export const multistep = defineMonitor<MultistepMonitor, ScriptContext>({
  ...scriptType,
  definition: multistepDefinition,
  prepare: (monitor) => scriptRun(monitor, { withBrowser: false }),
})
