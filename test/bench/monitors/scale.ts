// One agent under its specified load, scraped like by Prometheus: 10,000 URL monitors every 10 s against a local nginx,
// and 5,000 ICMP monitors every 10 s, each of another address of loopback, with one echo a run and with the default of
// ten, where 2,300 runs are in progress at any time. Lateness is from the slot's instant to the start of its first attempt.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { startNginx } from '../../support/network/nginx.ts'
import { checkRuns } from '../load-check.ts'
import { bucketGrowth, growth, quantile, scrape } from '../metrics-text.ts'
import { cpuMsOf, memoryMiBOf } from '../process-figures.ts'
import { startProgram } from '../program.ts'
import { markdownTable } from '../table.ts'

const EVERY_SECONDS = 10
const WARM_UP_MS = 15_000
const MEASURED_MS = 60_000
const SCRAPE_EVERY_MS = 15_000

/** Prints lateness, missed slots, memory and CPU with 10,000 URL monitors. */
export async function benchScale(): Promise<void> {
  const nginx = await startNginx()
  const figures = await measure(10_000, 'URL', (n) => {
    return `url: "${nginx.url}/?n=${n}", assertions: [STATUS_CODE EQUALS 200]`
  })
  await nginx.close()
  process.stdout.write(`${markdownTable([['figure', 'value'], ...figures])}\n`)
}

/** Prints the same with 5,000 ICMP monitors, for both counts of echoes. */
export async function benchIcmpScale(): Promise<void> {
  const [one, ten] = [await measureEchoes(1), await measureEchoes(10)]
  const rows = one.map(([figure = '', value = ''], at) => [figure, value, ten[at]?.[1] ?? ''])
  process.stdout.write(`${markdownTable([['figure', 'one echo a run', 'ten'], ...rows])}\n`)
}

const measureEchoes = (pingCount: number) =>
  measure(5000, 'ICMP', (n) => `hostname: 127.1.${n >> 8}.${n & 255}, pingCount: ${pingCount}`, {
    UPTIME_CONCURRENCY: '4000',
  })

/** Figures of an agent with so many monitors of a type. */
async function measure(
  count: number,
  type: string,
  requestOf: (n: number) => string,
  env: Record<string, string> = {},
): Promise<string[][]> {
  const folder = await mkdtemp(join(tmpdir(), 'vedette-bench-'))
  const file = join(folder, 'monitors.yaml')
  const monitors = Array.from(
    { length: count },
    (_, n) =>
      `  - {id: m${n}, name: monitor ${n}, type: ${type}, every: ${EVERY_SECONDS}s, request: {${requestOf(n)}}}`,
  )
  await writeFile(file, `monitors:\n${monitors.join('\n')}\n`)
  const agent = await startProgram('agent', 'AGENT_HEALTH_PORT', { MONITORS_FILE: file, ...env })
  await sleep(WARM_UP_MS)
  const before = { metrics: await scrape(agent.url), cpuMs: cpuMsOf(agent.pid) }
  // Scheduling delay of an idle process on this machine: the lower bound of lateness.
  const idle = monitorEventLoopDelay({ resolution: 1 })
  idle.enable()
  let scrapeMs = 0
  for (let waited = 0; waited < MEASURED_MS; waited += SCRAPE_EVERY_MS) {
    await sleep(SCRAPE_EVERY_MS)
    const began = performance.now()
    await scrape(agent.url)
    scrapeMs = Math.max(scrapeMs, performance.now() - began)
  }
  idle.disable()
  const after = { metrics: await scrape(agent.url), cpuMs: cpuMsOf(agent.pid) }
  const memory = memoryMiBOf(agent.pid)
  await agent.close()
  await rm(folder, { recursive: true })
  const due = (count * MEASURED_MS) / 1000 / EVERY_SECONDS
  checkRuns(before.metrics, after.metrics, { verdict: 'passed', runsMin: 0.99 * due })
  const grown = (name: string) => String(growth(before.metrics, after.metrics, name))
  const name = 'vedette_slot_lateness_seconds_bucket'
  const lateness = bucketGrowth(before.metrics, after.metrics, name)
  return [
    ['slots that were due', String(due)],
    ['results', grown('vedette_results_total')],
    ['missed', grown('vedette_missed_total')],
    ['lateness p50', quantile(lateness, 0.5)],
    ['lateness p99', quantile(lateness, 0.99)],
    ['lateness of a timer in an idle process, p99', `${(idle.percentile(99) / 1e6).toFixed(1)} ms`],
    ['memory', `${memory.now.toFixed(0)} MiB (peak ${memory.peak.toFixed(0)} MiB)`],
    ['CPU', `${((after.cpuMs - before.cpuMs) / MEASURED_MS).toFixed(2)} cores`],
    ['slowest scrape', `${Math.round(scrapeMs)} ms`],
  ]
}
