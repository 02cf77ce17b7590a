// SSL checks per CPU-second against a bare handshake in Node and blackbox_exporter's TCP prober with TLS, in turn on
// the same nginx; memory and descriptors after 100,000 checks. The agent's figures include the whole path from a job
// to a scrubbed result; the exporter's include the answer to the scrape that asks for the probe.
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Exporter, startExporter } from '../../support/monitors/blackbox-exporter.ts'
import { startTlsNginx } from '../../support/network/nginx-tls.ts'
import { createPki } from '../../support/network/certificates.ts'
import { cpuMsOf, median } from '../process-figures.ts'
import { markdownTable } from '../table.ts'
import type { Resources } from './contender.ts'

const ROUNDS = 3
const CHECKS = 2000
const CONCURRENCY = 8
const SOAK_CHECKS = 100_000
/** The agent's own flags, see src/launch.js. */
const FLAGS = ['--max-semi-space-size=12', '--heap-growing-percent=30']

const run = promisify(execFile)
const child = new URL('ssl-child.ts', import.meta.url).pathname

/** Prints checks per CPU-second, the median of the rounds, ratios by round, and memory after a long run. */
export async function benchSsl(): Promise<void> {
  using pki = createPki()
  const folder = await mkdtemp(join(tmpdir(), 'vedette-bench-ssl-'))
  const caFile = join(folder, 'ca.pem')
  await writeFile(caFile, pki.ca)
  const exporter = await startExporter(
    `  tls: { prober: tcp, timeout: 5s, tcp: { preferred_ip_protocol: ip4, tls: true, tls_config: { ca_file: ${caFile} } } }\n`,
  )
  const rows: (string | number)[][] = []
  let left = ''
  for (const version of ['TLSv1.2', 'TLSv1.3']) {
    for (const key of ['ec:P-256', 'rsa:2048']) {
      const nginx = await startTlsNginx(pki.issue({ key }), version)
      rows.push(await compared(`${version}, ${key}`, nginx.port, caFile, exporter))
      if (rows.length === 4) left = await soak(nginx.port, caFile)
      await nginx.close()
    }
  }
  await exporter.close()
  await rm(folder, { recursive: true })
  const head = ['server', 'bare handshake in Node', 'Vedette SSL', 'blackbox_exporter', 'ratio']
  process.stdout.write(`checks per CPU-second:\n\n${markdownTable([head, ...rows])}\n\n${left}\n`)
}

async function compared(
  name: string,
  port: number,
  caFile: string,
  exporter: Exporter,
): Promise<(string | number)[]> {
  const ask = async (kind: string) =>
    Number(
      (await run(process.execPath, [...FLAGS, child, kind, String(port), caFile, String(CHECKS)]))
        .stdout,
    )
  const rounds: number[][] = []
  for (let round = 0; round < ROUNDS; round++) {
    rounds.push([await ask('bare'), await ask('ssl'), await exporterCpuMs(exporter, port)])
  }
  const cpuMs = (at: number) => rounds.map((round) => round[at] as number)
  const perSecond = (at: number) => Math.round((CHECKS * 1000) / median(cpuMs(at)))
  const ratio = median(rounds.map(([, ours = 1, theirs = 0]) => theirs / ours))
  return [name, perSecond(0), perSecond(1), perSecond(2), `${ratio.toFixed(2)} ×`]
}

async function exporterCpuMs(exporter: Exporter, port: number): Promise<number> {
  const before = cpuMsOf(exporter.pid)
  let left = CHECKS
  const worker = async () => {
    while (left-- > 0) await exporter.probe('tls', `localhost:${port}`)
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
  return cpuMsOf(exporter.pid) - before
}

async function soak(port: number, caFile: string): Promise<string> {
  const args = [...FLAGS, '--expose-gc', child, 'soak', String(port), caFile, String(SOAK_CHECKS)]
  const { stdout } = await run(process.execPath, args)
  const [before, after] = JSON.parse(stdout) as [Resources, Resources]
  return (
    `${SOAK_CHECKS.toLocaleString('en')} checks: ${before.memoryMiB} MiB and ${before.descriptors} ` +
    `descriptors after the first tenth, ${after.memoryMiB} MiB and ${after.descriptors} at the end`
  )
}
