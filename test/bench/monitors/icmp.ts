// Echoes per CPU-second against blackbox_exporter, which sends one a probe; round-trip times against those of
// ping; memory and descriptors after 100,000 runs. All on loopback. The agent's figures include the whole path from
// a job to a scrubbed result; the exporter's include the answer to the scrape that asks for the probe.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { type Exporter, startExporter } from '../../support/monitors/blackbox-exporter.ts'
import { cpuMsOf, median } from '../process-figures.ts'
import { markdownTable } from '../table.ts'
import type { Resources } from './contender.ts'

const ROUNDS = 5
const ECHOES = 5000
const CONCURRENCY = 8
const TIMED = 100
const SOAK_RUNS = 100_000

const MODULES = `
  icmp: { prober: icmp, timeout: 5s, icmp: { preferred_ip_protocol: ip4 } }
`

/** The agent's own flags, see src/launch.js, and `gc` for the measurement of memory. */
const FLAGS = ['--max-semi-space-size=12', '--heap-growing-percent=30', '--expose-gc']

const run = promisify(execFile)
const child = new URL('icmp-child.ts', import.meta.url).pathname

/** Prints echoes per CPU-second (median of the rounds), median times against ping's, and memory after a long run. */
export async function benchIcmp(): Promise<void> {
  const exporter = await startExporter(MODULES)
  const contenders = [
    { name: 'blackbox_exporter', cpuMs: () => exporterCpuMs(exporter) },
    { name: 'Vedette, one echo a run', cpuMs: () => ours<number>('cost', ECHOES, 1) },
    { name: 'Vedette, ten echoes a run', cpuMs: () => ours<number>('cost', ECHOES / 10, 10) },
  ]
  const rounds: number[][] = []
  for (let round = 0; round < ROUNDS; round++) {
    const figures: number[] = []
    for (const contender of contenders) figures.push(await contender.cpuMs())
    rounds.push(figures)
  }
  await exporter.close()
  const rows = contenders.map(({ name }, index) => {
    const cpuOf = (cpu: number[]) => cpu[index] ?? Number.NaN
    const perSecond = median(rounds.map((cpu) => (ECHOES * 1000) / cpuOf(cpu)))
    const ratio = median(rounds.map((cpu) => (cpu[0] ?? Number.NaN) / cpuOf(cpu)))
    return [name, Math.round(perSecond), `${ratio.toFixed(1)} ×`]
  })
  const head = ['contender', 'echoes per CPU-second', 'of the exporter']
  process.stdout.write(`${markdownTable([head, ...rows])}\n\n`)
  process.stdout.write(`${await pingComparison()}\n\n`)
  const [before, after] = await ours<Resources[]>('soak', SOAK_RUNS)
  process.stdout.write(
    `${SOAK_RUNS.toLocaleString('en')} runs: ${resourcesText(before)} after the first tenth, ${resourcesText(after)} at the end\n`,
  )
}

function resourcesText(resourcesNow: Resources | undefined): string {
  return `${resourcesNow?.memoryMiB} MiB and ${resourcesNow?.descriptors} descriptors`
}

async function ours<T>(...args: (string | number)[]): Promise<T> {
  const { stdout } = await run(process.execPath, [...FLAGS, child, ...args.map(String)])
  return JSON.parse(stdout) as T
}

async function exporterCpuMs(exporter: Exporter): Promise<number> {
  const before = cpuMsOf(exporter.pid)
  let left = ECHOES
  const worker = async () => {
    while (left-- > 0) await exporter.probe('icmp', '127.0.0.1')
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
  return cpuMsOf(exporter.pid) - before
}

async function pingComparison(): Promise<string> {
  const { stdout } = await run('ping', ['-c', String(TIMED), '-i', '0.05', '127.0.0.1'])
  const theirs = [...stdout.matchAll(/time=([\d.]+) ms/g)].map((match) => Number(match[1]))
  if (theirs.length !== TIMED) throw new Error(`ping had ${theirs.length} answers of ${TIMED}`)
  const own = await ours<number[]>('times', TIMED)
  const rows = [
    ['round trip on loopback', `median of ${TIMED}`, 'shortest', 'longest'],
    ...[
      { name: 'ping', rtts: theirs },
      { name: 'Vedette', rtts: own },
    ].map(({ name, rtts }) => [
      name,
      `${median(rtts).toFixed(3)} ms`,
      `${Math.min(...rtts).toFixed(3)} ms`,
      `${Math.max(...rtts).toFixed(3)} ms`,
    ]),
  ]
  return markdownTable(rows)
}
