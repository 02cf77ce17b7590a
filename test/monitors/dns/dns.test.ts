// Aim: a DNS check reports the answers of a real name server, over every protocol and for every type, with its
// flags, sections and times; evaluates them by their code and by assertions; and gives them as metrics.
import { describe, expect, test } from 'vitest'
import { dns } from '../../../src/monitors/dns/index.ts'
import type { DnsRecord } from '../../../src/network/dns/message.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { at, checkDns } from '../../support/monitors/dns/check-dns.ts'
import { startZones } from '../../support/monitors/dns/dns-zones.ts'
import { fixedResolver } from '../../support/monitors/monitor-context.ts'

const authority = createAuthority()
const { why, unbound } = await startZones(authority.issue())

const datas = (records: DnsRecord[] = []) => records.map(({ data }) => data).toSorted()
const ca = { tls: { ca: authority.ca } }

const SOA = 'ns1.zone.example. admin.zone.example. 2026112101 7200 3600 1209600 60'
const ask = (request: object) => checkDns({ ...at(unbound.port), ...request })

describe.skipIf(why !== undefined)(`answers ${why ?? ''}`, () => {
  test.each<[string, string, string, string[]]>([
    ['addresses', 'www.zone.example', 'A', ['192.0.2.10', '192.0.2.9']],
    ['an IPv6 address', 'www.zone.example', 'AAAA', ['2001:db8::1']],
    ['an alias', 'alias.zone.example', 'CNAME', ['www.zone.example.']],
    ['mail servers', 'zone.example', 'MX', ['10 mail.zone.example.', '5 mail2.zone.example.']],
    ['name servers', 'zone.example', 'NS', ['ns1.zone.example.', 'ns2.zone.example.']],
    ['a text in two strings', 'two.zone.example', 'TXT', ['one two']],
    ['the start of authority', 'zone.example', 'SOA', [SOA]],
    ['a web service', 'zone.example', 'HTTPS', ['1 . alpn=h2,h3 ipv4hint=192.0.2.7']],
    ['a service', '_sip._tcp.zone.example', 'SRV', ['1 2 5060 mail.zone.example.']],
    ['who may issue certificates', 'zone.example', 'CAA', ['0 issue "ca.example"']],
    ['the name of an IPv4 address', '192.0.2.10', 'PTR', ['www.zone.example.']],
    ['the name of an IPv6 address', '2001:db8::1', 'PTR', ['www.zone.example.']],
    ['the name of a reverse name', '10.2.0.192.in-addr.arpa', 'PTR', ['www.zone.example.']],
    ['a type by its number', 'zone.example', 'TYPE257', ['0 issue "ca.example"']],
    ['a type that nobody knows', 'odd.zone.example', 'TYPE65300', ['\\# 3 abcdef']],
    ['a label with a dot in it', '\\.dot.zone.example', 'A', ['192.0.2.20']],
    ['capital letters, and a dot at the end', 'WWW.Zone.Example.', 'AAAA', ['2001:db8::1']],
  ])('%s', async (_, query, recordType, expected) => {
    const { failures, observed } = await ask({ query, recordType })
    expect(failures).toEqual([])
    expect(datas(observed.response?.Answer)).toEqual(expected.toSorted())
  })

  test('everything that is seen', async () => {
    const result = await ask({ recordType: 'AAAA' })
    const flags = { AA: true, TC: false, RD: true, RA: true, AD: false, CD: false }
    const responseTimeMs = expect.any(Number) as number
    expect(result).toMatchObject({ failures: [], degraded: false, responseTimeMs })
    expect(result.observed).toEqual({
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
        ...flags,
        Question: [{ name: 'www.zone.example.', type: 'AAAA' }],
        Answer: [{ name: 'www.zone.example.', type: 'AAAA', TTL: 300, data: '2001:db8::1' }],
        Authority: [],
        Additional: [],
        Edns: { version: 0, udpBytes: 1232, dnssecOk: false },
      },
      phases: { requestMs: expect.any(Number), totalMs: expect.any(Number) },
    })
  })

  test('records of all sections are distinguished, and recursion is not asked for', async () => {
    const { observed } = await ask({ query: 'host.below.zone.example', recursionDesired: false })
    expect(observed.counts).toEqual({ answers: 0, authorities: 1, additionals: 2 })
    expect(observed.response).toMatchObject({
      AA: false,
      RD: false,
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
    expect(observed.tls?.verified).toBe(phases.includes('tlsMs') ? true : undefined)
  })

  test('an answer that is too large for UDP comes over TCP', async () => {
    const { failures, observed } = await ask({ query: 'big.zone.example', recordType: 'TXT' })
    expect(failures).toEqual([])
    expect(observed).toMatchObject({ truncated: true, protocol: 'TCP', counts: { answers: 40 } })
    expect(Object.keys(observed.phases)).toContain('truncatedMs')
    expect(observed.bytes).toBeGreaterThan(1232)
  })

  test('without EDNS', async () => {
    const { observed } = await ask({ query: 'alias.zone.example', recordType: 'A', ednsBytes: 0 })
    expect(observed).toMatchObject({ protocol: 'UDP' })
    expect(observed.response).not.toHaveProperty('Edns')
  })

  test('a server by its name, whose look-up is a phase', async () => {
    const resolver = fixedResolver({ 'ns.test': ['127.0.0.1'] })
    const request = { nameServer: 'ns.test', port: unbound.port }
    const { failures, observed } = await checkDns(request, {}, { resolver })
    expect(failures).toEqual([])
    expect(Object.keys(observed.phases).toSorted()).toEqual(['dnsMs', 'requestMs', 'totalMs'])
  })

  test('the server says who it is', async () => {
    const { observed } = await ask({ nsid: true })
    expect(observed.response?.Edns?.nsid).toBe('test-server')
    const answer = await ask({ query: 'id.server', recordType: 'TXT', recordClass: 'CH' })
    expect(answer.observed.response?.Answer).toEqual([
      { name: 'id.server.', type: 'TXT', class: 'CH', TTL: 0, data: 'unbound of a test' },
    ])
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

type Expectation = [source: string, comparison: string, target?: string, property?: string]
const assertion = ([source, comparison, target = '', property = '']: Expectation) => ({
  source,
  comparison,
  target,
  property,
})

describe.skipIf(why !== undefined)(`verdicts ${why ?? ''}`, () => {
  const failed = ['ASSERTION_FAILED']
  const missing = { query: 'no.zone.example' }
  const zone = (recordType: string) => ({ query: 'zone.example', recordType })
  test.each<[object, Expectation | undefined, string[]]>([
    [missing, undefined, ['DNS_RESPONSE_CODE']],
    [{ recordType: 'MX' }, undefined, []],
    [missing, ['RESPONSE_CODE', 'EQUALS', 'NXDOMAIN'], []],
    [{}, ['RESPONSE_CODE', 'EQUALS', 'NXDOMAIN'], failed],
    // In natural order.
    [{}, ['TEXT_ANSWER', 'EQUALS', '192.0.2.9\n192.0.2.10'], []],
    [{}, ['JSON_ANSWER', 'EQUALS', '192.0.2.9', '$.Answer[0].data'], []],
    [zone('SOA'), ['TEXT_ANSWER', 'GREATER_THAN', '2026000000', '(\\d{10})'], []],
    [{ recordType: 'MX' }, ['TEXT_ANSWER', 'NOT_EMPTY'], failed],
    [zone('MX'), ['JSON_ANSWER', 'EQUALS', '5', '$.Answer[0].fields.preference'], []],
    [{}, ['JSON_ANSWER', 'EQUALS', 'true', '$.AA'], []],
    [{}, ['RESPONSE_TIME', 'LESS_THAN', '900'], []],
    [{}, ['RESPONSE_TIME', 'GREATER_THAN', '5000'], failed],
  ])('%j %j', async (request, one, expected) => {
    const assertions = one === undefined ? [] : [assertion(one)]
    expect((await ask({ ...request, assertions })).codes).toEqual(expected)
  })

  test('shouldFail takes an error of the server for a pass, not a failed assertion', async () => {
    const shouldFail = { shouldFail: true }
    const request = { ...missing, ...at(unbound.port) }
    expect((await checkDns(request, shouldFail)).codes).toEqual([])
    const assertions = [assertion(['TEXT_ANSWER', 'NOT_EMPTY'])]
    expect((await checkDns({ ...request, assertions }, shouldFail)).codes).toEqual(failed)
  })

  test('samples speak blackbox_exporter’s language', async () => {
    const { observed } = await ask(zone('SOA'))
    const samples = dns
      .samples({ ...observed })
      .map(({ name, labels, value }) => [name + (labels?.['phase'] ?? ''), value])
    expect(Object.fromEntries(samples)).toEqual({
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
