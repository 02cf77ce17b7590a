// Vedette's side of the bench `traceroute`, in a separate process and network: runs `count` traces with a fixed
// concurrency. `node traceroute-child.ts <cost|soak> <protocol> <address> <count>`.
import { cpuCostMs, soak, throughRunner } from './contender.ts'

const [kind, protocol, url, count] = process.argv.slice(2)
/** The agent's whole path. */
const trace = throughRunner({
  checkType: 'TRACEROUTE',
  request: { url, protocol, ipFamily: url?.includes(':') ? 'IPv6' : 'IPv4', ptrLookup: false },
})
const tookMs: number[] = []

async function once(): Promise<void> {
  const startedAt = performance.now()
  await trace()
  tookMs.push(performance.now() - startedAt)
}

async function cost(): Promise<{ cpuMs: number; medianMs: number }> {
  const cpuMs = await cpuCostMs(once, Number(count))
  const sorted = tookMs.slice(-Number(count)).toSorted((one, other) => one - other)
  return { cpuMs, medianMs: sorted[sorted.length >> 1] ?? Number.NaN }
}

process.stdout.write(JSON.stringify(await (kind === 'soak' ? soak(trace, Number(count)) : cost())))
