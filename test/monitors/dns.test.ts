// Aim: a DNS check tells what real name servers answer, over every protocol and for every type, with its
// flags, sections and times; and judges it by codes and assertions as its definition says.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { DnsRecord } from '../../src/monitors/dns-message.ts'
import { dns } from '../../src/monitors/dns.ts'
import { createAuthority } from '../support/certificates.ts'
import { checkDns, systemServers } from '../support/check-dns.ts'
import { fixedResolver } from '../support/monitor-context.ts'
import {
  startDnsmasq,
  startUnbound,
  type NameServer,
  type Unbound,
} from '../support/name-servers.ts'
import { missing } from '../support/needs.ts'
import { signedZone } from '../support/signed-zone.ts'

const ZONE = `
$ORIGIN zone.example.
$TTL 300
@        IN SOA ns1 admin.zone.example. 2026112101 7200 3600 1209600 60
@        IN NS ns1
@        IN NS ns2
@        IN MX 10 mail
@        IN MX 5 mail2
@        IN TXT "v=spf1 -all"
@        IN CAA 0 issue "ca.example"
@        IN HTTPS 1 . alpn=h2,h3 ipv4hint=192.0.2.7
ns1      IN A 192.0.2.1
ns2      IN A 192.0.2.2
mail     IN A 192.0.2.3
mail2    IN A 192.0.2.4
www  60  IN A 192.0.2.10
www  60  IN A 192.0.2.9
www 300  IN AAAA 2001:db8::1
alias    IN CNAME www
_sip._tcp IN SRV 1 2 5060 mail
two      IN TXT "one " "two"
\\046dot  IN A 192.0.2.20
below    IN NS ns.below
ns.below IN A 192.0.2.40
ns.below IN AAAA 2001:db8::40
odd      IN TYPE65300 \\# 3 abcdef
${Array.from({ length: 40 }, (_, at) => `big IN TXT "record ${at} ${'x'.repeat(60)}"`).join('\n')}
`
const REVERSE = `
$ORIGIN 2.0.192.in-addr.arpa.
@ 300 IN SOA ns1.zone.example. admin.zone.example. 1 60 60 60 60
@ 300 IN NS ns1.zone.example.
10 300 IN PTR www.zone.example.
`
const REVERSE6 = `
$ORIGIN 8.b.d.0.1.0.0.2.ip6.arpa.
@ 300 IN SOA ns1.zone.example. admin.zone.example. 1 60 60 60 60
@ 300 IN NS ns1.zone.example.
1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0 300 IN PTR www.zone.example.
`

const why = missing('unbound', 'dnsmasq', 'openssl')
const authority = createAuthority()
let unbound: Unbound
let dnsmasq: NameServer

beforeAll(async () => {
  if (why !== undefined) return
  const zones = [
    { name: 'zone.example', text: ZONE },
    { name: '2.0.192.in-addr.arpa', text: REVERSE },
    { name: '8.b.d.0.1.0.0.2.ip6.arpa', text: REVERSE6 },
    signedZone('signed.example', { www: '192.0.2.30', forged: '192.0.2.31' }),
  ]
  unbound = await startUnbound(zones, authority.issue())
  dnsmasq = await startDnsmasq([
    'host-record=www.zone.example,192.0.2.10,2001:db8::1',
    'mx-host=zone.example,mail.zone.example,10',
    'txt-record=zone.example,v=spf1 -all',
    'srv-host=_sip._tcp.zone.example,mail.zone.example,5060,1,2',
    'caa-record=zone.example,0,issue,ca.example',
    'cname=alias.zone.example,www.zone.example',
    'ptr-record=10.2.0.192.in-addr.arpa,www.zone.example',
    'dns-rr=odd.zone.example,65300,abcdef',
    'address=/gone.example/',
  ])
})

afterAll(async () => {
  await unbound?.[Symbol.asyncDispose]()
  await dnsmasq?.[Symbol.asyncDispose]()
})

const at = (port: number) => ({ nameServer: '127.0.0.1', port })
const datas = (records: DnsRecord[] = []) => records.map(({ data }) => data).toSorted()
const ca = { tls: { ca: authority.ca } }

describe.skipIf(why !== undefined)('unbound', () => {
  test.each<[string, string, string, string[]]>([
    ['addresses', 'www.zone.example', 'A', ['192.0.2.10', '192.0.2.9']],
    ['an IPv6 address', 'www.zone.example', 'AAAA', ['2001:db8::1']],
    ['an alias', 'alias.zone.example', 'CNAME', ['www.zone.example.']],
    ['mail servers', 'zone.example', 'MX', ['10 mail.zone.example.', '5 mail2.zone.example.']],
    ['name servers', 'zone.example', 'NS', ['ns1.zone.example.', 'ns2.zone.example.']],
    ['a text', 'zone.example', 'TXT', ['v=spf1 -all']],
    ['a text in two strings', 'two.zone.example', 'TXT', ['one two']],
    [
      'the start of authority',
      'zone.example',
      'SOA',
      ['ns1.zone.example. admin.zone.example. 2026112101 7200 3600 1209600 60'],
    ],
    ['a web service', 'zone.example', 'HTTPS', ['1 . alpn=h2,h3 ipv4hint=192.0.2.7']],
    ['a service', '_sip._tcp.zone.example', 'SRV', ['1 2 5060 mail.zone.example.']],
    ['who may issue certificates', 'zone.example', 'CAA', ['0 issue "ca.example"']],
    ['the name of an IPv4 address', '192.0.2.10', 'PTR', ['www.zone.example.']],
    ['the name of an IPv6 address', '2001:db8::1', 'PTR', ['www.zone.example.']],
    ['the name of a reverse name', '10.2.0.192.in-addr.arpa', 'PTR', ['www.zone.example.']],
    ['a type by its number', 'zone.example', 'TYPE257', ['0 issue "ca.example"']],
    ['a type that nobody knows', 'odd.zone.example', 'TYPE65300', ['\\# 3 abcdef']],
    ['a label with a dot in it', '\\.dot.zone.example', 'A', ['192.0.2.20']],
    ['a dot at the end', 'www.zone.example.', 'AAAA', ['2001:db8::1']],
    ['capital letters', 'WWW.Zone.Example', 'AAAA', ['2001:db8::1']],
  ])('%s', async (_, query, recordType, expected) => {
    const { failures, observed } = await checkDns({ query, recordType, ...at(unbound.port) })
    expect(failures).toEqual([])
    expect(datas(observed.response?.Answer)).toEqual(expected.toSorted())
  })

  test('everything that is seen', async () => {
    const seen = await checkDns({ recordType: 'AAAA', ...at(unbound.port) })
    expect(seen).toMatchObject({
      failures: [],
      degraded: false,
      responseTimeMs: expect.any(Number),
    })
    expect(seen.observed).toEqual({
      query: 'www.zone.example',
      recordType: 'AAAA',
      address: '127.0.0.1',
      family: 'IPv4',
      port: unbound.port,
      protocol: 'UDP',
      udp: { sent: 1, ignored: 0, passedOver: [] },
      responseCode: 'NOERROR',
      counts: { answers: 1, authorities: 0, additionals: 0 },
      bytes: expect.any(Number),
      response: {
        Status: 'NOERROR',
        AA: true,
        TC: false,
        RD: true,
        RA: true,
        AD: false,
        CD: false,
        Question: [{ name: 'www.zone.example.', type: 'AAAA' }],
        Answer: [{ name: 'www.zone.example.', type: 'AAAA', TTL: 300, data: '2001:db8::1' }],
        Authority: [],
        Additional: [],
        Edns: { version: 0, udpBytes: 1232, dnssecOk: false },
      },
      phases: { requestMs: expect.any(Number), totalMs: expect.any(Number) },
    })
  })

  test('records of all sections are told apart', async () => {
    const { observed } = await checkDns({
      query: 'host.below.zone.example',
      recursionDesired: false,
      ...at(unbound.port),
    })
    expect(observed.counts).toEqual({ answers: 0, authorities: 1, additionals: 2 })
    expect(observed.response).toMatchObject({
      AA: false,
      Authority: [{ name: 'below.zone.example.', type: 'NS', data: 'ns.below.zone.example.' }],
    })
    expect(datas(observed.response?.Additional)).toEqual(['192.0.2.40', '2001:db8::40'])
  })

  test.each([
    ['UDP', () => at(unbound.port), ['requestMs', 'totalMs']],
    ['TCP', () => at(unbound.port), ['connectMs', 'requestMs', 'totalMs']],
    ['DOT', () => at(unbound.tlsPort), ['connectMs', 'requestMs', 'tlsMs', 'totalMs']],
    ['DOH', () => at(unbound.httpsPort), ['connectMs', 'requestMs', 'tlsMs', 'totalMs']],
  ])('over %s', async (protocol, where, phases) => {
    const { failures, observed } = await checkDns({ protocol, ...ca, ...where() })
    expect(failures).toEqual([])
    expect(observed).toMatchObject({ protocol, responseCode: 'NOERROR', counts: { answers: 2 } })
    expect(Object.keys(observed.phases).toSorted()).toEqual(phases)
    if ('tlsMs' in observed.phases) expect(observed.tls).toMatchObject({ verified: true })
  })

  test('an answer that is too large for UDP comes over TCP', async () => {
    const { failures, observed } = await checkDns({
      query: 'big.zone.example',
      recordType: 'TXT',
      ...at(unbound.port),
    })
    expect(failures).toEqual([])
    expect(observed).toMatchObject({ truncated: true, protocol: 'TCP', counts: { answers: 40 } })
    expect(Object.keys(observed.phases)).toContain('truncatedMs')
    expect(observed.bytes).toBeGreaterThan(1232)
  })

  test('a larger datagram spares the way over TCP', async () => {
    const { observed } = await checkDns({
      query: 'alias.zone.example',
      recordType: 'A',
      ednsBytes: 0,
      ...at(unbound.port),
    })
    expect(observed).toMatchObject({ protocol: 'UDP' })
    expect(observed.response).not.toHaveProperty('Edns')
  })

  test.each([
    ['a name of the server', 'ns.test', ['dnsMs', 'requestMs', 'totalMs']],
    ['its address', '127.0.0.1', ['requestMs', 'totalMs']],
  ])('%s', async (_, nameServer, phases) => {
    const resolver = fixedResolver({ 'ns.test': ['127.0.0.1'], '127.0.0.1': ['127.0.0.1'] })
    const request = { nameServer, port: unbound.port }
    const { failures, observed } = await checkDns(request, {}, { resolver })
    expect(failures).toEqual([])
    expect(Object.keys(observed.phases).toSorted()).toEqual(phases)
  })

  test('what validates is reported as such, and what does not by its reason', async () => {
    const good = await checkDns({ query: 'www.signed.example', ...at(unbound.port) })
    expect(good.codes).toEqual([])
    expect(good.observed.response).toMatchObject({ AD: true })
    expect(good.observed.counts?.answers).toBe(1)
    const forged = { query: 'forged.signed.example', ...at(unbound.port) }
    const bad = await checkDns(forged)
    expect(bad.codes).toEqual(['DNS_RESPONSE_CODE'])
    expect(bad.failures[0]).toMatchObject({
      message: expect.stringContaining('DNSSEC Bogus') as string,
      details: { responseCode: 'SERVFAIL', extendedErrors: [{ code: 6, name: 'DNSSEC Bogus' }] },
    })
    const unchecked = await checkDns({ ...forged, checkingDisabled: true })
    expect(unchecked.codes).toEqual([])
    expect(unchecked.observed.response).toMatchObject({ CD: true, AD: false })
  })

  test('the DO bit brings signatures', async () => {
    const { observed } = await checkDns({
      query: 'www.signed.example',
      dnssecOk: true,
      ...at(unbound.port),
    })
    expect(observed.response).toMatchObject({ AD: true, Edns: { dnssecOk: true } })
    const signature = observed.response?.Answer.find(({ type }) => type === 'RRSIG')
    expect(signature?.fields).toMatchObject({ typeCovered: 'A', signer: 'signed.example.' })
  })

  test('the server says who it is', async () => {
    const { observed } = await checkDns({ nsid: true, ...at(unbound.port) })
    expect(observed.response?.Edns?.nsid).toBe('test-server')
    const chaos = { query: 'id.server', recordType: 'TXT', recordClass: 'CH', ...at(unbound.port) }
    const answer = await checkDns(chaos)
    expect(answer.observed.response?.Answer).toEqual([
      { name: 'id.server.', type: 'TXT', class: 'CH', TTL: 0, data: 'unbound of a test' },
    ])
  })

  test('recursion is asked for or not', async () => {
    const { observed } = await checkDns({ recursionDesired: false, ...at(unbound.port) })
    expect(observed.response).toMatchObject({ RD: false })
  })

  test('a certificate that does not verify', async () => {
    const request = { protocol: 'DOT', ...at(unbound.tlsPort) }
    const strict = await checkDns(request)
    expect(strict.codes).toEqual(['TLS_UNTRUSTED'])
    expect(strict.observed.tls).toMatchObject({ verified: false, certificate: {} })
    expect((await checkDns({ ...request, skipSSL: true })).codes).toEqual([])
    const named = { ...request, tls: { ca: authority.ca, serverName: 'other.test' } }
    expect((await checkDns(named)).codes).toEqual(['TLS_HOSTNAME_MISMATCH'])
  })

  test('another path of DNS over HTTPS', async () => {
    const request = { protocol: 'DOH', dohPath: '/other', ...ca, ...at(unbound.httpsPort) }
    expect((await checkDns(request)).codes).toEqual(['DNS_HTTP'])
  })
})

describe.skipIf(why !== undefined)('dnsmasq', () => {
  test.each<[string, string, string, string[]]>([
    ['an address', 'www.zone.example', 'A', ['192.0.2.10']],
    ['an IPv6 address', 'www.zone.example', 'AAAA', ['2001:db8::1']],
    [
      'an alias and what it leads to',
      'alias.zone.example',
      'A',
      ['192.0.2.10', 'www.zone.example.'],
    ],
    ['a mail server', 'zone.example', 'MX', ['10 mail.zone.example.']],
    ['a text', 'zone.example', 'TXT', ['v=spf1 -all']],
    ['a service', '_sip._tcp.zone.example', 'SRV', ['1 2 5060 mail.zone.example.']],
    ['the name of an address', '192.0.2.10', 'PTR', ['www.zone.example.']],
    ['a type that nobody knows', 'odd.zone.example', 'TYPE65300', ['\\# 3 abcdef']],
  ])('%s', async (_, query, recordType, expected) => {
    for (const protocol of ['UDP', 'TCP']) {
      const request = { query, recordType, protocol, ...at(dnsmasq.port) }
      const { failures, observed } = await checkDns(request)
      expect(failures).toEqual([])
      expect(datas(observed.response?.Answer)).toEqual(expected.toSorted())
    }
  })

  test('a name that it will not look up', async () => {
    const { codes, observed } = await checkDns({ query: 'x.elsewhere.test', ...at(dnsmasq.port) })
    expect(codes).toEqual(['DNS_RESPONSE_CODE'])
    expect(observed.responseCode).toBe('REFUSED')
  })
})

type Wish = [source: string, comparison: string, target?: string, property?: string]
const assertion = ([source, comparison, target = '', property = '']: Wish) => ({
  source,
  comparison,
  target,
  property,
})

describe.skipIf(why !== undefined)('verdicts', () => {
  test.each<[string, object, Wish[], string[]]>([
    ['NOERROR is wanted by default', { query: 'no.zone.example' }, [], ['DNS_RESPONSE_CODE']],
    ['no record of the type is no error', { recordType: 'MX' }, [], []],
    [
      'another code, asserted',
      { query: 'no.zone.example' },
      [['RESPONSE_CODE', 'EQUALS', 'NXDOMAIN']],
      [],
    ],
    [
      'another code than asserted',
      {},
      [['RESPONSE_CODE', 'EQUALS', 'NXDOMAIN']],
      ['ASSERTION_FAILED'],
    ],
    [
      'the whole text, in natural order',
      {},
      [['TEXT_ANSWER', 'EQUALS', '192.0.2.9\n192.0.2.10']],
      [],
    ],
    ['a part of the text', { recordType: 'AAAA' }, [['TEXT_ANSWER', 'CONTAINS', 'db8']], []],
    [
      'a number in the text',
      { query: 'zone.example', recordType: 'SOA' },
      [['TEXT_ANSWER', 'GREATER_THAN', '2026000000', '(\\d{10})']],
      [],
    ],
    ['no text', { recordType: 'MX' }, [['TEXT_ANSWER', 'NOT_EMPTY']], ['ASSERTION_FAILED']],
    [
      'the document',
      {},
      [
        ['JSON_ANSWER', 'EQUALS', '192.0.2.9', '$.Answer[0].data'],
        ['JSON_ANSWER', 'EQUALS', '2', '$.Answer.length'],
        ['JSON_ANSWER', 'EQUALS', '60', '$.Answer[0].TTL'],
        ['JSON_ANSWER', 'EQUALS', 'NOERROR', '$.Status'],
        ['JSON_ANSWER', 'EQUALS', 'true', '$.AA'],
      ],
      [],
    ],
    [
      'a field of a record',
      { query: 'zone.example', recordType: 'MX' },
      [['JSON_ANSWER', 'EQUALS', '5', '$.Answer[0].fields.preference']],
      [],
    ],
    ['a fast answer', {}, [['RESPONSE_TIME', 'LESS_THAN', '900']], []],
    ['a slow answer', {}, [['RESPONSE_TIME', 'GREATER_THAN', '5000']], ['ASSERTION_FAILED']],
  ])('%s', async (_, request, wishes, expected) => {
    const assertions = wishes.map(assertion)
    const { codes } = await checkDns({ ...request, assertions, ...at(unbound.port) })
    expect(codes).toEqual(expected)
  })

  test('shouldFail takes an error of the server for a pass, not a failed assertion', async () => {
    const shouldFail = { shouldFail: true }
    const request = { query: 'no.zone.example', ...at(unbound.port) }
    expect((await checkDns(request, shouldFail)).codes).toEqual([])
    const assertions = [assertion(['TEXT_ANSWER', 'NOT_EMPTY'])]
    expect((await checkDns({ ...request, assertions }, shouldFail)).codes).toEqual([
      'ASSERTION_FAILED',
    ])
  })

  test('samples speak blackbox_exporter’s language', async () => {
    const request = { query: 'zone.example', recordType: 'SOA', ...at(unbound.port) }
    const { observed } = await checkDns(request)
    const samples = dns.samples({ ...observed })
    const values = new Map(
      samples.map(({ name, labels, value }) => [name + (labels?.['phase'] ?? ''), value]),
    )
    expect(Object.fromEntries(values)).toEqual({
      probe_dns_query_succeeded: 1,
      probe_dns_answer_rrs: 1,
      probe_dns_authority_rrs: 0,
      probe_dns_additional_rrs: 0,
      probe_ip_protocol: 4,
      probe_dns_lookup_time_seconds: 0,
      probe_dns_duration_secondsrequest: expect.any(Number),
      probe_dns_serial: 2_026_112_101,
    })
  })
})

describe.skipIf(why !== undefined)('the system’s servers', () => {
  test('the first that knows an answer gives it, the others are named', async () => {
    const system = systemServers([dnsmasq.port, unbound.port])
    const request = { query: 'ns1.zone.example' }
    const { codes, observed } = await checkDns(request, {}, { system })
    expect(codes).toEqual([])
    expect(observed).toMatchObject({
      port: unbound.port,
      udp: { passedOver: [{ reason: 'REFUSED' }] },
    })
    const overTcp = await checkDns({ ...request, protocol: 'TCP' }, {}, { system })
    expect(overTcp).toMatchObject({ codes: [], observed: { port: unbound.port, protocol: 'TCP' } })
  })

  test('what none of them knows is what the first says', async () => {
    const system = systemServers([dnsmasq.port, dnsmasq.port])
    const { codes, observed } = await checkDns({ query: 'elsewhere.test' }, {}, { system })
    expect(codes).toEqual(['DNS_RESPONSE_CODE'])
    expect(observed).toMatchObject({ responseCode: 'REFUSED', udp: { sent: 2 } })
  })

  test('one that is not allowed is left out, and none that is, an error of ours', async () => {
    const two = systemServers([dnsmasq.port, unbound.port])
    const [first, second] = two.servers
    const servers = [{ ...first, address: '127.0.0.2', port: dnsmasq.port }, second]
    const system = { ...two, servers } as typeof two
    const wishes = { system, blocked: ['127.0.0.2'] }
    const { codes, observed } = await checkDns({}, {}, wishes)
    expect(codes).toEqual([])
    expect(observed).toMatchObject({ address: '127.0.0.1', udp: { passedOver: [] } })
    expect((await checkDns({}, {}, { system, blocked: ['127.0.0.0/8'] })).codes).toEqual([
      'ADDRESS_BLOCKED',
    ])
  })
})
