// Vedette's side of the bench `icmp`, in a separate process. `cost <runs> <echoes of each>` prints the cost of the
// runs, `times <echoes>` round-trip times of loopback, `soak <runs>` memory and descriptors.
import { readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import { createRunner } from '../../../src/agent/run/runner.ts'
import { Monitor } from '../../../src/contract/monitor.ts'
import type { Result } from '../../../src/contract/result.ts'
import { MONITOR_TYPES } from '../../../src/monitors/registry.ts'
import { plainContext } from '../plain-context.ts'
import { memoryMiBOf } from '../process-figures.ts'

const CONCURRENCY = 8
const WARM_UP = 500

/** The agent's whole path from a job to a scrubbed result. */
function throughRunner(request: Record<string, unknown>): () => Promise<Result> {
  const runner = createRunner({
    types: MONITOR_TYPES,
    clock: createClock(),
    workRoot: tmpdir(),
    scrubHeaders: [],
  })
  const monitor = Monitor.parse({ id: 'bench', name: 'bench', checkType: 'ICMP', request })
  const locationContext = {
    location: 'bench',
    variables: [],
    dial: plainContext().dial,
    secrets: [],
  }
  const { signal } = new AbortController()
  return async () => {
    const result = await runner.run({ monitor, slot: Date.now() }, locationContext, signal)
    if (result.verdict !== 'passed') throw new Error(JSON.stringify(result.failures))
    const { packetLoss } = result.observed
    if (packetLoss !== 0) throw new Error(`${String(packetLoss)} % of the echoes were lost`)
    return result
  }
}

async function runMany(once: () => Promise<unknown>, many: number): Promise<void> {
  let left = many
  const worker = async () => {
    while (left-- > 0) await once()
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
}

async function cost(runs: number, pingCount: number): Promise<number> {
  const once = throughRunner({ hostname: '127.0.0.1', pingCount, intervalMs: 10 })
  await runMany(once, Math.min(WARM_UP, runs))
  const before = process.cpuUsage()
  await runMany(once, runs)
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}

async function times(echoes: number): Promise<number[]> {
  const pingCount = 50
  const once = throughRunner({ hostname: '127.0.0.1', pingCount, intervalMs: 50 })
  const rttsMs: number[] = []
  while (rttsMs.length < echoes) {
    const { observed } = await once()
    for (const { rtt } of observed['pingResults'] as { rtt: number }[]) rttsMs.push(rtt)
  }
  return rttsMs.slice(0, echoes)
}

function resourcesNow() {
  globalThis.gc?.()
  return {
    memoryMiB: Math.round(memoryMiBOf(process.pid).now),
    descriptors: readdirSync('/proc/self/fd').length,
  }
}

async function soak(runs: number): Promise<unknown> {
  const once = throughRunner({ hostname: '127.0.0.1', pingCount: 1 })
  await runMany(once, runs / 10)
  const before = resourcesNow()
  await runMany(once, runs - runs / 10)
  return [before, resourcesNow()]
}

const [what, first = '0', second = '0'] = process.argv.slice(2)
const figures =
  what === 'cost'
    ? cost(Number(first), Number(second))
    : what === 'times'
      ? times(Number(first))
      : soak(Number(first))
process.stdout.write(JSON.stringify(await figures))
