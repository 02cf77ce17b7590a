// Traces per CPU-second through a chain of three routers, against traceroute(8) on the same chain; memory and
// descriptors after 100,000 traces. The agent's figures include the whole path from a job to a scrubbed result.
import { execFile, execFileSync } from 'node:child_process'
import { promisify } from 'node:util'
import { createHopChain, SERVER, type HopChain } from '../../support/monitors/hop-chain.ts'
import { startMonitorProcess } from '../../support/monitors/monitor-process.ts'
import { median } from '../process-figures.ts'
import { markdownTable } from '../table.ts'
import type { Resources } from './contender.ts'

const ROUNDS = 5
const TRACES = 1000
/** Each trace of the peer is a process. */
const PEER_TRACES = 100
const SOAK_TRACES = 100_000
const PEER_FLAGS = { TCP: '-T -p 443', UDP: '-U -p 33434', ICMP: '-I' } as const

const run = promisify(execFile)
const child = new URL('traceroute-child.ts', import.meta.url).pathname

/** Prints traces per CPU-second, the median of the rounds, ratios by round, and memory after a long run. */
export async function benchTraceroute(): Promise<void> {
  using chain = createHopChain()
  await using server = await startMonitorProcess(chain.prefix('server'))
  await server.listen('tcp', '::', 443)
  const rows: (string | number)[][] = []
  for (const protocol of ['TCP', 'UDP', 'ICMP'] as const) {
    const rounds: { ours: Cost; peerMs: number }[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const ours = await costOf(chain, protocol)
      rounds.push({ ours, peerMs: peerCpuMs(chain, PEER_FLAGS[protocol]) / PEER_TRACES })
    }
    const ourMs = median(rounds.map(({ ours }) => ours.cpuMs / TRACES))
    const peerMs = median(rounds.map((one) => one.peerMs))
    const ratio = median(rounds.map(({ ours, peerMs: theirs }) => theirs / (ours.cpuMs / TRACES)))
    rows.push([
      protocol,
      Math.round(1000 / ourMs),
      Math.round(1000 / peerMs),
      `${ratio.toFixed(1)} ×`,
      `${median(rounds.map(({ ours }) => ours.medianMs)).toFixed(1)} ms`,
    ])
  }
  const head = [
    'protocol',
    'Vedette, traces per CPU-second',
    'traceroute(8)',
    'ratio',
    'one trace, 8 at a time',
  ]
  process.stdout.write(`${markdownTable([head, ...rows])}\n\n`)
  for (const protocol of ['UDP', 'TCP'] as const) {
    process.stdout.write(`${await soak(chain, protocol)}\n`)
  }
}

interface Cost {
  cpuMs: number
  medianMs: number
}

async function childSays<T>(chain: HopChain, flags: string[], args: string[]): Promise<T> {
  const [ip = '', ...prefix] = chain.prefix('client')
  const { stdout } = await run(ip, [...prefix, process.execPath, ...flags, child, ...args])
  return JSON.parse(stdout) as T
}

function costOf(chain: HopChain, protocol: string): Promise<Cost> {
  return childSays(chain, [], ['cost', protocol, SERVER.IPv4, String(TRACES)])
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

function shown({ memoryMiB, heapMiB, descriptors }: Resources): string {
  return `${memoryMiB} MiB resident, ${heapMiB} MiB of objects and ${descriptors} descriptors`
}

async function soak(chain: HopChain, protocol: string): Promise<string> {
  // In addition to the flags with which src/launch.js runs the agent.
  const flags = ['--max-semi-space-size=12', '--heap-growing-percent=30', '--expose-gc']
  const args = ['soak', protocol, SERVER.IPv4, String(SOAK_TRACES)]
  const [before, after] = await childSays<[Resources, Resources]>(chain, flags, args)
  return (
    `${SOAK_TRACES.toLocaleString('en')} traces with ${protocol}: ` +
    `${shown(before)} after the first tenth, ${shown(after)} at the end`
  )
}
