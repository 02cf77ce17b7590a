// Check suites in the public wire form: a Playwright project, run as its own configuration says.
import * as z from 'zod'
import { chooseEngine, ENGINE_NAMES } from '../../contract/engine.ts'
import { monitorSchema } from '../../contract/monitor.ts'
import { defineType } from '../../contract/type/definition.ts'

const command = z.string().max(10_000)

export const SuiteMonitor = monitorSchema(
  'PLAYWRIGHT',
  {
    /** Location of the project's bundle. */
    codeBundlePath: z.string().min(1).max(2048),
    /** Of the lock file and what else decides on the dependencies. */
    cacheHash: z.string().max(255).nullable().optional(),
    browsers: z.array(z.string().min(1).max(64)).max(20).nullable().optional(),
    playwrightVersion: z.string().max(64).nullable().optional(),
    /** Empty: nothing is installed. */
    installCommand: command.nullable().optional(),
    testCommand: command.min(1).default('npx playwright test'),
    /** Inside the bundle. */
    workingDir: z.string().max(1000).nullable().optional(),
    /** Without it the project's own files say which, and else it is Node. */
    engine: z.enum(ENGINE_NAMES).optional(),
    /** Like 24 or 22.11; see `chooseEngine`. */
    engineVersion: z.string().nullable().optional(),
  },
  60,
).superRefine(({ engine, engineVersion }, context) => {
  const chosen = chooseEngine(engine ?? 'node', engineVersion)
  if (typeof chosen !== 'string') return
  context.addIssue({ code: 'custom', path: ['engineVersion'], message: chosen })
})
export type SuiteMonitor = z.infer<typeof SuiteMonitor>

export const suiteDefinition = defineType({
  checkType: 'PLAYWRIGHT',
  path: 'playwright',
  schema: SuiteMonitor,
  example: { codeBundlePath: `bundle:${'0'.repeat(64)}` },
  metrics: {
    probe_suite_duration_seconds:
      'Time that the tests of a check suite took, as reported by Playwright.',
    probe_suite_tests: 'Tests of a check suite by outcome.',
  },
  userCode: () => 'program',
  isNeverRetried: true,
  requirements: (monitor) => {
    const { engine = 'node', engineVersion } = monitor as unknown as SuiteMonitor
    const chosen = chooseEngine(engine, engineVersion)
    // A version that does not exist never passes the schema; if it does, no agent has it.
    return [`engine:${typeof chosen === 'string' ? `${engine}@${engineVersion}` : chosen.engine}`]
  },
  analytics: { paths: ['playwright-checks'], unmeasured: ['TTFB', 'FCP', 'LCP', 'CLS', 'TBT'] },
})
