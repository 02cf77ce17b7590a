// Start time of an agent, and its memory when it is almost idle.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { median, memoryMiBOf } from './process-figures.ts'
import { startProgram } from './program.ts'
import { markdownTable } from './table.ts'

const STARTS = 10
const IDLE_MS = 10_000

/** Prints the median time to readiness over some starts, and resident memory after ten idle seconds. */
export async function benchStart(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'vedette-bench-'))
  const file = join(folder, 'monitors.yaml')
  await writeFile(
    file,
    `monitors:\n  - {name: one, type: TCP, every: 1h, request: {hostname: 127.0.0.1, port: 9}}\n`,
  )
  const readyMs: number[] = []
  let memory = { now: 0, peak: 0 }
  for (let start = 0; start < STARTS; start++) {
    const began = performance.now()
    const agent = await startProgram('agent', 'AGENT_HEALTH_PORT', { MONITORS_FILE: file })
    readyMs.push(performance.now() - began)
    if (start === STARTS - 1) {
      await new Promise((resolve) => setTimeout(resolve, IDLE_MS))
      memory = memoryMiBOf(agent.pid)
    }
    await agent.close()
  }
  await rm(folder, { recursive: true })
  const rows = [
    ['figure', 'value'],
    [`ready after (median of ${STARTS})`, `${Math.round(median(readyMs))} ms`],
    ['ready after (slowest)', `${Math.round(Math.max(...readyMs))} ms`],
    ['idle memory', `${memory.now.toFixed(0)} MiB (peak ${memory.peak.toFixed(0)} MiB)`],
  ]
  process.stdout.write(`${markdownTable(rows)}\n`)
}
