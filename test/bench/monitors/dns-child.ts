// One contender of the bench `dns`, in a separate process: runs `count` checks of a DNS monitor with a fixed
// concurrency on the name server at this port. `node dns-child.ts <cost|soak> <protocol> <port> <count>`.
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
/** Checks until memory must not grow any more. */
const SETTLED = 10_000

const [kind, protocol, port, count] = process.argv.slice(2)
const runner = createRunner({
  types: MONITOR_TYPES,
  clock: createClock(),
  workRoot: tmpdir(),
  scrubHeaders: [],
})
const monitor = Monitor.parse({
  id: 'bench',
  name: 'bench',
  checkType: 'DNS',
  request: {
    query: 'www.zone.example',
    recordType: 'A',
    nameServer: '127.0.0.1',
    port: Number(port),
    protocol,
    skipSSL: true,
  },
})
const locationContext = { location: 'bench', variables: [], dial: plainContext().dial, secrets: [] }
const { signal } = new AbortController()

/** The agent's whole path from a job to a scrubbed result. */
async function once(): Promise<void> {
  const result = await runner.run({ monitor, slot: Date.now() }, locationContext, signal)
  if (result.verdict !== 'passed') throw new Error(JSON.stringify(result.failures))
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
  ;(globalThis as { gc?: () => void }).gc?.()
  return {
    memoryMiB: Math.round(memoryMiBOf(process.pid).now),
    heapMiB: Math.round(process.memoryUsage().heapUsed / 2 ** 20),
    descriptors: readdirSync('/proc/self/fd').length,
  }
}

if (kind === 'soak') {
  await runMany(SETTLED)
  const before = resourcesNow()
  await runMany(Number(count) - SETTLED)
  process.stdout.write(`${JSON.stringify([before, resourcesNow()])}\n`)
} else {
  await runMany(WARM_UP)
  const before = process.cpuUsage()
  await runMany(Number(count))
  const { user, system } = process.cpuUsage(before)
  process.stdout.write(`${(user + system) / 1000}\n`)
}
