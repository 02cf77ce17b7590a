// gRPC checks per CPU-second, side by side with a bare node:http2 loop and with blackbox_exporter, in turn on
// the same server; then memory and descriptors over 100,000 health checks.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { type Exporter, startExporter } from '../../support/monitors/blackbox-exporter.ts'
import { startGrpcServer } from '../../support/monitors/grpc/grpc-server.ts'
import { cpuMsOf, median } from '../process-figures.ts'
import { markdownTable } from '../table.ts'
import type { Resources } from './contender.ts'

const ROUNDS = 3
const CHECKS = 2000
const CONCURRENCY = 8
const SOAK = 100_000

/** The agent's own flags, see src/launch.js. */
const FLAGS = ['--max-semi-space-size=12', '--heap-growing-percent=30']

const run = promisify(execFile)
const child = new URL('grpc-child.ts', import.meta.url).pathname

const MODULE = `
  grpc: { prober: grpc, timeout: 5s, grpc: { preferred_ip_protocol: ip4 } }
`

/** Prints checks per CPU-second, the median of the rounds, and memory after a long run. */
export async function benchGrpc(): Promise<void> {
  const server = await startGrpcServer()
  const exporter = await startExporter(MODULE)
  const ask = async (kind: string, count: number) =>
    (await run(process.execPath, [...FLAGS, child, kind, String(server.port), String(count)]))
      .stdout
  const contenders: [string, () => Promise<number>][] = [
    ['bare node:http2 loop', async () => Number(await ask('bare', CHECKS))],
    ['Vedette gRPC, health', async () => Number(await ask('health', CHECKS))],
    ['Vedette gRPC, a call by reflection', async () => Number(await ask('call', CHECKS))],
    ['blackbox_exporter grpc', () => exporterCpuMs(exporter, `127.0.0.1:${server.port}`)],
  ]
  const rounds: number[][] = []
  for (let round = 0; round < ROUNDS; round++) {
    const figures: number[] = []
    for (const [, cpuMs] of contenders) figures.push(await cpuMs())
    rounds.push(figures)
  }
  const rows = contenders.map(([name], index) => {
    const own = (cpu: readonly number[]) => cpu[index] ?? Number.NaN
    const ratioTo = (other: number) =>
      median(rounds.map((cpu) => (cpu.at(other) ?? Number.NaN) / own(cpu)))
    const perSecond = median(rounds.map((cpu) => (CHECKS * 1000) / own(cpu)))
    const ofBare = `${Math.round(ratioTo(0) * 100)} %`
    return [name, Math.round(perSecond), ofBare, `${ratioTo(-1).toFixed(1)} ×`]
  })
  const head = ['contender', 'checks per CPU-second', 'of the bare loop', 'of the exporter']
  process.stdout.write(`${markdownTable([head, ...rows])}\n\n`)
  await exporter.close()
  const [early, late] = JSON.parse(await ask('soak', SOAK)) as [Resources, Resources]
  await server.close()
  process.stdout.write(
    `${markdownTable([
      ['health checks', 'resident MiB', 'descriptors'],
      [SOAK / 10, early.memoryMiB, early.descriptors],
      [SOAK, late.memoryMiB, late.descriptors],
    ])}\n`,
  )
}

async function exporterCpuMs(exporter: Exporter, target: string): Promise<number> {
  const before = cpuMsOf(exporter.pid)
  let left = CHECKS
  const worker = async () => {
    while (left-- > 0) await exporter.probe('grpc', target)
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
  return cpuMsOf(exporter.pid) - before
}
