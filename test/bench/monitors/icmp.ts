// Echoes per CPU-second against blackbox_exporter, which sends one a probe; round-trip times against those of
// ping; memory and descriptors after 100,000 runs. All on loopback.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { startExporter } from '../../support/monitors/blackbox-exporter.ts'
import { median } from '../process-figures.ts'
import { markdownTable } from '../table.ts'
import { compare, cpuMs, exporterCpuMs, inChild, soakText } from './contenders.ts'

const ECHOES = 5000
const TIMED = 50

const MODULES = `
  icmp: { prober: icmp, timeout: 5s, icmp: { preferred_ip_protocol: ip4 } }
`

/** A monitor of loopback that fails with any lost echo. */
const monitor = (pingCount: number, intervalMs = 10) => ({
  checkType: 'ICMP',
  maxPacketLossThreshold: 0.1,
  degradedPacketLossThreshold: 0.1,
  request: { hostname: '127.0.0.1', pingCount, intervalMs },
})

/** Prints echoes per CPU-second (median of the rounds), median times against ping's, and memory after a long run. */
export async function benchIcmp(): Promise<void> {
  const exporter = await startExporter(MODULES)
  const contenders = {
    blackbox_exporter: () => exporterCpuMs(exporter, 'icmp', '127.0.0.1', ECHOES),
    'Vedette, one echo a run': () => cpuMs(monitor(1), ECHOES),
    'Vedette, ten echoes a run': () => cpuMs(monitor(10), ECHOES / 10),
  }
  const { perSecond, ratio } = await compare(Object.values(contenders), ECHOES)
  await exporter.close()
  const rows = Object.keys(contenders).map((name, at) => [
    name,
    perSecond(at),
    `${ratio(at, 0).toFixed(1)} ×`,
  ])
  const head = ['contender', 'echoes per CPU-second', 'of the exporter']
  process.stdout.write(`${markdownTable([head, ...rows])}\n\n`)
  process.stdout.write(`${await pingComparison()}\n\n`)
  process.stdout.write(await soakText('runs', monitor(1)))
}

async function pingComparison(): Promise<string> {
  const args = ['-c', String(TIMED), '-i', '0.05', '127.0.0.1']
  const { stdout } = await promisify(execFile)('ping', args)
  const theirs = [...stdout.matchAll(/time=([\d.]+) ms/g)].map((match) => Number(match[1]))
  if (theirs.length !== TIMED) throw new Error(`ping had ${theirs.length} answers of ${TIMED}`)
  const observe = inChild<{ pingResults: { rtt: number }[] }>('observe', monitor(TIMED, 50), 1)
  const ours = (await observe).pingResults.map(({ rtt }) => rtt)
  const row = (name: string, rtts: readonly number[]) => [
    name,
    ...[median(rtts), Math.min(...rtts), Math.max(...rtts)].map((ms) => `${ms.toFixed(3)} ms`),
  ]
  const head = ['round trip on loopback', `median of ${TIMED}`, 'shortest', 'longest']
  return markdownTable([head, row('ping', theirs), row('Vedette', ours)])
}
