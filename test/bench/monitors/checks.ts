// Checks per CPU-second of a URL, an API and a TCP monitor, side by side with a bare loop and with
// blackbox_exporter, in turn on the same nginx.
import { startNginx } from '../../support/network/nginx.ts'
import { startExporter } from '../../support/monitors/blackbox-exporter.ts'
import { markdownTable } from '../table.ts'
import { compare, cpuMs, exporterCpuMs } from './contenders.ts'

const CHECKS = 3000

/** Prints checks per CPU-second, the median of the rounds, and ratios by round. */
export async function benchChecks(): Promise<void> {
  const nginx = await startNginx()
  const exporter = await startExporter()
  const url = `${nginx.url}/json`
  const bare = { port: nginx.port, ca: '' }
  const status = { source: 'STATUS_CODE', comparison: 'EQUALS', target: '200' }
  const json = { source: 'JSON_BODY', property: '$.status', comparison: 'EQUALS', target: 'ok' }
  const urlRequest = { url, assertions: [status] }
  const apiRequest = { method: 'GET', url, assertions: [status, json] }
  const tcpRequest = { hostname: '127.0.0.1', port: nginx.port }
  const tcpTarget = `127.0.0.1:${nginx.port}`
  // Each group from the bare loop to the exporter.
  const groups: Record<string, () => Promise<number>>[] = [
    {
      'bare node:http loop': () => cpuMs({ bare: 'http', ...bare }, CHECKS),
      'Vedette URL': () => cpuMs({ checkType: 'URL', request: urlRequest }, CHECKS),
      'Vedette API, two assertions': () => cpuMs({ checkType: 'API', request: apiRequest }, CHECKS),
      'blackbox_exporter http': () => exporterCpuMs(exporter, 'http_2xx', url, CHECKS),
    },
    {
      'bare node:net loop': () => cpuMs({ bare: 'tcp', ...bare }, CHECKS),
      'Vedette TCP': () => cpuMs({ checkType: 'TCP', request: tcpRequest }, CHECKS),
      'blackbox_exporter tcp': () => exporterCpuMs(exporter, 'tcp_connect', tcpTarget, CHECKS),
    },
  ]
  const rows: (string | number)[][] = []
  for (const group of groups) {
    const { perSecond, ratio } = await compare(Object.values(group), CHECKS)
    for (const [at, name] of Object.keys(group).entries()) {
      const ofBare = `${Math.round(ratio(at, 0) * 100)} %`
      rows.push([name, perSecond(at), ofBare, `${ratio(at, -1).toFixed(1)} ×`])
    }
  }
  await exporter.close()
  await nginx.close()
  const head = ['contender', 'checks per CPU-second', 'of the bare loop', 'of the exporter']
  process.stdout.write(`${markdownTable([head, ...rows])}\n`)
}
