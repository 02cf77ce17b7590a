// DNS checks per CPU-second against blackbox_exporter, in turn on the same unbound; memory and descriptors after
// 100,000 checks.
import { startExporter } from '../../support/monitors/blackbox-exporter.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { startUnbound } from '../../support/monitors/dns/unbound.ts'
import { markdownTable } from '../table.ts'
import { compare, cpuMs, exporterCpuMs, soakText } from './contenders.ts'

const CHECKS = 3000

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
  const query = { query: 'www.zone.example', recordType: 'A', nameServer: '127.0.0.1' }
  const monitor = (protocol: string, port: number) => ({
    checkType: 'DNS',
    request: { ...query, port, protocol, skipSSL: true },
  })
  const { port, tlsPort, httpsPort } = unbound
  const rows: (string | number)[][] = []
  for (const [protocol, own, count] of [
    ['UDP', port, CHECKS],
    ['TCP', port, CHECKS],
    ['DOT', tlsPort, CHECKS / 6],
    ['DOH', httpsPort, CHECKS / 6],
  ] as const) {
    const ours = () => cpuMs(monitor(protocol, own), count)
    const theirs = () => exporterCpuMs(exporter, protocol, `127.0.0.1:${own}`, count)
    const hasPeer = protocol !== 'DOH'
    const { perSecond, ratio } = await compare(hasPeer ? [ours, theirs] : [ours], count)
    const peer = hasPeer ? [perSecond(1), `${ratio(0, 1).toFixed(1)} ×`] : ['–', '–']
    rows.push([protocol, perSecond(0), ...peer])
  }
  await exporter.close()
  const head = ['protocol', 'Vedette, checks per CPU-second', 'blackbox_exporter', 'ratio']
  process.stdout.write(`${markdownTable([head, ...rows])}\n\n`)
  process.stdout.write(await soakText('checks over UDP', monitor('UDP', port)))
}
