// Browser monitors in the public wire form: a Playwright script in a browser.
import * as z from 'zod'
import { monitorSchema } from '../../contract/monitor.ts'
import { scriptRequirements, scriptedFields } from '../../contract/script-fields.ts'
import { defineType } from '../../contract/type/definition.ts'
import { SCRIPT_METRICS } from '../../contract/type/metrics.ts'

export const BrowserMonitor = monitorSchema(
  'BROWSER',
  {
    ...scriptedFields,
    /** Host whose certificate is looked at besides. */
    sslCheckDomain: z.string().max(2048).nullable().optional(),
    /** Reference screenshots: the location of each, and its path in the project. */
    snapshots: z
      .array(z.strictObject({ key: z.string().min(1), path: z.string().min(1).max(1000) }))
      .max(1000)
      .nullable()
      .optional(),
  },
  60,
)
export type BrowserMonitor = z.infer<typeof BrowserMonitor>

export const browserDefinition = defineType({
  checkType: 'BROWSER',
  path: 'browser',
  schema: BrowserMonitor,
  example: { script: "await page.goto('https://example.com/')" },
  metrics: SCRIPT_METRICS,
  userCode: () => 'program',
  requirements: scriptRequirements,
  analytics: { paths: ['browser-checks'], unmeasured: ['TTFB', 'FCP', 'LCP', 'CLS', 'TBT'] },
})
