// Traces per CPU-second through a chain of three routers, against traceroute(8) on the same chain; memory and
// descriptors after 100,000 traces.
import { execFileSync } from 'node:child_process'
import { createHopChain, SERVER, type HopChain } from '../../support/monitors/hop-chain.ts'
import { startMonitorProcess } from '../../support/monitors/monitor-process.ts'
import { median } from '../process-figures.ts'
import { markdownTable } from '../table.ts'
import { type Cost, inChild, soakText } from './contenders.ts'

const ROUNDS = 5
const TRACES = 1000
/** Each trace of the peer is a process. */
const PEER_TRACES = 100
const PEER_FLAGS = { TCP: '-T -p 443', UDP: '-U -p 33434', ICMP: '-I' } as const

const monitor = (protocol: string) => ({
  checkType: 'TRACEROUTE',
  request: { url: SERVER.IPv4, protocol, ptrLookup: false },
})

/** Prints traces per CPU-second, the median of the rounds, ratios by round, and memory after a long run. */
export async function benchTraceroute(): Promise<void> {
  using chain = createHopChain()
  await using server = await startMonitorProcess(chain.prefix('server'))
  await server.listen('tcp', '::', 443)
  const prefix = chain.prefix('client')
  const rows: (string | number)[][] = []
  for (const protocol of ['TCP', 'UDP', 'ICMP'] as const) {
    const rounds: { ourMs: number; peerMs: number; medianMs: number }[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const { cpuMs, medianMs } = await inChild<Cost>('cost', monitor(protocol), TRACES, prefix)
      const peerMs = peerCpuMs(chain, PEER_FLAGS[protocol]) / PEER_TRACES
      rounds.push({ ourMs: cpuMs / TRACES, peerMs, medianMs })
    }
    const middle = (of: (round: (typeof rounds)[number]) => number) => median(rounds.map(of))
    rows.push([
      protocol,
      Math.round(1000 / middle(({ ourMs }) => ourMs)),
      Math.round(1000 / middle(({ peerMs }) => peerMs)),
      `${middle(({ ourMs, peerMs }) => peerMs / ourMs).toFixed(1)} ×`,
      `${middle(({ medianMs }) => medianMs).toFixed(1)} ms`,
    ])
  }
  const peer = ['traceroute(8)', 'ratio', 'one trace, 8 at a time']
  const head = ['protocol', 'Vedette, traces per CPU-second', ...peer]
  process.stdout.write(`${markdownTable([head, ...rows])}\n\n`)
  for (const protocol of ['UDP', 'TCP']) {
    process.stdout.write(await soakText(`traces with ${protocol}`, monitor(protocol), prefix))
  }
}

/** CPU time of PEER_TRACES runs of traceroute(8), three probes a hop, without names. Milliseconds. */
function peerCpuMs(chain: HopChain, flags: string): number {
  const command = `traceroute -n -q 3 ${flags} ${SERVER.IPv4}`
  const loop = `i=0; while [ $i -lt ${PEER_TRACES} ]; do ${command}; i=$((i+1)); done; times`
  const [ip = '', ...prefix] = chain.prefix('client')
  const said = execFileSync(ip, [...prefix, 'sh', '-c', loop], { encoding: 'utf8' })
  const reached = said.match(new RegExp(`^ 4 +${SERVER.IPv4} `, 'gm'))?.length
  if (reached !== PEER_TRACES) throw new Error(`traceroute ${flags} reached ${reached ?? 0} times`)
  // The last line is about the children: user and system time, as 0m1.234s.
  const times = [...(said.trimEnd().split('\n').at(-1) ?? '').matchAll(/(\d+)m([\d.]+)s/g)]
  return times.reduce(
    (sum, [, minutes, seconds]) => sum + Number(minutes) * 60_000 + Number(seconds) * 1000,
    0,
  )
}
