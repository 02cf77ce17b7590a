// One agent that watches many hosts: 5,000 ICMP monitors every 10 s, each of another address of loopback, with
// one echo a run and with the default of ten, where 2,300 runs are in progress at any time.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { checkRuns } from '../load-check.ts'
import { bucketGrowth, growth, quantile, scrape } from '../metrics-text.ts'
import { cpuMsOf, memoryMiBOf } from '../process-figures.ts'
import { startProgram } from '../program.ts'
import { markdownTable } from '../table.ts'

const MONITORS = 5000
const EVERY_SECONDS = 10
const WARM_UP_MS = 15_000
const MEASURED_MS = 60_000
const CONCURRENCY = 4000
const DUE = (MONITORS * MEASURED_MS) / 1000 / EVERY_SECONDS

/** Prints results, losses, lateness, memory and CPU for both counts of echoes. */
export async function benchIcmpScale(): Promise<void> {
  const columns = [await measure(1), await measure(10)]
  const [first = []] = columns
  const rows = first.map(([figure = ''], at) => [
    figure,
    ...columns.map((column) => column[at]?.[1] ?? ''),
  ])
  process.stdout.write(`${markdownTable([['figure', 'one echo a run', 'ten'], ...rows])}\n`)
}

async function measure(pingCount: number): Promise<string[][]> {
  const folder = await mkdtemp(join(tmpdir(), 'vedette-bench-'))
  const file = join(folder, 'monitors.yaml')
  const monitors = Array.from(
    { length: MONITORS },
    (_, n) =>
      `  - {id: m${n}, name: monitor ${n}, type: ICMP, every: ${EVERY_SECONDS}s, request: {hostname: 127.1.${n >> 8}.${n & 255}, pingCount: ${pingCount}}}`,
  )
  await writeFile(file, `monitors:\n${monitors.join('\n')}\n`)
  const agent = await startProgram('agent', 'AGENT_HEALTH_PORT', {
    MONITORS_FILE: file,
    UPTIME_CONCURRENCY: String(CONCURRENCY),
  })
  await pause(WARM_UP_MS)
  const before = { metrics: await scrape(agent.url), cpuMs: cpuMsOf(agent.pid) }
  await pause(MEASURED_MS)
  const after = { metrics: await scrape(agent.url), cpuMs: cpuMsOf(agent.pid) }
  const memory = memoryMiBOf(agent.pid)
  await agent.close()
  await rm(folder, { recursive: true })
  checkRuns(before.metrics, after.metrics, 'passed', 0.99 * DUE)
  const grown = (name: string, label?: string) => growth(before.metrics, after.metrics, name, label)
  const lateness = bucketGrowth(
    before.metrics,
    after.metrics,
    'vedette_slot_lateness_seconds_bucket',
  )
  return [
    ['slots that were due', String(DUE)],
    ['results', String(grown('vedette_results_total'))],
    ['missed', String(grown('vedette_missed_total'))],
    ['lateness p50', quantile(lateness, 0.5)],
    ['lateness p99', quantile(lateness, 0.99)],
    ['memory', `${memory.now.toFixed(0)} MiB (peak ${memory.peak.toFixed(0)} MiB)`],
    ['CPU', `${((after.cpuMs - before.cpuMs) / MEASURED_MS).toFixed(2)} cores`],
  ]
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
