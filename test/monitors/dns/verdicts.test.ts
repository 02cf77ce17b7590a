// Aim: a DNS check evaluates an answer by its code and by assertions, gives it as metrics, and asks the system's
// servers as the system would.
import { describe, expect, test } from 'vitest'
import { dns } from '../../../src/monitors/dns/index.ts'
import { at, checkDns, systemServers } from '../../support/monitors/dns/check-dns.ts'
import { startZoneServers } from '../../support/monitors/dns/dns-zones.ts'

const { why, unbound, dnsmasq } = await startZoneServers()

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
  const document: Expectation[] = [
    ['JSON_ANSWER', 'EQUALS', '192.0.2.9', '$.Answer[0].data'],
    ['JSON_ANSWER', 'EQUALS', '2', '$.Answer.length'],
    ['JSON_ANSWER', 'EQUALS', '60', '$.Answer[0].TTL'],
    ['JSON_ANSWER', 'EQUALS', 'NOERROR', '$.Status'],
    ['JSON_ANSWER', 'EQUALS', 'true', '$.AA'],
  ]
  test.each<[object, Expectation | undefined, string[]]>([
    [missing, undefined, ['DNS_RESPONSE_CODE']],
    [{ recordType: 'MX' }, undefined, []],
    [missing, ['RESPONSE_CODE', 'EQUALS', 'NXDOMAIN'], []],
    [{}, ['RESPONSE_CODE', 'EQUALS', 'NXDOMAIN'], failed],
    // In natural order.
    [{}, ['TEXT_ANSWER', 'EQUALS', '192.0.2.9\n192.0.2.10'], []],
    [{ recordType: 'AAAA' }, ['TEXT_ANSWER', 'CONTAINS', 'db8'], []],
    [zone('SOA'), ['TEXT_ANSWER', 'GREATER_THAN', '2026000000', '(\\d{10})'], []],
    [{ recordType: 'MX' }, ['TEXT_ANSWER', 'NOT_EMPTY'], failed],
    [zone('MX'), ['JSON_ANSWER', 'EQUALS', '5', '$.Answer[0].fields.preference'], []],
    [{}, ['RESPONSE_TIME', 'LESS_THAN', '900'], []],
    [{}, ['RESPONSE_TIME', 'GREATER_THAN', '5000'], failed],
    ...document.map((one): [object, Expectation, string[]] => [{}, one, []]),
  ])('%j %j', async (request, one, expected) => {
    const assertions = one === undefined ? [] : [assertion(one)]
    const { codes } = await checkDns({ ...request, assertions, ...at(unbound.port) })
    expect(codes).toEqual(expected)
  })

  test('shouldFail takes an error of the server for a pass, not a failed assertion', async () => {
    const shouldFail = { shouldFail: true }
    const request = { ...missing, ...at(unbound.port) }
    expect((await checkDns(request, shouldFail)).codes).toEqual([])
    const assertions = [assertion(['TEXT_ANSWER', 'NOT_EMPTY'])]
    expect((await checkDns({ ...request, assertions }, shouldFail)).codes).toEqual([
      'ASSERTION_FAILED',
    ])
  })

  test('samples speak blackbox_exporter’s language', async () => {
    const request = { query: 'zone.example', recordType: 'SOA', ...at(unbound.port) }
    const { observed } = await checkDns(request)
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

describe.skipIf(why !== undefined)(`the system’s servers ${why ?? ''}`, () => {
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
    expect(overTcp).toMatchObject({
      codes: [],
      observed: { port: unbound.port, protocol: 'TCP' },
    })
  })

  test('what all of them refuse, as they refuse the root, is an error of ours', async () => {
    const system = systemServers([dnsmasq.port, dnsmasq.port])
    const { codes, observed } = await checkDns({ query: 'elsewhere.test' }, {}, { system })
    expect(codes).toEqual(['RESOLVER_UNREACHABLE'])
    expect(observed).toMatchObject({ responseCode: 'REFUSED', udp: { sent: 2 } })
  })

  test('one that is not allowed is left out, and none that is, an error of ours', async () => {
    const two = systemServers([dnsmasq.port, unbound.port])
    const [first, second] = two.servers
    const asked = [{ ...first, address: '127.0.0.2', port: dnsmasq.port }, second]
    const system = { ...two, servers: asked } as typeof two
    const options = { system, blocked: ['127.0.0.2'] }
    const { codes, observed } = await checkDns({}, {}, options)
    expect(codes).toEqual([])
    expect(observed).toMatchObject({ address: '127.0.0.1', udp: { passedOver: [] } })
    expect((await checkDns({}, {}, { system, blocked: ['127.0.0.0/8'] })).codes).toEqual([
      'ADDRESS_BLOCKED',
    ])
  })
})
