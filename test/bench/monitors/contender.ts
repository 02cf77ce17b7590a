// What the contenders of the benches of monitors share: the agent's whole path, runs with a fixed concurrency, and
// their cost.
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

/** One check. */
export type Once = () => Promise<unknown>

/** The agent's whole path from a job to a scrubbed result, which must have passed. */
export function throughRunner(definition: Record<string, unknown>): () => Promise<Result> {
  const runner = createRunner({
    types: MONITOR_TYPES,
    clock: createClock(),
    workRoot: tmpdir(),
    scrubHeaders: [],
  })
  const monitor = Monitor.parse({ id: 'bench', name: 'bench', ...definition })
  const { dial } = plainContext()
  const locationContext = { location: 'bench', variables: [], dial, secrets: [] }
  const { signal } = new AbortController()
  return async () => {
    const result = await runner.run({ monitor, slot: Date.now() }, locationContext, signal)
    if (result.verdict !== 'passed') throw new Error(JSON.stringify(result.failures))
    return result
  }
}

async function runMany(once: Once, many: number): Promise<void> {
  let left = many
  const worker = async () => {
    while (left-- > 0) await once()
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
}

/** CPU time of `count` checks in milliseconds, after a warm-up. */
export async function cpuCostMs(once: Once, count: number): Promise<number> {
  await runMany(once, Math.min(WARM_UP, count))
  const before = process.cpuUsage()
  await runMany(once, count)
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}

/** Memory and descriptors after a garbage collection, which needs `--expose-gc`. */
export interface Resources {
  memoryMiB: number
  heapMiB: number
  descriptors: number
}

function resourcesNow(): Resources {
  globalThis.gc?.()
  return {
    memoryMiB: Math.round(memoryMiBOf(process.pid).now),
    heapMiB: Math.round(process.memoryUsage().heapUsed / 2 ** 20),
    descriptors: readdirSync('/proc/self/fd').length,
  }
}

/** Resources after a tenth of `count` checks, and at their end. */
export async function soak(once: Once, count: number): Promise<[Resources, Resources]> {
  await runMany(once, count / 10)
  const early = resourcesNow()
  await runMany(once, (count * 9) / 10)
  return [early, resourcesNow()]
}
