// A real suite, run by Vedette and bare, in turn on the same engine, machine and site: outcomes of each test, total
// time, and time to the first test. The first run fills the caches and is not counted.
import { spawn } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { deepStrictEqual } from 'node:assert/strict'
import { findProgram } from '../../../src/scripts/chromium.ts'
import { openToolchains } from '../../../src/scripts/toolchains.ts'
import { type SandboxRunner, startSandboxRunner } from './sandbox-runs.ts'
import { median } from '../process-figures.ts'
import { BENCH_TOOLS, checkOutcomes, makeSuiteBed, reportOf } from './suite-project.ts'
import { bareBrowsers, bareHome, bareUser, giveToBare } from './bare-user.ts'
import { markdownTable } from '../table.ts'

const ENGINES = (process.env['BENCH_ENGINES'] ?? 'node@22 node@24 node@26 bun@1.3').split(' ')
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 7)
const WALL_SHARE_MAX = 1.1
const START_MS_MAX = 300

/** One run of the suite. */
interface Timed {
  wallMs: number
  startMs: number
  outcomes: string[]
}

interface SuiteHost {
  project: string
  browsers: string
  shop: string
  registry: string
  hasVideo: boolean
  runner: SandboxRunner
  /** Of the bare runs. */
  home: string
}

/** Prints both sides by engine; fails when Vedette's run takes too long or has other outcomes. */
export async function benchSuites(): Promise<void> {
  const bed = await makeSuiteBed()
  const { folder, project, shop, registry } = bed
  await giveToBare(project)
  const runner = startSandboxRunner(folder, BENCH_TOOLS)
  const hasVideo = (await findProgram('ffmpeg')) !== undefined
  const browsers = await bareBrowsers(folder, join(project, 'node_modules/playwright-core'))
  const host = {
    project,
    browsers,
    shop,
    registry,
    hasVideo,
    runner,
    home: await bareHome(folder),
  }
  const rows: (string | number)[][] = []
  const missed: string[] = []
  for (const engine of ENGINES) rows.push(await compare(engine, host, missed))
  await runner.close()
  await bed.close()
  const head = ['engine', 'bare', 'Vedette', 'of bare', 'first test, bare', 'Vedette', 'later by']
  process.stdout.write(`${markdownTable([head, ...rows])}\n`)
  process.stdout.write(hasVideo ? '' : 'without videos: there is no ffmpeg\n')
  for (const one of missed) process.stderr.write(`missed: ${one}\n`)
  if (missed.length > 0) process.exitCode = 1
}

async function compare(engine: string, host: SuiteHost, missed: string[]) {
  const [bare, ours]: [Timed[], Timed[]] = [[], []]
  for (let round = 0; round <= ROUNDS; round++) {
    const pair = [await runBare(engine, host), await runOurs(engine, host)] as const
    checkOutcomes(pair[0].outcomes)
    deepStrictEqual(pair[1].outcomes, pair[0].outcomes)
    // Packages and compiled code are cached from the second run on.
    if (round === 0) continue
    bare.push(pair[0])
    ours.push(pair[1])
    process.stderr.write(`${engine}: ${round} of ${ROUNDS}\n`)
  }
  const share = median(ours.map(({ wallMs }, at) => wallMs / (bare[at]?.wallMs ?? Number.NaN)))
  const laterMs = median(ours.map(({ startMs }, at) => startMs - (bare[at]?.startMs ?? Number.NaN)))
  if (share > WALL_SHARE_MAX) missed.push(`${engine} takes ${share.toFixed(2)} of bare`)
  if (laterMs > START_MS_MAX) missed.push(`${engine} begins ${Math.round(laterMs)} ms later`)
  const seconds = (runs: Timed[]) =>
    `${(median(runs.map((one) => one.wallMs)) / 1000).toFixed(2)} s`
  const start = (runs: Timed[]) => `${Math.round(median(runs.map((one) => one.startMs)))} ms`
  const percent = `${Math.round(share * 100)} %`
  const later = `${Math.round(laterMs)} ms`
  return [engine, seconds(bare), seconds(ours), percent, start(bare), start(ours), later]
}

async function runBare(engine: string, host: SuiteHost): Promise<Timed> {
  const { project, browsers } = host
  for (const name of ['test-results', 'playwright-report']) {
    await rm(join(project, name), { recursive: true, force: true })
  }
  const found = await openToolchains(BENCH_TOOLS).find('engine', engine)
  if (found === undefined) throw new Error(`the bench needs: vedette engine install ${engine}`)
  const isBun = engine.startsWith('bun')
  const command = isBun ? found.program : 'npx'
  const args = [...(isBun ? ['x', '--bun'] : []), 'playwright', 'test']
  const askedAt = Date.now()
  const began = performance.now()
  const child = spawn(command, args, {
    cwd: project,
    // Without root's priority, like a user and like Vedette.
    ...bareUser(),
    env: {
      PATH: `${dirname(found.program)}:/usr/local/bin:/usr/bin:/bin`,
      HOME: host.home,
      PLAYWRIGHT_BROWSERS_PATH: browsers,
      CI: '1',
      ...environmentOf(host),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => void (output += chunk.toString()))
  }
  await new Promise((resolve) => child.once('close', resolve))
  const wallMs = performance.now() - began
  const { beganAt, outcomes } = reportOf(output)
  return { wallMs, startMs: beganAt - askedAt, outcomes }
}

function environmentOf({ shop, registry, hasVideo }: SuiteHost): Record<string, string> {
  return { SHOP: shop, WITH_VIDEO: hasVideo ? '1' : '0', npm_config_registry: registry }
}

async function runOurs(engine: string, host: SuiteHost): Promise<Timed> {
  const [name, engineVersion] = engine.split('@')
  const { askedAt, wallMs, result, output } = await host.runner.run({
    id: 'bench',
    name: 'Shop',
    checkType: 'PLAYWRIGHT',
    codeBundlePath: host.project,
    engine: name,
    engineVersion,
    environmentVariables: Object.entries(environmentOf(host)).map(([key, value]) => ({
      key,
      value,
    })),
  })
  if (result.verdict !== 'failed') throw new Error(JSON.stringify(result).slice(0, 3000))
  const { beganAt, outcomes } = reportOf(output)
  return { wallMs, startMs: beganAt - askedAt, outcomes }
}
