// Whether user code starves uptime monitors: one agent with several hundred URL monitors every 10 s, while two
// suites run all the time. Lateness is from a slot's instant to the start of its first attempt, suites included.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startNginx } from '../../support/network/nginx.ts'
import { checkRuns } from '../load-check.ts'
import { bucketGrowth, growth, quantile, scrape } from '../metrics-text.ts'
import { startProgram } from '../program.ts'
import { BENCH_TOOLS, makeSuiteBed } from './suite-project.ts'
import { markdownTable } from '../table.ts'

const MONITORS = 600
const SUITES = 4
const WARM_UP_MS = 30_000
const MEASURED_MS = 90_000
const EVERY_MS = 10_000
/** A suite takes half a minute at most; two run at a time. */
const SUITE_RUNS_MIN = 4
const P99_SECONDS_MAX = 0.05

/** Prints lateness and missed slots of URL monitors; fails where the 99th percentile is above its limit. */
export async function benchUptimeWithSuites(): Promise<void> {
  const bed = await makeSuiteBed()
  const { folder, shop } = bed
  const nginx = await startNginx()
  const file = join(folder, 'monitors.yaml')
  await writeFile(file, `monitors:\n${monitors(nginx.url, shop).join('\n')}\n`)
  const settings = {
    MONITORS_FILE: file,
    JOB_CONCURRENCY: '2',
    DATA_DIR: join(folder, 'data'),
    TOOLS_DIR: BENCH_TOOLS,
  }
  const agent = await startProgram('agent', 'AGENT_HEALTH_PORT', settings)
  await sleep(WARM_UP_MS)
  const before = await scrape(agent.url)
  await sleep(MEASURED_MS)
  const after = await scrape(agent.url)
  await agent.close()
  await nginx.close()
  await bed.close()
  const due = MONITORS * (MEASURED_MS / EVERY_MS)
  checkRuns(before, after, { checkType: 'URL', verdict: 'passed', runsMin: 0.99 * due })
  // Suites are due more often than they can run, so that two always do. One test fails by design.
  const suites = { checkType: 'PLAYWRIGHT', verdict: 'failed', runsMin: SUITE_RUNS_MIN } as const
  checkRuns(before, after, suites)
  printFigures(before, after)
}

function monitors(site: string, shop: string): string[] {
  const urls = Array.from(
    { length: MONITORS },
    (_, n) =>
      `  - {id: m${n}, name: monitor ${n}, type: URL, every: 10s, request: {url: "${site}/?n=${n}"}}`,
  )
  const suites = Array.from(
    { length: SUITES },
    (_, n) =>
      `  - {id: s${n}, name: suite ${n}, type: PLAYWRIGHT, every: 1m, codeBundlePath: ./shop-tests, installCommand: "", ` +
      `engine: node, engineVersion: "24", environmentVariables: [{key: SHOP, value: "${shop}"}]}`,
  )
  return [...urls, ...suites]
}

function printFigures(before: string, after: string): void {
  const lateness = bucketGrowth(before, after, 'vedette_slot_lateness_seconds_bucket')
  const runsOf = (type: string, verdict: string) =>
    growth(before, after, 'vedette_results_total', `type="${type}"`, `verdict="${verdict}"`)
  const rows = [
    ['figure', 'value'],
    ['results of URL monitors', runsOf('URL', 'passed')],
    ['suites that ended meanwhile', runsOf('PLAYWRIGHT', 'failed')],
    ['lateness p50', quantile(lateness, 0.5)],
    ['lateness p99', quantile(lateness, 0.99)],
  ]
  process.stdout.write(`${markdownTable(rows)}\n`)
  const all = lateness.at(-1)?.[1] ?? 0
  const within = lateness.findLast(([bound]) => bound <= P99_SECONDS_MAX)?.[1] ?? 0
  if (all > 0 && within >= 0.99 * all) return
  process.stderr.write(`missed: only ${within} of ${all} runs began within ${P99_SECONDS_MAX} s\n`)
  process.exitCode = 1
}
