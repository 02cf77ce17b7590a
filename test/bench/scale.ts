// One agent under its specified load: 10,000 URL monitors every 10 s against a local nginx, scraped like by
// Prometheus. Lateness is from the slot's instant to the start of its first attempt.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { startNginx } from '../support/network/nginx.ts'
import { checkRuns } from './load-check.ts'
import { bucketGrowth, growth, quantile, scrape } from './metrics-text.ts'
import { cpuMsOf, memoryMiBOf } from './process-figures.ts'
import { startAgent } from './start.ts'
import { markdownTable } from './table.ts'

const MONITORS = 10_000
const EVERY_SECONDS = 10
const WARM_UP_MS = 12_000
const MEASURED_MS = 60_000
const SCRAPE_EVERY_MS = 15_000
const PASSED_MIN = (0.99 * MONITORS * MEASURED_MS) / 1000 / EVERY_SECONDS

/** Prints lateness, missed slots, memory and CPU of one agent with many monitors. */
export async function benchScale(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'vedette-bench-'))
  const nginx = await startNginx()
  const file = join(folder, 'monitors.yaml')
  const monitors = Array.from(
    { length: MONITORS },
    (_, n) =>
      `  - {id: m${n}, name: monitor ${n}, type: URL, every: ${EVERY_SECONDS}s, request: {url: "${nginx.url}/?n=${n}", assertions: [STATUS_CODE EQUALS 200]}}`,
  )
  await writeFile(file, `monitors:\n${monitors.join('\n')}\n`)
  const agent = await startAgent(file)
  await pause(WARM_UP_MS)
  const before = { metrics: await scrape(agent.url), cpuMs: cpuMsOf(agent.pid) }
  // Scheduling delay of an idle process on this machine: the lower bound of lateness.
  const idle = monitorEventLoopDelay({ resolution: 1 })
  idle.enable()
  let scrapeMs = 0
  for (let waited = 0; waited < MEASURED_MS; waited += SCRAPE_EVERY_MS) {
    await pause(SCRAPE_EVERY_MS)
    const began = performance.now()
    await scrape(agent.url)
    scrapeMs = Math.max(scrapeMs, performance.now() - began)
  }
  idle.disable()
  const after = { metrics: await scrape(agent.url), cpuMs: cpuMsOf(agent.pid) }
  const memory = memoryMiBOf(agent.pid)
  await agent.close()
  await nginx.close()
  await rm(folder, { recursive: true })
  checkRuns(before.metrics, after.metrics, 'passed', PASSED_MIN)
  const lateness = bucketGrowth(
    before.metrics,
    after.metrics,
    'vedette_slot_lateness_seconds_bucket',
  )
  const results = growth(before.metrics, after.metrics, 'vedette_results_total')
  const rows = [
    ['figure', 'value'],
    ['results', results],
    ['missed', growth(before.metrics, after.metrics, 'vedette_missed_total')],
    ['lateness p50', quantile(lateness, 0.5)],
    ['lateness p99', quantile(lateness, 0.99)],
    ['lateness of a timer in an idle process, p99', `${(idle.percentile(99) / 1e6).toFixed(1)} ms`],
    ['memory', `${memory.now.toFixed(0)} MiB (peak ${memory.peak.toFixed(0)} MiB)`],
    ['CPU', `${((after.cpuMs - before.cpuMs) / MEASURED_MS).toFixed(2)} cores`],
    ['slowest scrape', `${Math.round(scrapeMs)} ms`],
  ]
  process.stdout.write(`${markdownTable(rows)}\n`)
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
