// Time and memory of a browser or multistep monitor against its script run bare, in turn: Node.js and Playwright of
// the same runtime, the same Chromium, the same site. The first run warms up and is not counted.
import { spawn } from 'node:child_process'
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findProgram } from '../../../src/scripts/chromium.ts'
import { openToolchains } from '../../../src/scripts/toolchains.ts'
import { Descendants } from '../../../src/sandbox/supervisor/processes.ts'
import { bareBrowsers, bareHome, bareUser, giveToBare } from './bare-user.ts'
import { type SandboxRunner, startSandboxRunner } from './sandbox-runs.ts'
import { median } from '../process-figures.ts'
import { BENCH_TOOLS, openShop } from './suite-project.ts'
import { markdownTable } from '../table.ts'

const RUNTIME = '2026.04'
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 9)
const MORE_MS_MAX = 200
const MEMORY_MIB_MAX = 1024
const LOOK_MS = 50

const body = `  await page.goto(process.env.SHOP)
  await page.getByRole('button', { name: 'buy ink' }).click()
  await page.getByText('1 items').waitFor()
  await page.getByRole('link', { name: 'about' }).click()
  await page.getByText('since 1912').waitFor()
`
const SCRIPTS = [
  {
    name: 'browser, plain script',
    checkType: 'BROWSER',
    script: `const { chromium } = require('playwright')
async function main() {
  const browser = await chromium.launch()
  const page = await browser.newPage()
${body}  await browser.close()
}
main()
`,
  },
  {
    name: 'browser, test',
    checkType: 'BROWSER',
    script: `import { test } from '@playwright/test'\ntest('buys', async ({ page }) => {\n${body}})\n`,
  },
  {
    name: 'multistep',
    checkType: 'MULTI_STEP',
    script: `import { test, expect } from '@playwright/test'
test('buys by the API', async ({ request }) => {
  for (const path of ['/api/items', '/api/basket?item=ink', '/api/token']) {
    await test.step(path, async () => {
      expect((await request.get(process.env.SHOP + path)).status()).toBe(200)
    })
  }
})
`,
  },
]
type Script = (typeof SCRIPTS)[number]

interface BrowserHost {
  folder: string
  runtime: string
  node: string
  browsers: string
  home: string
  shop: string
  runner: SandboxRunner
}

/** Prints times of both sides and the memory of Vedette's; fails where either is above its limit. */
export async function benchBrowser(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'vedette-bench-'))
  // Runs have users of their own, which need access.
  await chmod(folder, 0o755)
  const found = await openToolchains(BENCH_TOOLS).find('runtime', RUNTIME)
  if (found === undefined) throw new Error(`the bench needs: vedette runtime install ${RUNTIME}`)
  const shop = await openShop()
  const host = {
    folder,
    runtime: found.folder,
    node: found.program,
    browsers: await bareBrowsers(folder, join(found.folder, 'node_modules/playwright-core')),
    home: await bareHome(folder),
    shop: shop.url,
    runner: startSandboxRunner(folder, BENCH_TOOLS),
  }
  const missed: string[] = []
  const rows: (string | number)[][] = []
  for (const script of SCRIPTS) rows.push(await compare(script, host, missed))
  await host.runner.close()
  shop.close()
  await rm(folder, { recursive: true })
  const head = ['monitor', 'bare', 'Vedette', 'more', 'memory of all its processes, peak']
  process.stdout.write(`${markdownTable([head, ...rows])}\n`)
  for (const one of missed) process.stderr.write(`missed: ${one}\n`)
  if (missed.length > 0) process.exitCode = 1
}

async function compare(script: Script, host: BrowserHost, missed: string[]) {
  const bareRun = await layOutBare(script, host)
  const [bare, ours]: [number[], number[]] = [[], []]
  for (let round = 0; round <= ROUNDS; round++) {
    const pair = [await bareRun(), await runOurs(script, host)] as const
    if (round === 0) continue
    bare.push(pair[0])
    ours.push(pair[1])
    if (process.env['BENCH_SHOW'] !== undefined) process.stderr.write(`${pair.join(' ')}\n`)
  }
  // Measuring memory costs time and has a separate run.
  const memoryMiB = await peakMemoryMiB(host.runner.pid, () => runOurs(script, host))
  if (memoryMiB === 0) throw new Error(`the processes of ${script.name} were not found`)
  const moreMs = Math.round(median(ours.map((ms, at) => ms - (bare[at] ?? Number.NaN))))
  if (moreMs > MORE_MS_MAX) missed.push(`${script.name} takes ${moreMs} ms more`)
  if (memoryMiB > MEMORY_MIB_MAX) missed.push(`${script.name} takes ${memoryMiB} MiB`)
  const ms = (of: number[]) => `${Math.round(median(of))} ms`
  return [script.name, ms(bare), ms(ours), `${moreMs} ms`, `${memoryMiB} MiB`]
}

/** Writes the project that a user would put around the script; returns its run. */
async function layOutBare(script: Script, host: BrowserHost): Promise<() => Promise<number>> {
  const project = join(host.folder, script.name.replaceAll(/\W+/g, '-'))
  await mkdir(project)
  const isTest = script.script.includes('@playwright/test')
  const name = isTest ? 'script.spec.ts' : 'script.js'
  await writeFile(join(project, name), script.script)
  // Recorded by a monitor as well, for scripts that fail.
  const video = (await findProgram('ffmpeg')) === undefined ? 'off' : 'retain-on-failure'
  const use = { trace: 'retain-on-failure', screenshot: 'only-on-failure', video }
  const config = `module.exports = ${JSON.stringify({ workers: 1, reporter: 'line', use })}\n`
  await writeFile(join(project, 'playwright.config.js'), config)
  const modules = join(host.runtime, 'node_modules')
  await symlink(modules, join(project, 'node_modules'))
  await giveToBare(project)
  const args = isTest ? [join(modules, '@playwright/test/cli.js'), 'test'] : [name]
  return async () => {
    const began = performance.now()
    const child = spawn(host.node, args, {
      cwd: project,
      ...bareUser(),
      env: {
        PATH: '/usr/bin:/bin',
        HOME: host.home,
        SHOP: host.shop,
        PLAYWRIGHT_BROWSERS_PATH: host.browsers,
      },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    const code = await new Promise((resolve) => child.once('close', resolve))
    if (code !== 0) throw new Error(`${script.name} ended with ${String(code)}`)
    return performance.now() - began
  }
}

async function runOurs({ name, checkType, script }: Script, host: BrowserHost): Promise<number> {
  const { wallMs, result } = await host.runner.run({
    id: 'bench',
    name,
    checkType,
    script,
    runtimeId: RUNTIME,
    environmentVariables: [{ key: 'SHOP', value: host.shop }],
  })
  if (result.verdict !== 'passed') throw new Error(JSON.stringify(result).slice(0, 3000))
  return wallMs
}

/** Peak proportional set size of all descendants of the process. */
async function peakMemoryMiB(pid: number, run: () => Promise<unknown>): Promise<number> {
  const descendants = new Descendants(() => undefined, pid)
  let peak = 0
  const timer = setInterval(() => {
    const all = descendants.look(true).map((one) => pssKib(one.pid))
    peak = Math.max(
      peak,
      all.reduce((sum, kib) => sum + kib, 0),
    )
  }, LOOK_MS)
  await run()
  clearInterval(timer)
  return Math.round(peak / 1024)
}

function pssKib(pid: number): number {
  try {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
    return Number(/^Pss:\s+(\d+) kB/m.exec(text)?.[1] ?? 0)
  } catch {
    return 0
  }
}
