// Multistep monitors in the public wire form: a Playwright script of several requests, without a browser.
import type * as z from 'zod'
import { monitorSchema } from '../../contract/monitor.ts'
import { scriptRequirements, scriptedFields } from '../../contract/script-fields.ts'
import { defineType } from '../../contract/type/definition.ts'
import { SCRIPT_METRICS } from '../../contract/type/metrics.ts'

/** Runtimes that came before there were multistep monitors. */
const TOO_OLD: ReadonlySet<unknown> = new Set(['2022.10', '2023.02'])

export const MultistepMonitor = monitorSchema('MULTI_STEP', scriptedFields, 60).refine(
  ({ runtimeId }) => !TOO_OLD.has(runtimeId),
  { path: ['runtimeId'], error: 'has no multistep monitors; they need 2023.09 or newer' },
)
export type MultistepMonitor = z.infer<typeof MultistepMonitor>

export const multistepDefinition = defineType({
  checkType: 'MULTI_STEP',
  path: 'multistep',
  schema: MultistepMonitor,
  example: { script: "await request.get('https://example.com/')" },
  metrics: SCRIPT_METRICS,
  userCode: () => 'program',
  requirements: scriptRequirements,
  analytics: { paths: ['multistep-checks'] },
})
