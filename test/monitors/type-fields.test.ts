// Aim: the own fields and assertions of each type of monitor have the bounds and defaults of the contract.
import { describe, expect, test } from 'vitest'
import type * as z from 'zod'
import { DEFINITIONS } from '../../src/monitors/definitions.ts'
import { SecurityBaseline } from '../../src/monitors/ssl/definition.ts'
import { traceroutePort, unknownHopsMax } from '../../src/monitors/traceroute/definition.ts'
import type { TracerouteRequest } from '../../src/monitors/traceroute/definition.ts'
import type { Monitor } from '../../src/contract/monitor.ts'
import { definitionOf, type Fields, merged } from '../support/definitions.ts'

const schemaOf = (checkType: string) => DEFINITIONS.get(checkType)?.schema as z.ZodType
const parse = (checkType: string, more: Fields = {}) =>
  schemaOf(checkType).parse(definitionOf(checkType, more)) as Monitor

/** Fields that are written with their paths, like `request.port`. */
function nested(fields: Fields): Fields {
  return Object.entries(fields).reduce<Fields>((all, [path, value]) => {
    const [first = '', ...rest] = path.split('.')
    const own = rest.reduceRight<unknown>((under, name) => ({ [name]: under }), value)
    return merged(all, { [first]: own })
  }, {})
}

/** Where the schema objects to the least definition with these fields. */
function problemsOf(checkType: string, more: Fields): string[] {
  const parsed = schemaOf(checkType).safeParse(definitionOf(checkType, more))
  return (parsed.error?.issues ?? []).map(({ path }) => path.join('.'))
}

test.each([
  ['UDP', 53],
  ['TCP', 53],
  ['DOT', 853],
  ['DOH', 443],
])('%s is spoken on port %i', (protocol, port) => {
  const request = { query: 'a.test', recordType: 'A', nameServer: 'b.test', protocol }
  expect(parse('DNS', { request })).toMatchObject({ request: { port } })
})

const rules = (severity: string, ...names: string[]) =>
  Object.fromEntries(names.map((name) => [name, { severity }]))
const BASELINE = {
  enabled: true,
  ...rules('fail', 'weakSignatureAlgorithm', 'weakCipherSuite', 'knownBadCA'),
  ...rules('ignore', 'ocspMustStapleRespected', 'sctPresent'),
  minTLSVersion: { value: 'TLS1.2', severity: 'fail' },
  minKeySizeBits: { value: 2048, severity: 'fail' },
  recommendedTLSVersion: { value: 'TLS1.3', severity: 'ignore' },
  recommendedKeySizeBits: { value: 3072, severity: 'ignore' },
}
const HANDSHAKE = { handshakeTimeoutMs: 10_000, clientCertificateMode: 'auto' }
const CHAIN = { skipChainValidation: false, alertDaysBeforeExpiry: 20 }
const TRACE = { protocol: 'TCP', ipFamily: 'IPv4', maxHops: 30, ptrLookup: true, timeout: 10 }
const times = (degradedResponseTime: number, maxResponseTime: number) => ({
  degradedResponseTime,
  maxResponseTime,
})

test.each<[string, Fields]>([
  ['DNS', { request: { port: 53, protocol: 'UDP', assertions: [] }, ...times(500, 1000) }],
  ['ICMP', { request: { ipFamily: 'IPv4', pingCount: 10 }, degradedPacketLossThreshold: 10 }],
  ['ICMP', { maxPacketLossThreshold: 20 }],
  ['GRPC', { request: { ipFamily: 'IPv4', skipSSL: false, timeout: 60 } }],
  ['GRPC', { 'request.grpcConfig': { mode: 'BEHAVIOR', tls: true, metadata: [] } }],
  ['GRPC', times(10_000, 20_000)],
  ['TRACEROUTE', { request: TRACE, ...times(10_000, 20_000) }],
  ['SSL', { 'request.sslConfig': { port: 443, ipFamily: 'IPv4', ...CHAIN, ...HANDSHAKE } }],
  ['SSL', { 'request.sslConfig.securityBaseline': BASELINE, ...times(3000, 10_000) }],
  ['PLAYWRIGHT', { testCommand: 'npx playwright test' }],
])('the defaults of %s are those of the contract: %j', (checkType, defaults) => {
  expect(parse(checkType)).toMatchObject(nested(defaults))
})

const GRPC = 'request.grpcConfig'
const SSL = 'request.sslConfig'
const PROTOCOL = { key: 'Sec-WebSocket-Protocol', value: 'a' }
const PING = { source: 'PING_TIME', comparison: 'LESS_THAN', target: 1 }
const PING_SOURCE = 'request.assertions.0.source'

test.each<[string, Fields]>([
  ['DNS', { 'request.nameServer': '[::1]', 'request.port': 5353 }],
  ['DNS', { 'request.query': '.', 'request.recordType': 'NS' }],
  ['DNS', { 'request.query': '{{A}}..{{B}}' }],
  ['ICMP', { degradedPacketLossThreshold: 0.5 }],
  // A run of 44 s.
  ['ICMP', { request: { pingCount: 50, intervalMs: 800, timeoutMs: 1000 } }],
  ['GRPC', { [`${GRPC}.method`]: '{{M}}', [`${GRPC}.message`]: '{{A}}' }],
  ['GRPC', { [`${GRPC}.metadata`]: [{ key: '{{ K }}', value: '{{ V }}' }] }],
  ['GRPC', { [`${GRPC}.metadata`]: [{ key: 'a-bin', value: '{{B}}' }] }],
  ['GRPC', { 'request.url': '{{HOST}}:{{X}}' }],
  ['TRACEROUTE', { 'request.maxHops': 64, 'request.maxUnknownHops': 30 }],
  ['TRACEROUTE', { frequency: 0, frequencyOffset: 30 }],
  ['SSL', { [`${SSL}.hostname`]: '[::1]' }],
  ['BROWSER', { sslCheckDomain: null, runtimeId: '2022.10' }],
  ['HEARTBEAT', { 'heartbeat.period': 365, 'heartbeat.periodUnit': 'days' }],
  ['HEARTBEAT', { 'heartbeat.period': 30, 'heartbeat.periodUnit': 'seconds' }],
])('%s accepts %j', (checkType, fields) => {
  expect(problemsOf(checkType, nested(fields))).toEqual([])
})

/** The objection is to the first field, or to `path`. */
test.each<[string, Fields, path?: string]>([
  ['DNS', { 'request.query': 'a'.repeat(101) }],
  ['DNS', { 'request.query': 'a..b' }],
  ['DNS', { 'request.recordType': 'TYPE65536' }],
  // A zone transfer, and EDNS itself.
  ['DNS', { 'request.recordType': 'TYPE252' }],
  ['DNS', { 'request.recordType': 'TYPE41' }],
  // A port without its server.
  ['DNS', { 'request.port': 5353 }],
  ['DNS', { 'request.protocol': 'QUIC' }],
  ['DNS', { 'request.nameServer': 'a.test:53' }],
  ['DNS', { 'request.protocol': 'DOT' }, 'request.nameServer'],
  ['DNS', { 'request.ednsBytes': 511 }],
  ['DNS', { 'request.dnssecOk': true, 'request.ednsBytes': 0 }],
  ['DNS', { 'request.dohPath': 'dns-query' }],
  ['DNS', { 'request.attempts': 6 }],
  ['DNS', { maxResponseTime: 5001 }],
  ['TCP', { 'request.hostname': '127.0.0.1:9' }],
  ['TCP', { 'request.dialogue': [{ startTls: true }, { startTls: true }] }],
  ['WEBSOCKET', { 'request.url': 'https://a.test/' }],
  ['WEBSOCKET', { 'request.url': 'ws://a.test/#x' }],
  // A header of the handshake.
  ['WEBSOCKET', { 'request.headers': [PROTOCOL] }, 'request.headers.0.key'],
  ['WEBSOCKET', { 'request.subprotocols': ['a', 'a'] }],
  ['WEBSOCKET', { 'request.subprotocols': ['a b'] }, 'request.subprotocols.0'],
  ['WEBSOCKET', { 'request.ping': false, 'request.assertions': [PING] }, PING_SOURCE],
  ['ICMP', { 'request.pingCount': 51 }],
  ['ICMP', { maxPacketLossThreshold: 0 }],
  ['ICMP', { degradedPacketLossThreshold: 101 }],
  ['ICMP', { 'request.payloadBytes': 0 }],
  ['ICMP', { 'request.ttl': 0 }],
  // Echoes for a minute.
  ['ICMP', { 'request.intervalMs': 6000 }, 'request.pingCount'],
  ['ICMP', { maxResponseTime: 5 }, ''],
  ['GRPC', { [`${GRPC}.method`]: 'Greet' }],
  ['GRPC', { [`${GRPC}.mode`]: 'HEALTH' }, `${GRPC}.method`],
  [
    'GRPC',
    { [GRPC]: { mode: 'HEALTH', method: '', serviceDefinition: 'REFLECTION' } },
    `${GRPC}.serviceDefinition`,
  ],
  ['GRPC', { [`${GRPC}.service`]: 's' }],
  ['GRPC', { [`${GRPC}.serviceDefinition`]: 'PROTO_FILE' }, `${GRPC}.protoContent`],
  ['GRPC', { [`${GRPC}.message`]: '{"a":' }],
  ['GRPC', { [`${GRPC}.metadata`]: [{ key: 'a b', value: '' }] }, `${GRPC}.metadata.0`],
  ['GRPC', { [`${GRPC}.metadata`]: [{ key: 'a', value: 'b\nc' }] }, `${GRPC}.metadata.0`],
  ['GRPC', { 'request.timeout': 181 }],
  // Without room for the mark, and of packets that have no size.
  ['TRACEROUTE', { 'request.packetSize': 63, 'request.protocol': 'UDP' }],
  ['TRACEROUTE', { 'request.packetSize': 1500 }],
  ['TRACEROUTE', { 'request.probesPerHop': 11 }],
  ['TRACEROUTE', { 'request.port': 7, 'request.protocol': 'ICMP' }],
  ['TRACEROUTE', { 'request.maxHops': 65 }],
  ['TRACEROUTE', { 'request.maxUnknownHops': 6, 'request.maxHops': 5 }],
  ['TRACEROUTE', { frequencyOffset: 29, frequency: 0 }],
  ['TRACEROUTE', { maxResponseTime: 30_001 }],
  ['SSL', { [`${SSL}.handshakeTimeoutMs`]: 999 }],
  ['SSL', { [`${SSL}.alertDaysBeforeExpiry`]: 366 }],
  ['SSL', { [`${SSL}.securityBaseline.minKeySizeBits.value`]: 512 }],
  ['SSL', { [`${SSL}.clientCertificateMode`]: 'explicit' }, 'request.sslClientCertificateId'],
  ['MULTI_STEP', { script: ' // a\n/* b */ ' }],
  ['MULTI_STEP', { runtimeId: '2023.02' }],
  ['PLAYWRIGHT', { engineVersion: '2.0', engine: 'bun' }],
  ['PLAYWRIGHT', { engine: 'deno' }],
  ['HEARTBEAT', { 'heartbeat.period': 29, 'heartbeat.periodUnit': 'seconds' }],
  ['HEARTBEAT', { 'heartbeat.period': 366, 'heartbeat.periodUnit': 'days' }],
  ['HEARTBEAT', { 'heartbeat.grace': 366 }],
])('%s refuses %j', (checkType, fields, path = Object.keys(fields)[0]) => {
  expect(problemsOf(checkType, nested(fields))).toEqual([path])
})

test.each(['TLS1.3', 'TLSv1.3'])('SSL reads the version %s as TLS1.3', (value) => {
  const { minTLSVersion } = SecurityBaseline.parse({ minTLSVersion: { value } })
  expect(minTLSVersion.value).toBe('TLS1.3')
})

describe('assertions', () => {
  const assertion = (line: string, property = '') => {
    const [source, comparison, target = ''] = line.split(' ')
    return { request: { assertions: [{ source, property, comparison, target }] } }
  }
  test.each<[string, string, string?]>([
    ['DNS', 'RESPONSE_CODE NOT_EQUALS RCODE3841'],
    ['DNS', 'RESPONSE_CODE EQUALS {{CODE}}'],
    ['DNS', 'TEXT_ANSWER NOT_HAS_KEY x', '(.*)'],
    ['GRPC', 'GRPC_STATUS_CODE EQUALS 16'],
    ['TRACEROUTE', 'RESPONSE_TIME NOT_EQUALS 1', 'max'],
    ['SSL', 'TEXT_RESPONSE IS_EMPTY', '(.*)'],
  ])('%s: %s is accepted', (checkType, line, property) => {
    expect(problemsOf(checkType, assertion(line, property))).toEqual([])
  })

  test.each<[string, string, string, string?]>([
    ['DNS', 'RESPONSE_TIME LESS_THAN x', 'target'],
    ['DNS', 'STATUS_CODE EQUALS 200', 'source'],
    ['DNS', 'RESPONSE_CODE EQUALS NXDOMIAN', 'target'],
    ['DNS', 'RESPONSE_CODE EQUALS RCODE4096', 'target'],
    ['ICMP', 'LATENCY LESS_THAN 100', 'property'],
    ['ICMP', 'LATENCY HAS_KEY 100', 'comparison', 'avg'],
    ['ICMP', 'LATENCY LESS_THAN 100', 'property', 'constructor'],
    ['GRPC', 'GRPC_STATUS_CODE EQUALS 17', 'target'],
    ['GRPC', 'GRPC_HEALTHCHECK_STATUS EQUALS SERVING', 'target'],
    ['GRPC', 'GRPC_METADATA EQUALS x', 'property'],
    ['TRACEROUTE', 'RESPONSE_TIME LESS_THAN 5', 'property'],
    ['TRACEROUTE', 'PACKET_LOSS LESS_THAN 101', 'target'],
    ['TRACEROUTE', 'HOP_COUNT NOT_EQUALS 3', 'comparison'],
    ['SSL', 'CERTIFICATE EQUALS x', 'property'],
    ['SSL', 'CERTIFICATE CONTAINS 1', 'comparison', 'serialNumber'],
    ['SSL', 'CERTIFICATE EQUALS yes', 'target', 'selfSigned'],
    ['SSL', 'CONNECTION LESS_THAN TLSv1.3', 'target', 'tlsVersion'],
    ['SSL', 'CONNECTION EQUALS bad', 'target', 'ocspStatus'],
    ['SSL', 'TEXT_RESPONSE IS_NULL', 'comparison'],
  ])('%s: %s is refused at its %s', (checkType, line, field, property) => {
    expect(problemsOf(checkType, assertion(line, property))).toEqual([
      `request.assertions.0.${field}`,
    ])
  })
})

describe('a traceroute', () => {
  const request = (fields: Fields) =>
    parse('TRACEROUTE', { request: fields })['request'] as TracerouteRequest
  test.each([
    ['TCP', 443],
    ['UDP', 33_434],
    ['SCTP', 33_434],
    ['ICMP', undefined],
  ])('over %s goes to port %s', (protocol, port) => {
    expect(traceroutePort(request({ protocol }))).toBe(port)
  })

  test('bears 15 silent hops, or as many as it has', () => {
    expect(unknownHopsMax(request({}))).toBe(15)
    expect(unknownHopsMax(request({ maxHops: 4 }))).toBe(4)
  })
})
