// Checks per CPU-second of a URL, an API and a TCP monitor, side by side with a bare loop and with
// blackbox_exporter, in turn on the same nginx. The agent's figures include the whole path from a job to
// a scrubbed result; the exporter's include the answer to the scrape that asks for the probe.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { startNginx } from '../../support/network/nginx.ts'
import { type Exporter, startExporter } from '../../support/monitors/blackbox-exporter.ts'
import { cpuMsOf, median } from '../process-figures.ts'
import { markdownTable } from '../table.ts'

const ROUNDS = 5
const CHECKS = 3000
const CONCURRENCY = 8

const run = promisify(execFile)
const child = new URL('checks-child.ts', import.meta.url).pathname

interface Contender {
  name: string
  /** The contender to compare with: the first of the same group. */
  group: 'http' | 'tcp'
  /** CPU time for so many checks. Milliseconds. */
  cpuMs(): Promise<number>
}

/** Prints checks per CPU-second, the median of the rounds, and ratios by round. */
export async function benchChecks(): Promise<void> {
  const nginx = await startNginx()
  const exporter = await startExporter()
  const ours = (kind: string, path: string) => async () => {
    const { stdout } = await run(process.execPath, [
      child,
      kind,
      `${nginx.url}${path}`,
      String(CHECKS),
    ])
    return Number(stdout)
  }
  const contenders: Contender[] = [
    { name: 'bare node:http loop', group: 'http', cpuMs: ours('bare-http', '/json') },
    { name: 'Vedette URL', group: 'http', cpuMs: ours('url', '/json') },
    { name: 'Vedette API, two assertions', group: 'http', cpuMs: ours('api', '/json') },
    {
      name: 'blackbox_exporter http',
      group: 'http',
      cpuMs: () => exporterCpuMs(exporter, 'http_2xx', `${nginx.url}/json`),
    },
    { name: 'bare node:net loop', group: 'tcp', cpuMs: ours('bare-tcp', '/') },
    { name: 'Vedette TCP', group: 'tcp', cpuMs: ours('tcp', '/') },
    {
      name: 'blackbox_exporter tcp',
      group: 'tcp',
      cpuMs: () => exporterCpuMs(exporter, 'tcp_connect', `127.0.0.1:${nginx.port}`),
    },
  ]
  const rounds: number[][] = []
  for (let round = 0; round < ROUNDS; round++) {
    const figures: number[] = []
    for (const contender of contenders) figures.push(await contender.cpuMs())
    rounds.push(figures)
  }
  await exporter.close()
  await nginx.close()
  const rows = contenders.map((contender, index) => {
    const bare = contenders.findIndex((one) => one.group === contender.group)
    const peer = contenders.findLastIndex((one) => one.group === contender.group)
    const ratioTo = (other: number) =>
      median(rounds.map((cpu) => (cpu[other] ?? Number.NaN) / (cpu[index] ?? Number.NaN)))
    const perSecond = median(rounds.map((cpu) => (CHECKS * 1000) / (cpu[index] ?? Number.NaN)))
    return [
      contender.name,
      Math.round(perSecond),
      `${Math.round(ratioTo(bare) * 100)} %`,
      `${ratioTo(peer).toFixed(1)} ×`,
    ]
  })
  const head = ['contender', 'checks per CPU-second', 'of the bare loop', 'of the exporter']
  process.stdout.write(`${markdownTable([head, ...rows])}\n`)
}

async function exporterCpuMs(exporter: Exporter, module: string, target: string): Promise<number> {
  const before = cpuMsOf(exporter.pid)
  let left = CHECKS
  const worker = async () => {
    while (left-- > 0) await exporter.probe(module, target)
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
  return cpuMsOf(exporter.pid) - before
}
