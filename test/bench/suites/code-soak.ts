// Leftovers of many runs of user code: suites, browser and multistep monitors, two at a time, in one agent; then
// its processes, descriptors, memory and folders, and those of the runs' users.
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { Descendants } from '../../../src/sandbox/supervisor/processes.ts'
import { type SandboxRunner, startSandboxRunner } from './sandbox-runs.ts'
import { memoryMiBOf } from '../process-figures.ts'
import { BENCH_TOOLS, makeSuiteBed } from './suite-project.ts'
import { markdownTable } from '../table.ts'

const RUNS = Number(process.env['BENCH_RUNS'] ?? 500)
const AT_ONCE = 2
const GROWTH_MIB_MAX = 40
/** The first of the users of runs, see suites-child.ts. */
const FIRST_USER = 64_300
const USERS = 16

/** Resources in use at one moment. */
export interface Resources {
  memoryMiB: number
  descriptors: number
  /** Below the agent: a supervisor that waits with its launcher, and nothing else. */
  processes: number
  /** All processes of the users of runs. */
  foreign: number
  /** In the folder of runs and in the system's temporary folders. */
  files: number
  cached: number
}

/** Prints the resources after a tenth of the runs and after all; fails where something is left over. */
export async function benchCodeSoak(): Promise<void> {
  const bed = await makeSuiteBed()
  const { folder, project } = bed
  await onlyOneTest(project)
  const kinds = definitions(project, bed.shop, bed.registry)
  const runner = startSandboxRunner(folder, BENCH_TOOLS)
  await runMany(runner, kinds, Math.ceil(RUNS / 10))
  const first = await resourcesNow(runner, folder)
  await runMany(runner, kinds, RUNS - Math.ceil(RUNS / 10))
  const last = await resourcesNow(runner, folder)
  await runner.close()
  await bed.close()
  const row = (name: string, one: Resources) => [name, ...Object.values(one).map(String)]
  const head = ['', 'MiB', 'descriptors', 'processes', 'of users of runs', 'files', 'cached']
  const rows = [row('after the first tenth', first), row(`after ${RUNS} runs`, last)]
  process.stdout.write(`${markdownTable([head, ...rows])}\n`)
  const isClean =
    last.foreign === 0 &&
    last.files === 0 &&
    last.processes <= first.processes &&
    last.descriptors <= first.descriptors &&
    last.cached <= first.cached &&
    last.memoryMiB - first.memoryMiB <= GROWTH_MIB_MAX
  if (isClean) return
  process.stderr.write('missed: something is left over\n')
  process.exitCode = 1
}

async function onlyOneTest(project: string): Promise<void> {
  const test = `import { test, expect } from '@playwright/test'
test('says hello', async ({ request }) => { expect((await request.get('/')).ok()).toBe(true) })\n`
  await rm(join(project, 'tests'), { recursive: true })
  await mkdir(join(project, 'tests'))
  await writeFile(join(project, 'tests/hello.spec.ts'), test)
}

function definitions(project: string, shop: string, registry: string): object[] {
  const environmentVariables = [
    { key: 'SHOP', value: shop },
    { key: 'npm_config_registry', value: registry },
  ]
  const page = `const { chromium } = require('playwright')
async function main() {
  const browser = await chromium.launch()
  await (await browser.newPage()).goto(process.env.SHOP)
  await browser.close()
}
main()\n`
  const steps = `import { test } from '@playwright/test'
test('asks', async ({ request }) => { await request.get(process.env.SHOP) })\n`
  const engine = { engine: 'node', engineVersion: '24' }
  return [
    { checkType: 'PLAYWRIGHT', codeBundlePath: project, ...engine },
    { checkType: 'BROWSER', script: page },
    { checkType: 'MULTI_STEP', script: steps },
    { checkType: 'BROWSER', script: page },
  ].map((one, at) => ({ id: `m${at}`, name: `m${at}`, ...one, environmentVariables }))
}

async function runMany(runner: SandboxRunner, kinds: readonly object[], many: number) {
  let left = many
  const worker = async () => {
    while (left-- > 0) {
      const { result } = await runner.run(kinds[left % kinds.length] as object)
      if (result.verdict !== 'passed') throw new Error(JSON.stringify(result).slice(0, 3000))
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
}

async function resourcesNow({ pid }: SandboxRunner, folder: string): Promise<Resources> {
  const work = await readdir(join(folder, 'work')).catch(() => [])
  const left = ['/tmp', '/dev/shm', '/var/tmp'].flatMap((at) => ownedIn(at))
  return {
    memoryMiB: Math.round(memoryMiBOf(pid).now),
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    processes: new Descendants(() => undefined, pid).look(true).length,
    foreign: readdirSync('/proc').filter((name) => isOfRuns(`/proc/${name}/status`)).length,
    files: work.length + left.length,
    cached: (await readdir(join(folder, 'cache/packages')).catch(() => [])).length,
  }
}

function isOfRuns(path: string): boolean {
  try {
    const user = Number(/^Uid:\s+(\d+)/m.exec(readFileSync(path, 'utf8'))?.[1])
    return user >= FIRST_USER && user < FIRST_USER + USERS
  } catch {
    return false
  }
}

function ownedIn(folder: string): string[] {
  return readdirSync(folder).filter((name) => {
    const user = statSync(join(folder, name), { throwIfNoEntry: false })?.uid ?? 0
    return user >= FIRST_USER && user < FIRST_USER + USERS
  })
}
