// DNS checks per CPU-second against blackbox_exporter, in turn on the same unbound; memory and descriptors after
// 100,000 checks. The agent's figures include the whole path from a job to a scrubbed result; the exporter's include
// the answer to the scrape that asks for the probe.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { type Exporter, startExporter } from '../../support/monitors/blackbox-exporter.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { startUnbound } from '../../support/monitors/dns/name-servers.ts'
import { cpuMsOf, median } from '../process-figures.ts'
import { markdownTable } from '../table.ts'
import type { Resources } from './contender.ts'

const ROUNDS = 5
const CHECKS = 3000
const CONCURRENCY = 8
const SOAK_CHECKS = 100_000

const run = promisify(execFile)
const child = new URL('dns-child.ts', import.meta.url).pathname

const ZONE = `
$ORIGIN zone.example.
@ 300 IN SOA ns admin 1 60 60 60 60
@ 300 IN NS ns
www 300 IN A 192.0.2.10
www 300 IN A 192.0.2.9
`
const ASKED = 'query_name: www.zone.example, query_type: A, preferred_ip_protocol: ip4'
const MODULES = `
  UDP: { prober: dns, timeout: 5s, dns: { ${ASKED} } }
  TCP: { prober: dns, timeout: 5s, dns: { ${ASKED}, transport_protocol: tcp } }
  DOT: { prober: dns, timeout: 5s, dns: { ${ASKED}, transport_protocol: tcp, dns_over_tls: true, tls_config: { insecure_skip_verify: true } } }
`

/** Prints checks per CPU-second, the median of the rounds, ratios by round, and memory after a long run. */
export async function benchDns(): Promise<void> {
  const zones = [{ name: 'zone.example', text: ZONE }]
  await using unbound = await startUnbound(zones, createAuthority().issue())
  const exporter = await startExporter(MODULES)
  const ports = {
    UDP: unbound.port,
    TCP: unbound.port,
    DOT: unbound.tlsPort,
    DOH: unbound.httpsPort,
  }
  const rows: (string | number)[][] = []
  for (const [protocol, port] of Object.entries(ports)) {
    const isPeer = protocol !== 'DOH'
    const checks = protocol === 'DOT' || protocol === 'DOH' ? CHECKS / 6 : CHECKS
    const rounds: { ours: number; theirs: number }[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const ours = await oursCpuMs(protocol, port, checks)
      const theirs = isPeer ? await exporterCpuMs(exporter, protocol, port, checks) : Number.NaN
      rounds.push({ ours, theirs })
    }
    const perSecond = (cpuMs: number[]) => Math.round((checks * 1000) / median(cpuMs))
    const ratio = median(rounds.map(({ ours, theirs }) => theirs / ours))
    rows.push([
      protocol,
      perSecond(rounds.map(({ ours }) => ours)),
      isPeer ? perSecond(rounds.map(({ theirs }) => theirs)) : '–',
      isPeer ? `${ratio.toFixed(1)} ×` : '–',
    ])
  }
  await exporter.close()
  const head = ['protocol', 'Vedette, checks per CPU-second', 'blackbox_exporter', 'ratio']
  process.stdout.write(`${markdownTable([head, ...rows])}\n\n`)
  process.stdout.write(`${await soak('UDP', unbound.port)}\n`)
}

async function oursCpuMs(protocol: string, port: number, checks: number): Promise<number> {
  const args = [child, 'cost', protocol, String(port), String(checks)]
  const { stdout } = await run(process.execPath, args)
  return Number(stdout)
}

async function exporterCpuMs(
  exporter: Exporter,
  module: string,
  port: number,
  checks: number,
): Promise<number> {
  const before = cpuMsOf(exporter.pid)
  let left = checks
  const worker = async () => {
    while (left-- > 0) await exporter.probe(module, `127.0.0.1:${port}`)
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
  return cpuMsOf(exporter.pid) - before
}

function shown({ memoryMiB, heapMiB, descriptors }: Resources): string {
  return `${memoryMiB} MiB resident, ${heapMiB} MiB of objects and ${descriptors} descriptors`
}

async function soak(protocol: string, port: number): Promise<string> {
  // In addition to the flags with which src/launch.js runs the agent.
  const flags = ['--max-semi-space-size=12', '--heap-growing-percent=30', '--expose-gc']
  const args = [...flags, child, 'soak', protocol, String(port), String(SOAK_CHECKS)]
  const { stdout } = await run(process.execPath, args)
  const [before, after] = JSON.parse(stdout) as [Resources, Resources]
  return (
    `${SOAK_CHECKS.toLocaleString('en')} checks over ${protocol}: ` +
    `${shown(before)} after the first tenth, ${shown(after)} at the end`
  )
}
