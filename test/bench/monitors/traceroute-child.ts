// Vedette's side of the bench `traceroute`, in a separate process and network: runs `count` traces with a fixed
// concurrency. `node traceroute-child.ts <cost|soak> <protocol> <address> <count>`.
import { readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import { createRunner } from '../../../src/agent/run/runner.ts'
import { Monitor } from '../../../src/contract/monitor.ts'
import { MONITOR_TYPES } from '../../../src/monitors/registry.ts'
import { plainContext } from '../plain-context.ts'
import { memoryMiBOf } from '../process-figures.ts'

const CONCURRENCY = 8
const WARM_UP = 500

const [kind, protocol, url, count] = process.argv.slice(2)
const runner = createRunner({
  types: MONITOR_TYPES,
  clock: createClock(),
  workRoot: tmpdir(),
  scrubHeaders: [],
})
const monitor = Monitor.parse({
  id: 'bench',
  name: 'bench',
  checkType: 'TRACEROUTE',
  request: { url, protocol, ipFamily: url?.includes(':') ? 'IPv6' : 'IPv4', ptrLookup: false },
})
const locationContext = { location: 'bench', variables: [], dial: plainContext().dial, secrets: [] }
const { signal } = new AbortController()
const tookMs: number[] = []

/** The agent's whole path from a job to a scrubbed result. */
async function once(): Promise<void> {
  const startedAt = performance.now()
  const result = await runner.run({ monitor, slot: Date.now() }, locationContext, signal)
  if (result.verdict !== 'passed') throw new Error(JSON.stringify(result))
  if (kind === 'cost') tookMs.push(performance.now() - startedAt)
}

async function runMany(many: number): Promise<void> {
  let left = many
  const worker = async () => {
    while (left-- > 0) await once()
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
}

/** Memory and descriptors after a garbage collection, which needs `--expose-gc`. */
function resourcesNow() {
  globalThis.gc?.()
  return {
    memoryMiB: Math.round(memoryMiBOf(process.pid).now),
    heapMiB: Math.round(process.memoryUsage().heapUsed / 2 ** 20),
    descriptors: readdirSync('/proc/self/fd').length,
  }
}

async function cost(): Promise<{ cpuMs: number; medianMs: number }> {
  await runMany(WARM_UP)
  tookMs.length = 0
  const before = process.cpuUsage()
  await runMany(Number(count))
  const { user, system } = process.cpuUsage(before)
  const sorted = tookMs.toSorted((one, other) => one - other)
  return { cpuMs: (user + system) / 1000, medianMs: sorted[sorted.length >> 1] ?? Number.NaN }
}

async function soak(): Promise<unknown> {
  await runMany(Number(count) / 10)
  const before = resourcesNow()
  await runMany(Number(count) - Number(count) / 10)
  return [before, resourcesNow()]
}

process.stdout.write(JSON.stringify(await (kind === 'soak' ? soak() : cost())))
