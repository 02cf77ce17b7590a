// Vedette's side of the benches of people's code, in a process of its own: an agent's runner with its cage, which
// runs the monitor that a line of JSON on standard input describes, and answers with a line of what came of it.
import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { createClock } from '../../src/agent/clock.ts'
import { createRunner } from '../../src/agent/runner.ts'
import { Monitor } from '../../src/contract/monitor.ts'
import { createCage } from '../../src/monitors/cage.ts'
import type { SuiteMonitor } from '../../src/contract/suite-monitor.ts'
import { MONITOR_TYPES } from '../../src/monitors/registry.ts'
import type { ScriptGround } from '../../src/monitors/script-ground.ts'
import { suite } from '../../src/monitors/suite.ts'
import { runSuite } from '../../src/monitors/suite-run.ts'
import { openToolbox } from '../../src/monitors/toolbox.ts'
import { factsOf } from '../../src/monitors/warden-processes.ts'
import { plainContext } from './plain-context.ts'

const [folder = '', tools = ''] = process.argv.slice(2)
const cage = createCage({
  network: { blocked: [], allowed: [] },
  isolation: 'best',
  firstUserId: 64_300,
})
const ground: ScriptGround = {
  cage: () => Promise.resolve(cage),
  tools: openToolbox(tools),
  chromiumPath: undefined,
  cacheFolder: join(folder, 'cache'),
  close: () => cage.close(),
  ownProjects: true,
}

let output = ''
const watched = {
  ...suite,
  run: (settled: unknown, context: Parameters<typeof suite.run>[1]) =>
    runSuite(settled as SuiteMonitor, context, ground, {
      onOutput: (chunk) => void (output += chunk.toString()),
    }),
}
const runner = createRunner({
  types: new Map([...MONITOR_TYPES, [suite.checkType, watched]]),
  clock: createClock(),
  workRoot: join(folder, 'work'),
  scrubHeaders: [],
  scripts: ground,
  files: {
    bytesMax: () => 150 * 1_048_576,
    async stage(path, { name }) {
      const kept = join(folder, `kept-${name}`)
      await rename(path, kept)
      await rm(kept)
      return undefined
    },
  },
})

function cpuMsOfAll(): number {
  const { ownTicks = 0, childTicks = 0 } = factsOf(process.pid) ?? {}
  return 10 * (ownTicks + childTicks)
}

const { dial } = plainContext()
const surroundings = { location: 'bench', variables: [], dial, secrets: [] }
const { signal } = new AbortController()
for await (const line of createInterface({ input: process.stdin })) {
  output = ''
  const monitor = Monitor.parse(JSON.parse(line))
  const askedAt = Date.now()
  const began = performance.now()
  const before = cpuMsOfAll()
  const result = await runner.run({ monitor, slot: askedAt }, surroundings, signal)
  const wallMs = performance.now() - began
  const cpuMs = cpuMsOfAll() - before
  process.stdout.write(`${JSON.stringify({ askedAt, wallMs, cpuMs, result, output })}\n`)
}
ground.close()
