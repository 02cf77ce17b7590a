// SSL checks per CPU-second against a bare handshake in Node and blackbox_exporter's TCP prober with TLS, in turn on
// the same nginx; memory and descriptors after 100,000 checks.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startExporter } from '../../support/monitors/blackbox-exporter.ts'
import { createPki } from '../../support/network/certificates.ts'
import { startTlsNginx } from '../../support/network/nginx-tls.ts'
import { markdownTable } from '../table.ts'
import { compare, cpuMs, exporterCpuMs, soakText } from './contenders.ts'

const ROUNDS = 3
const CHECKS = 2000

/** Prints checks per CPU-second, the median of the rounds, ratios by round, and memory after a long run. */
export async function benchSsl(): Promise<void> {
  using pki = createPki()
  const { ca } = pki
  const folder = await mkdtemp(join(tmpdir(), 'vedette-bench-ssl-'))
  const caFile = join(folder, 'ca.pem')
  await writeFile(caFile, ca)
  const tls = `tls: true, tls_config: { ca_file: ${caFile} }`
  const exporter = await startExporter(
    `  tls: { prober: tcp, timeout: 5s, tcp: { preferred_ip_protocol: ip4, ${tls} } }\n`,
  )
  const monitor = (port: number) => ({
    checkType: 'SSL',
    request: { sslConfig: { hostname: 'localhost', port }, tls: { ca } },
  })
  const rows: (string | number)[][] = []
  let left = ''
  for (const version of ['TLSv1.2', 'TLSv1.3']) {
    for (const key of ['ec:P-256', 'rsa:2048']) {
      const nginx = await startTlsNginx(pki.issue({ key }), version)
      const { port } = nginx
      const contenders = [
        () => cpuMs({ bare: 'tls', port, ca }, CHECKS),
        () => cpuMs(monitor(port), CHECKS),
        () => exporterCpuMs(exporter, 'tls', `localhost:${port}`, CHECKS),
      ]
      const { perSecond, ratio } = await compare(contenders, CHECKS, ROUNDS)
      const figures = [perSecond(0), perSecond(1), perSecond(2)]
      rows.push([`${version}, ${key}`, ...figures, `${ratio(1, 2).toFixed(2)} ×`])
      if (rows.length === 4) left = await soakText('checks', monitor(port))
      await nginx.close()
    }
  }
  await exporter.close()
  await rm(folder, { recursive: true })
  const head = ['server', 'bare handshake in Node', 'Vedette SSL', 'blackbox_exporter', 'ratio']
  process.stdout.write(`checks per CPU-second:\n\n${markdownTable([head, ...rows])}\n\n${left}`)
}
