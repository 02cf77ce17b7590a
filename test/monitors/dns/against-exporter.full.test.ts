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
  at?: 'unbound' | 'dnsmasq' | 'tls' | 'closed' | 'spoofing' | 'garbled' | 'silent'
  passes: boolean
  /** What the exporter says, where it is something else. */
  exporterPasses?: boolean
  /** Metrics that are not the same, with what the exporter has. */
  differs?: Record<string, unknown>
}

const theirCodes = 'valid_rcodes: [NXDOMAIN]'
const theirTls = 'dns_over_tls: true, transport_protocol: tcp'
const insecure = `${theirTls}, tls_config: { insecure_skip_verify: true }`
const www = { query: 'www.zone.example', type: 'A', passes: true }
const zone = (type: string) => ({ query: 'zone.example', type, passes: true })
const nameless = { theirs: theirCodes, ours: { assertions: ANY_CODE } }
const cases: Record<string, Case> = {
  addresses: www,
  'an IPv6 address': { ...www, type: 'AAAA' },
  'an alias and what it leads to': { ...www, query: 'alias.zone.example' },
  'mail servers': zone('MX'),
  'name servers': zone('NS'),
  'a text': zone('TXT'),
  'a service': { ...zone('SRV'), query: '_sip._tcp.zone.example' },
  'a web service': zone('HTTPS'),
  'who may issue certificates': zone('CAA'),
  'a reverse name': { query: '10.2.0.192.in-addr.arpa', type: 'PTR', passes: true },
  'the serial number of a zone': zone('SOA'),
  'no record of the type': { ...www, type: 'MX' },
  'a name that does not exist': { query: 'no.zone.example', type: 'A', passes: false },
  'a name that must not exist': { ...www, query: 'no.zone.example', ...nameless },
  'a name that exists and must not': { ...www, ...nameless, passes: false },
  'over TCP': { ...www, theirs: 'transport_protocol: tcp', ours: { protocol: 'TCP' } },
  'over TLS': { ...www, theirs: insecure, ours: { protocol: 'DOT', skipSSL: true }, at: 'tls' },
  'over TLS, with a certificate that does not verify': {
    ...www,
    theirs: theirTls,
    ours: { protocol: 'DOT' },
    at: 'tls',
    passes: false,
  },
  'a referral, without recursion': {
    ...www,
    query: 'host.below.zone.example',
    theirs: 'recursion_desired: false',
    ours: { recursionDesired: false },
  },
  'what validates': { ...www, query: 'www.signed.example' },
  'what does not validate': { query: 'forged.signed.example', type: 'A', passes: false },
  'a server that refuses': { query: 'elsewhere.test', type: 'A', at: 'dnsmasq', passes: false },
  'nobody there': { ...www, at: 'closed', passes: false },
  'a server that is silent': { ...www, at: 'silent', passes: false },
  // Weaker: the exporter takes the part that came for the whole.
  'an answer that is too large for UDP': {
    query: 'big.zone.example',
    type: 'TXT',
    passes: true,
    differs: { probe_dns_answer_rrs: 0 },
  },
  'a spoofed answer before the right one': { ...www, at: 'spoofing' },
  // Weaker: the exporter does not mind that eight of nine records are missing.
  'an answer that is not whole': {
    ...www,
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

const portOf = (where: Case['at'] = 'unbound') =>
  ({
    unbound: servers.unbound.port,
    dnsmasq: servers.dnsmasq.port,
    tls: servers.unbound.tlsPort,
    closed: 1,
    spoofing: spoofing.port,
    garbled: garbled.port,
    silent: silent.port,
  })[where]

describe.skipIf(why !== undefined)(`compared with blackbox_exporter ${why ?? ''}`, () => {
  test.each(Object.entries(cases))('%s', async (name, options) => {
    const { query, type: recordType, ours, passes, differs = {} } = options
    const { exporterPasses = passes } = options
    const port = portOf(options.at)
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
