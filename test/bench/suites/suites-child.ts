// Vedette's side of the benches of user code, in a separate process: an agent's runner with its sandbox. It reads
// monitors as lines of JSON on standard input, runs them, and answers with a line for each result.
import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import { createRunner } from '../../../src/agent/run/runner.ts'
import { Monitor } from '../../../src/contract/monitor.ts'
import { createSandbox } from '../../../src/sandbox/sandbox.ts'
import type { SuiteMonitor } from '../../../src/monitors/suite/definition.ts'
import { MONITOR_TYPES } from '../../../src/monitors/registry.ts'
import type { ScriptHost } from '../../../src/scripts/host.ts'
import type { Context } from '../../../src/monitors/monitor.ts'
import { suite } from '../../../src/monitors/suite/index.ts'
import { runSuite } from '../../../src/suites/run.ts'
import { openToolchains } from '../../../src/scripts/toolchains.ts'
import type { ScriptContext } from '../../../src/scripts/context.ts'
import { plainContext } from '../plain-context.ts'

const [folder = '', tools = ''] = process.argv.slice(2)
const sandbox = createSandbox({
  network: { blocked: [], allowed: [] },
  isolation: 'best',
  firstUserId: 64_300,
})
const host: ScriptHost = {
  sandbox: () => Promise.resolve(sandbox),
  tools: openToolchains(tools),
  chromiumPath: undefined,
  cacheFolder: join(folder, 'cache'),
  close: () => sandbox.close(),
  ownProjects: true,
}

/** Monitor → output of its command. */
const outputs = new Map<string, string>()
const watched = {
  ...suite,
  prepare: (settled: unknown) => (context: Context) => {
    const monitor = settled as SuiteMonitor
    return runSuite(monitor, context as ScriptContext, host, {
      onOutput: (chunk) => {
        outputs.set(monitor.id, (outputs.get(monitor.id) ?? '') + chunk.toString())
      },
    })
  },
}
let staged = 0
const runner = createRunner({
  types: new Map([...MONITOR_TYPES, [suite.checkType, watched]]),
  clock: createClock(),
  workRoot: join(folder, 'work'),
  scrubHeaders: [],
  scripts: host,
  files: {
    bytesMax: () => 150 * 1_048_576,
    async stage(path, { name }) {
      const staging = join(folder, `staged-${++staged}-${name}`)
      await rename(path, staging)
      await rm(staging)
      return undefined
    },
  },
})

const { dial } = plainContext()
const locationContext = { location: 'bench', variables: [], dial, secrets: [] }
const { signal } = new AbortController()
async function answer(line: string): Promise<void> {
  const { number, definition } = JSON.parse(line) as { number: number; definition: object }
  const monitor = Monitor.parse(definition)
  outputs.delete(monitor.id)
  const askedAt = Date.now()
  const began = performance.now()
  const result = await runner.run({ monitor, slot: askedAt }, locationContext, signal)
  const wallMs = performance.now() - began
  const output = outputs.get(monitor.id) ?? ''
  process.stdout.write(`${JSON.stringify({ number, askedAt, wallMs, result, output })}\n`)
}

const running: Promise<void>[] = []
for await (const line of createInterface({ input: process.stdin })) running.push(answer(line))
await Promise.all(running)
host.close()
