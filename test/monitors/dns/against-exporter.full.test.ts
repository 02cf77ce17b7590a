// Aim: on the same name servers a DNS check comes to the same verdict and the same numbers as blackbox_exporter,
// and where it does not, the row says why.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { dns } from '../../../src/monitors/dns/index.ts'
import { type Exporter, startExporter } from '../../support/monitors/blackbox-exporter.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { checkDns } from '../../support/monitors/dns/check-dns.ts'
import { startZoneServers } from '../../support/monitors/dns/dns-zones.ts'
import {
  type HostileNameServer,
  overUdp,
  rightAnswer,
  startHostileNameServer,
  withWord,
} from '../../support/monitors/dns/hostile-name-server.ts'
import { missing } from '../../support/needs.ts'

const authority = createAuthority()
const servers = await startZoneServers(authority)
const why = servers.why ?? missing('prometheus-blackbox-exporter')
const ANY_CODE = [{ source: 'RESPONSE_CODE', comparison: 'EQUALS', target: 'NXDOMAIN' }]

interface Case {
  /** The exporter's settings in addition to query_name, query_type and the address family. */
  theirs?: string
  ours?: object
  query: string
  type: string
  /** Whom to ask; unbound without it. */
  at?: 'dnsmasq' | 'tls' | 'closed' | 'spoofing' | 'garbled' | 'silent'
  passes: boolean
  /** What the exporter says, where it is something else. */
  exporterPasses?: boolean
  /** Metrics that are not the same, with what the exporter has. */
  differs?: Record<string, unknown>
}

const rcodes = 'valid_rcodes: [NXDOMAIN]'
const insecure =
  'dns_over_tls: true, transport_protocol: tcp, tls_config: { insecure_skip_verify: true }'
const cases: Record<string, Case> = {
  addresses: { query: 'www.zone.example', type: 'A', passes: true },
  'an IPv6 address': { query: 'www.zone.example', type: 'AAAA', passes: true },
  'an alias and what it leads to': { query: 'alias.zone.example', type: 'A', passes: true },
  'mail servers': { query: 'zone.example', type: 'MX', passes: true },
  'name servers': { query: 'zone.example', type: 'NS', passes: true },
  'a text': { query: 'zone.example', type: 'TXT', passes: true },
  'a service': { query: '_sip._tcp.zone.example', type: 'SRV', passes: true },
  'a web service': { query: 'zone.example', type: 'HTTPS', passes: true },
  'who may issue certificates': { query: 'zone.example', type: 'CAA', passes: true },
  'a reverse name': { query: '10.2.0.192.in-addr.arpa', type: 'PTR', passes: true },
  'the serial number of a zone': { query: 'zone.example', type: 'SOA', passes: true },
  'no record of the type': { query: 'www.zone.example', type: 'MX', passes: true },
  'a name that does not exist': { query: 'no.zone.example', type: 'A', passes: false },
  'a name that must not exist': {
    query: 'no.zone.example',
    type: 'A',
    theirs: rcodes,
    ours: { assertions: ANY_CODE },
    passes: true,
  },
  'a name that exists and must not': {
    query: 'www.zone.example',
    type: 'A',
    theirs: rcodes,
    ours: { assertions: ANY_CODE },
    passes: false,
  },
  'over TCP': {
    query: 'www.zone.example',
    type: 'A',
    theirs: 'transport_protocol: tcp',
    ours: { protocol: 'TCP' },
    passes: true,
  },
  'over TLS': {
    query: 'www.zone.example',
    type: 'A',
    theirs: insecure,
    ours: { protocol: 'DOT', skipSSL: true },
    at: 'tls',
    passes: true,
  },
  'over TLS, with a certificate that does not verify': {
    query: 'www.zone.example',
    type: 'A',
    theirs: 'dns_over_tls: true, transport_protocol: tcp',
    ours: { protocol: 'DOT' },
    at: 'tls',
    passes: false,
  },
  'a referral, without recursion': {
    query: 'host.below.zone.example',
    type: 'A',
    theirs: 'recursion_desired: false',
    ours: { recursionDesired: false },
    passes: true,
  },
  'what validates': { query: 'www.signed.example', type: 'A', passes: true },
  'what does not validate': { query: 'forged.signed.example', type: 'A', passes: false },
  'a server that refuses': { query: 'elsewhere.test', type: 'A', at: 'dnsmasq', passes: false },
  'nobody there': { query: 'zone.example', type: 'A', at: 'closed', passes: false },
  'a server that is silent': { query: 'www.zone.example', type: 'A', at: 'silent', passes: false },
  // Weaker: the exporter takes the part that came for the whole.
  'an answer that is too large for UDP': {
    query: 'big.zone.example',
    type: 'TXT',
    passes: true,
    differs: { probe_dns_answer_rrs: 0 },
  },
  'a spoofed answer before the right one': {
    query: 'www.zone.example',
    type: 'A',
    at: 'spoofing',
    passes: true,
  },
  // Weaker: the exporter does not mind that eight of nine records are missing.
  'an answer that is not whole': {
    query: 'www.zone.example',
    type: 'A',
    at: 'garbled',
    passes: false,
    exporterPasses: true,
    differs: { probe_dns_query_succeeded: 1, probe_dns_answer_rrs: 1 },
  },
}

const slug = (name: string) => name.replaceAll(/[^a-z]+/gi, '_')

let exporter: Exporter
let spoofing: HostileNameServer
let garbled: HostileNameServer
let silent: HostileNameServer

beforeAll(async () => {
  if (why !== undefined) return
  spoofing = await startHostileNameServer(
    overUdp((query) => [withWord(rightAnswer(query), 0, (id) => id ^ 1), rightAnswer(query)]),
  )
  garbled = await startHostileNameServer(
    overUdp((query) => withWord(rightAnswer(query), 6, () => 9)),
  )
  silent = await startHostileNameServer({})
  const modules = Object.entries(cases).map(([name, { query, type, theirs }]) => {
    const own = theirs === undefined ? '' : `, ${theirs}`
    const asked = `query_name: ${query}, query_type: ${type}, preferred_ip_protocol: ip4${own}`
    return `  ${slug(name)}: { prober: dns, timeout: 1s, dns: { ${asked} } }\n`
  })
  exporter = await startExporter(modules.join(''))
})

afterAll(async () => {
  await exporter?.close()
  for (const server of [spoofing, garbled, silent]) await server?.[Symbol.asyncDispose]()
})

const COMPARED = [
  'probe_dns_query_succeeded',
  'probe_dns_answer_rrs',
  'probe_dns_authority_rrs',
  'probe_dns_additional_rrs',
  'probe_dns_serial',
  'probe_ip_protocol',
]

function portOf(where: Case['at']): number {
  switch (where) {
    case 'dnsmasq':
      return servers.dnsmasq.port
    case 'tls':
      return servers.unbound.tlsPort
    case 'closed':
      return 1
    case 'spoofing':
      return spoofing.port
    case 'garbled':
      return garbled.port
    case 'silent':
      return silent.port
    case undefined:
    default:
      return servers.unbound.port
  }
}

describe.skipIf(why !== undefined)(`compared with blackbox_exporter ${why ?? ''}`, () => {
  test.each(Object.entries(cases))('%s', async (name, options) => {
    const {
      query,
      type: recordType,
      ours,
      at,
      passes,
      exporterPasses = passes,
      differs = {},
    } = options
    const port = portOf(at)
    const theirs = await exporter.measure(slug(name), `127.0.0.1:${port}`)
    const request = { query, recordType, nameServer: '127.0.0.1', port, ...ours }
    const { codes, observed } = await checkDns(request)
    expect(codes.length === 0).toBe(passes)
    expect(theirs.get('probe_success') === 1).toBe(exporterPasses)
    const samples = new Map(dns.samples({ ...observed }).map((one) => [one.name, one.value]))
    for (const metric of COMPARED) {
      expect([metric, theirs.get(metric)]).toEqual([metric, differs[metric] ?? samples.get(metric)])
    }
  })
})
