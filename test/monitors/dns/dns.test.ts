// Aim: a DNS check reports the answers of real name servers, over every protocol and for every type, with its
// flags, sections and times.
import { describe, expect, test } from 'vitest'
import type { DnsRecord } from '../../../src/network/dns/message.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { at, checkDns } from '../../support/monitors/dns/check-dns.ts'
import { startZoneServers } from '../../support/monitors/dns/dns-zones.ts'
import { fixedResolver } from '../../support/monitors/monitor-context.ts'

const authority = createAuthority()
const { why, unbound, dnsmasq } = await startZoneServers(authority)

const datas = (records: DnsRecord[] = []) => records.map(({ data }) => data).toSorted()
const ca = { tls: { ca: authority.ca } }

const SOA = 'ns1.zone.example. admin.zone.example. 2026112101 7200 3600 1209600 60'
const ask = (request: object) => checkDns({ ...at(unbound.port), ...request })

describe.skipIf(why !== undefined)(`unbound ${why ?? ''}`, () => {
  test.each<[string, string, string, string[]]>([
    ['addresses', 'www.zone.example', 'A', ['192.0.2.10', '192.0.2.9']],
    ['an IPv6 address', 'www.zone.example', 'AAAA', ['2001:db8::1']],
    ['an alias', 'alias.zone.example', 'CNAME', ['www.zone.example.']],
    ['mail servers', 'zone.example', 'MX', ['10 mail.zone.example.', '5 mail2.zone.example.']],
    ['name servers', 'zone.example', 'NS', ['ns1.zone.example.', 'ns2.zone.example.']],
    ['a text', 'zone.example', 'TXT', ['v=spf1 -all']],
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
    ['a dot at the end', 'www.zone.example.', 'AAAA', ['2001:db8::1']],
    ['capital letters', 'WWW.Zone.Example', 'AAAA', ['2001:db8::1']],
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

  test('records of all sections are distinguished', async () => {
    const { observed } = await ask({ query: 'host.below.zone.example', recursionDesired: false })
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
    expect(observed.tls?.verified).toBe(phases.includes('tlsMs') ? true : undefined)
  })

  test('an answer that is too large for UDP comes over TCP', async () => {
    const { failures, observed } = await ask({ query: 'big.zone.example', recordType: 'TXT' })
    expect(failures).toEqual([])
    expect(observed).toMatchObject({ truncated: true, protocol: 'TCP', counts: { answers: 40 } })
    expect(Object.keys(observed.phases)).toContain('truncatedMs')
    expect(observed.bytes).toBeGreaterThan(1232)
  })

  test('a larger datagram spares the way over TCP', async () => {
    const { observed } = await ask({ query: 'alias.zone.example', recordType: 'A', ednsBytes: 0 })
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
    const good = await ask({ query: 'www.signed.example' })
    expect(good.codes).toEqual([])
    expect(good.observed.response).toMatchObject({ AD: true })
    expect(good.observed.counts?.answers).toBe(1)
    const forged = { query: 'forged.signed.example' }
    const bad = await ask(forged)
    expect(bad.codes).toEqual(['DNS_RESPONSE_CODE'])
    expect(bad.failures[0]).toMatchObject({
      message: expect.stringContaining('DNSSEC Bogus') as string,
      details: { responseCode: 'SERVFAIL', extendedErrors: [{ code: 6, name: 'DNSSEC Bogus' }] },
    })
    const unchecked = await ask({ ...forged, checkingDisabled: true })
    expect(unchecked.codes).toEqual([])
    expect(unchecked.observed.response).toMatchObject({ CD: true, AD: false })
  })

  test('the DO bit brings signatures', async () => {
    const { observed } = await ask({ query: 'www.signed.example', dnssecOk: true })
    expect(observed.response).toMatchObject({ AD: true, Edns: { dnssecOk: true } })
    const signature = observed.response?.Answer.find(({ type }) => type === 'RRSIG')
    expect(signature?.fields).toMatchObject({ typeCovered: 'A', signer: 'signed.example.' })
  })

  test('the server says who it is', async () => {
    const { observed } = await ask({ nsid: true })
    expect(observed.response?.Edns?.nsid).toBe('test-server')
    const answer = await ask({ query: 'id.server', recordType: 'TXT', recordClass: 'CH' })
    expect(answer.observed.response?.Answer).toEqual([
      { name: 'id.server.', type: 'TXT', class: 'CH', TTL: 0, data: 'unbound of a test' },
    ])
  })

  test('recursion is asked for or not', async () => {
    const { observed } = await ask({ recursionDesired: false })
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

describe.skipIf(why !== undefined)(`dnsmasq ${why ?? ''}`, () => {
  test.each(['UDP', 'TCP'])('a record that nobody knows over %s', async (protocol) => {
    const request = { query: 'odd.zone.example', recordType: 'TYPE65300', protocol }
    const { failures, observed } = await checkDns({ ...request, ...at(dnsmasq.port) })
    expect(failures).toEqual([])
    expect(datas(observed.response?.Answer)).toEqual(['\\# 3 abcdef'])
  })

  test('a name that it will not look up', async () => {
    const { codes, observed } = await checkDns({
      query: 'x.elsewhere.test',
      ...at(dnsmasq.port),
    })
    expect(codes).toEqual(['DNS_RESPONSE_CODE'])
    expect(observed.responseCode).toBe('REFUSED')
  })
})
