// Vedette's side of the bench `icmp`, in a separate process. `cost <runs> <echoes of each>` prints the cost of the
// runs, `times <echoes>` round-trip times of loopback, `soak <runs>` memory and descriptors.
import type { Result } from '../../../src/contract/result.ts'
import { cpuCostMs, soak, throughRunner } from './contender.ts'

/** The agent's whole path, without a lost echo. */
function ours(request: Record<string, unknown>): () => Promise<Result> {
  const once = throughRunner({ checkType: 'ICMP', request })
  return async () => {
    const result = await once()
    const { packetLoss } = result.observed
    if (packetLoss !== 0) throw new Error(`${String(packetLoss)} % of the echoes were lost`)
    return result
  }
}

async function times(echoes: number): Promise<number[]> {
  const pingCount = 50
  const once = ours({ hostname: '127.0.0.1', pingCount, intervalMs: 50 })
  const rttsMs: number[] = []
  while (rttsMs.length < echoes) {
    const { observed } = await once()
    for (const { rtt } of observed['pingResults'] as { rtt: number }[]) rttsMs.push(rtt)
  }
  return rttsMs.slice(0, echoes)
}

const [what, first = '0', second = '0'] = process.argv.slice(2)
const figures =
  what === 'cost'
    ? cpuCostMs(
        ours({ hostname: '127.0.0.1', pingCount: Number(second), intervalMs: 10 }),
        Number(first),
      )
    : what === 'times'
      ? times(Number(first))
      : soak(ours({ hostname: '127.0.0.1', pingCount: 1 }), Number(first))
process.stdout.write(JSON.stringify(await figures))
