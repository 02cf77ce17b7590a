// Aim: the own fields and assertions of each type of monitor have the bounds and defaults of the contract.
import { describe, expect, test } from 'vitest'
import type * as z from 'zod'
import { DEFINITIONS } from '../../src/monitors/definitions.ts'
import { traceroutePort, unknownHopsMax } from '../../src/monitors/traceroute/definition.ts'
import type { TracerouteRequest } from '../../src/monitors/traceroute/definition.ts'
import type { Monitor } from '../../src/contract/monitor.ts'
import { definitionOf, type Fields, merged } from '../support/definitions.ts'

const schemaOf = (checkType: string) => DEFINITIONS.get(checkType)?.schema as z.ZodType
const parse = (checkType: string, more: Fields = {}) =>
  schemaOf(checkType).parse(definitionOf(checkType, more)) as Monitor

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

test.each<[string, Fields]>([
  [
    'DNS',
    {
      request: { port: 53, protocol: 'UDP', assertions: [] },
      degradedResponseTime: 500,
      maxResponseTime: 1000,
    },
  ],
  [
    'ICMP',
    {
      request: { ipFamily: 'IPv4', pingCount: 10 },
      degradedPacketLossThreshold: 10,
      maxPacketLossThreshold: 20,
    },
  ],
  [
    'GRPC',
    {
      request: {
        ipFamily: 'IPv4',
        skipSSL: false,
        timeout: 60,
        grpcConfig: { mode: 'BEHAVIOR', tls: true, metadata: [] },
      },
      degradedResponseTime: 10_000,
      maxResponseTime: 20_000,
    },
  ],
  [
    'TRACEROUTE',
    {
      request: { protocol: 'TCP', ipFamily: 'IPv4', maxHops: 30, ptrLookup: true, timeout: 10 },
      degradedResponseTime: 10_000,
      maxResponseTime: 20_000,
    },
  ],
  [
    'SSL',
    {
      request: {
        sslConfig: {
          port: 443,
          ipFamily: 'IPv4',
          skipChainValidation: false,
          handshakeTimeoutMs: 10_000,
          alertDaysBeforeExpiry: 20,
          clientCertificateMode: 'auto',
          securityBaseline: {
            enabled: true,
            minTLSVersion: { value: 'TLS1.2', severity: 'fail' },
            minKeySizeBits: { value: 2048, severity: 'fail' },
            weakSignatureAlgorithm: { severity: 'fail' },
            weakCipherSuite: { severity: 'fail' },
            knownBadCA: { severity: 'fail' },
            recommendedTLSVersion: { value: 'TLS1.3', severity: 'ignore' },
            recommendedKeySizeBits: { value: 3072, severity: 'ignore' },
            ocspMustStapleRespected: { severity: 'ignore' },
            sctPresent: { severity: 'ignore' },
          },
        },
      },
      degradedResponseTime: 3000,
      maxResponseTime: 10_000,
    },
  ],
  ['PLAYWRIGHT', { testCommand: 'npx playwright test' }],
])('the defaults of %s are those of the contract', (checkType, defaults) => {
  expect(parse(checkType)).toMatchObject(defaults)
})

describe('accepted', () => {
  const request = (fields: Fields) => ({ request: fields })
  const grpc = (fields: Fields) => request({ grpcConfig: fields })
  const ssl = (fields: Fields) => request({ sslConfig: fields })
  test.each<[string, string, Fields]>([
    ['a record type by its number', 'DNS', request({ recordType: 'TYPE64' })],
    ['another port of a name server', 'DNS', request({ nameServer: '::1', port: 5353 })],
    ['the root', 'DNS', request({ query: '.', recordType: 'NS' })],
    ['a server in brackets', 'DNS', request({ nameServer: '[::1]', port: 5353 })],
    ['DNS over TLS', 'DNS', request({ nameServer: 'dns.test', protocol: 'DOT' })],
    ['a variable in a query', 'DNS', request({ query: '{{A}}..{{B}}' })],
    ['no EDNS', 'DNS', request({ ednsBytes: 0 })],
    ['50 echoes', 'ICMP', request({ pingCount: 50 })],
    ['a fraction of a percent', 'ICMP', { degradedPacketLossThreshold: 0.5 }],
    ['IPv6 addresses', 'ICMP', request({ hostname: '2001:db8::1' })],
    ['the largest payload', 'ICMP', request({ payloadBytes: 65_507, dontFragment: true })],
    ['a run of 44 s', 'ICMP', request({ pingCount: 50, intervalMs: 800, timeoutMs: 1000 })],
    ['a health check of the server', 'GRPC', grpc({ mode: 'HEALTH', method: '', service: '' })],
    ['a health check of a service', 'GRPC', grpc({ mode: 'HEALTH', method: '', service: 's' })],
    ['a proto file', 'GRPC', grpc({ serviceDefinition: 'PROTO_FILE', protoContent: 'x' })],
    ['a method as gRPC writes its path', 'GRPC', grpc({ method: '/a.v1.B/C' })],
    [
      'variables',
      'GRPC',
      grpc({
        method: '{{M}}',
        message: '{{A}}',
        metadata: [
          { key: '{{ K }}', value: '{{ V }}' },
          { key: 'a-bin', value: '{{B}}' },
        ],
      }),
    ],
    ['a host with a variable', 'GRPC', request({ url: '{{HOST}}:{{X}}' })],
    ['an address in brackets', 'SSL', ssl({ hostname: '[::1]' })],
    ['180 s', 'GRPC', { maxResponseTime: 180_000, ...request({ timeout: 180 }) }],
    ['a trace of 64 hops', 'TRACEROUTE', request({ maxHops: 64, maxUnknownHops: 30 })],
    ['a short trace', 'TRACEROUTE', request({ maxHops: 3 })],
    ['a trace every 30 s', 'TRACEROUTE', { frequency: 0, frequencyOffset: 30 }],
    ['part of a baseline', 'SSL', ssl({ securityBaseline: { minKeySizeBits: { value: 1024 } } })],
    [
      'a client certificate',
      'SSL',
      merged(ssl({ clientCertificateMode: 'explicit' }), request({ sslClientCertificateId: 'c' })),
    ],
    ['files of a script', 'BROWSER', { dependencies: [{ path: 'a/b.ts', content: '' }] }],
    ['a host next to a script', 'BROWSER', { sslCheckDomain: null, runtimeId: '2022.10' }],
    ['the first runtime with steps', 'MULTI_STEP', { runtimeId: '2023.09' }],
    ['a whole version of an engine', 'PLAYWRIGHT', { engine: 'bun', engineVersion: '1.3.14' }],
    ['365 days', 'HEARTBEAT', { heartbeat: { period: 365, periodUnit: 'days' } }],
    ['30 seconds', 'HEARTBEAT', { heartbeat: { period: 30, periodUnit: 'seconds' } }],
  ])('%s', (_, checkType, fields) => {
    expect(problemsOf(checkType, fields)).toEqual([])
  })
})

describe('refused', () => {
  const CONFIG = 'request.grpcConfig'
  const SSL_CONFIG = 'request.sslConfig'
  test.each<[string, string, Fields, string]>([
    ['no query', 'DNS', { request: { query: '' } }, 'request.query'],
    ['101 characters', 'DNS', { request: { query: 'a'.repeat(101) } }, 'request.query'],
    ['a record type that is none', 'DNS', { request: { recordType: 'Q' } }, 'request.recordType'],
    ['a port without its server', 'DNS', { request: { port: 5353 } }, 'request.port'],
    ['another protocol', 'DNS', { request: { protocol: 'QUIC' } }, 'request.protocol'],
    ['a type above 65535', 'DNS', { request: { recordType: 'TYPE65536' } }, 'request.recordType'],
    ['a zone transfer', 'DNS', { request: { recordType: 'TYPE252' } }, 'request.recordType'],
    ['EDNS itself', 'DNS', { request: { recordType: 'TYPE41' } }, 'request.recordType'],
    ['a query that is no name', 'DNS', { request: { query: 'a..b' } }, 'request.query'],
    ['port 0', 'DNS', { request: { nameServer: 'a.test', port: 0 } }, 'request.port'],
    ['a server with a port', 'DNS', { request: { nameServer: 'a.test:53' } }, 'request.nameServer'],
    ['a server as URL', 'DNS', { request: { nameServer: 'https://a' } }, 'request.nameServer'],
    ['DNS over TLS with nobody', 'DNS', { request: { protocol: 'DOT' } }, 'request.nameServer'],
    ['DNS over HTTPS with nobody', 'DNS', { request: { protocol: 'DOH' } }, 'request.nameServer'],
    ['datagrams of 511 bytes', 'DNS', { request: { ednsBytes: 511 } }, 'request.ednsBytes'],
    ['DO without EDNS', 'DNS', { request: { ednsBytes: 0, dnssecOk: true } }, 'request.dnssecOk'],
    ['NSID without EDNS', 'DNS', { request: { ednsBytes: 0, nsid: true } }, 'request.nsid'],
    ['a path that is none', 'DNS', { request: { dohPath: 'dns-query' } }, 'request.dohPath'],
    ['six attempts', 'DNS', { request: { attempts: 6 } }, 'request.attempts'],
    ['5,001 ms', 'DNS', { maxResponseTime: 5001 }, 'maxResponseTime'],
    ['no echo', 'ICMP', { request: { pingCount: 0 } }, 'request.pingCount'],
    ['51 echoes', 'ICMP', { request: { pingCount: 51 } }, 'request.pingCount'],
    ['an address', 'ICMP', { request: { hostname: 'http://a.test' } }, 'request.hostname'],
    ['a loss of 0', 'ICMP', { maxPacketLossThreshold: 0 }, 'maxPacketLossThreshold'],
    ['a loss of 101', 'ICMP', { degradedPacketLossThreshold: 101 }, 'degradedPacketLossThreshold'],
    ['no payload', 'ICMP', { request: { payloadBytes: 0 } }, 'request.payloadBytes'],
    ['no hop', 'ICMP', { request: { ttl: 0 } }, 'request.ttl'],
    ['echoes for a minute', 'ICMP', { request: { intervalMs: 6000 } }, 'request.pingCount'],
    ['response times of echoes', 'ICMP', { maxResponseTime: 5 }, ''],
    ['no method', 'GRPC', { request: { grpcConfig: { method: '' } } }, `${CONFIG}.method`],
    [
      'a method in a health check',
      'GRPC',
      { request: { grpcConfig: { mode: 'HEALTH' } } },
      `${CONFIG}.method`,
    ],
    [
      'a definition in a health check',
      'GRPC',
      { request: { grpcConfig: { mode: 'HEALTH', method: '', serviceDefinition: 'REFLECTION' } } },
      `${CONFIG}.serviceDefinition`,
    ],
    [
      'a service of a call',
      'GRPC',
      { request: { grpcConfig: { service: 's' } } },
      `${CONFIG}.service`,
    ],
    [
      'a proto file without text',
      'GRPC',
      { request: { grpcConfig: { serviceDefinition: 'PROTO_FILE' } } },
      `${CONFIG}.protoContent`,
    ],
    ['port 0', 'GRPC', { request: { port: 0 } }, 'request.port'],
    ['a host with its port', 'GRPC', { request: { url: 'a.test:50051' } }, 'request.url'],
    ['a host with its port', 'ICMP', { request: { hostname: 'a.test:7' } }, 'request.hostname'],
    ['a host with its port', 'TRACEROUTE', { request: { url: '[::1]:7' } }, 'request.url'],
    [
      'a host with its port',
      'SSL',
      { request: { sslConfig: { hostname: 'a.test:443' } } },
      `${SSL_CONFIG}.hostname`,
    ],
    [
      'a method that is none',
      'GRPC',
      { request: { grpcConfig: { method: 'Greet' } } },
      `${CONFIG}.method`,
    ],
    [
      'a message that is not JSON',
      'GRPC',
      { request: { grpcConfig: { message: '{"a":' } } },
      `${CONFIG}.message`,
    ],
    [
      'metadata with a blank',
      'GRPC',
      {
        request: {
          grpcConfig: {
            metadata: [
              { key: 'a', value: '' },
              { key: 'a b', value: '' },
            ],
          },
        },
      },
      `${CONFIG}.metadata.1`,
    ],
    [
      'metadata of two lines',
      'GRPC',
      { request: { grpcConfig: { metadata: [{ key: 'a', value: 'b\nc' }] } } },
      `${CONFIG}.metadata.0`,
    ],
    ['181 s', 'GRPC', { request: { timeout: 181 } }, 'request.timeout'],
    ['a port of ICMP', 'TRACEROUTE', { request: { protocol: 'ICMP', port: 7 } }, 'request.port'],
    ['65 hops', 'TRACEROUTE', { request: { maxHops: 65 } }, 'request.maxHops'],
    [
      'more unresponsive hops than hops',
      'TRACEROUTE',
      { request: { maxHops: 5, maxUnknownHops: 6 } },
      'request.maxUnknownHops',
    ],
    ['a trace every 29 s', 'TRACEROUTE', { frequency: 0, frequencyOffset: 29 }, 'frequencyOffset'],
    ['30,001 ms', 'TRACEROUTE', { maxResponseTime: 30_001 }, 'maxResponseTime'],
    [
      'a hasty handshake',
      'SSL',
      { request: { sslConfig: { handshakeTimeoutMs: 999 } } },
      `${SSL_CONFIG}.handshakeTimeoutMs`,
    ],
    [
      'a warning 366 days ahead',
      'SSL',
      { request: { sslConfig: { alertDaysBeforeExpiry: 366 } } },
      `${SSL_CONFIG}.alertDaysBeforeExpiry`,
    ],
    [
      'a key of 512 bits as the least',
      'SSL',
      { request: { sslConfig: { securityBaseline: { minKeySizeBits: { value: 512 } } } } },
      `${SSL_CONFIG}.securityBaseline.minKeySizeBits.value`,
    ],
    [
      'an explicit certificate that is none',
      'SSL',
      { request: { sslConfig: { clientCertificateMode: 'explicit' } } },
      'request.sslClientCertificateId',
    ],
    ['a handshake every 59 s', 'SSL', { frequency: 0, frequencyOffset: 59 }, 'frequency'],
    ['a browser every 30 s', 'BROWSER', { frequency: 0, frequencyOffset: 30 }, 'frequency'],
    ['no script', 'BROWSER', { script: '' }, 'script'],
    ['a script of comments', 'MULTI_STEP', { script: ' // a\n/* b */ ' }, 'script'],
    ['a runtime without steps', 'MULTI_STEP', { runtimeId: '2023.02' }, 'runtimeId'],
    ['a suite every 30 s', 'PLAYWRIGHT', { frequency: 0, frequencyOffset: 30 }, 'frequency'],
    ['Bun 2', 'PLAYWRIGHT', { engine: 'bun', engineVersion: '2.0' }, 'engineVersion'],
    ['a version that is none', 'PLAYWRIGHT', { engineVersion: 'lts' }, 'engineVersion'],
    ['another engine', 'PLAYWRIGHT', { engine: 'deno' }, 'engine'],
    [
      '29 seconds',
      'HEARTBEAT',
      { heartbeat: { period: 29, periodUnit: 'seconds' } },
      'heartbeat.period',
    ],
    [
      '366 days',
      'HEARTBEAT',
      { heartbeat: { period: 366, periodUnit: 'days' } },
      'heartbeat.period',
    ],
    ['grace of 366 days', 'HEARTBEAT', { heartbeat: { grace: 366 } }, 'heartbeat.grace'],
  ])('%s (%s)', (_, checkType, fields, path) => {
    expect(problemsOf(checkType, fields)).toEqual([path])
  })
})

describe('assertions', () => {
  const assertion = (line: string, property = '') => {
    const [source, comparison, target = ''] = line.split(' ')
    return { request: { assertions: [{ source, property, comparison, target }] } }
  }
  test.each<[string, string, string?]>([
    ['DNS', 'RESPONSE_CODE EQUALS NXDOMAIN'],
    ['DNS', 'RESPONSE_CODE NOT_EQUALS RCODE3841'],
    ['DNS', 'RESPONSE_CODE CONTAINS NX'],
    ['DNS', 'RESPONSE_CODE EQUALS {{CODE}}'],
    ['DNS', 'TEXT_ANSWER NOT_HAS_KEY x', '(.*)'],
    ['DNS', 'JSON_ANSWER IS_NULL', '$.x'],
    ['ICMP', 'LATENCY LESS_THAN 100', 'stdDev'],
    ['ICMP', 'JSON_RESPONSE NOT_NULL', '$.x'],
    ['GRPC', 'GRPC_STATUS_CODE EQUALS 16'],
    ['GRPC', 'GRPC_HEALTHCHECK_STATUS NOT_EQUALS 3'],
    ['GRPC', 'GRPC_RESPONSE HAS_KEY x', '$.x'],
    ['GRPC', 'GRPC_METADATA CONTAINS x', 'x-id'],
    ['TRACEROUTE', 'RESPONSE_TIME NOT_EQUALS 1', 'max'],
    ['TRACEROUTE', 'PACKET_LOSS LESS_THAN 100'],
    ['TRACEROUTE', 'HOP_COUNT EQUALS 3'],
    ['SSL', 'CERTIFICATE GREATER_THAN 10', 'daysUntilExpiry'],
    ['SSL', 'CERTIFICATE NOT_CONTAINS a.test', 'sans'],
    ['SSL', 'CERTIFICATE EQUALS true', 'isCA'],
    ['SSL', 'CONNECTION GREATER_THAN TLS1.1', 'tlsVersion'],
    ['SSL', 'CONNECTION NOT_EQUALS revoked', 'ocspStatus'],
    ['SSL', 'TEXT_RESPONSE IS_EMPTY', '(.*)'],
  ])('%s: %s is accepted', (checkType, line, property) => {
    expect(problemsOf(checkType, assertion(line, property))).toEqual([])
  })

  test.each<[string, string, string, string?]>([
    ['DNS', 'RESPONSE_TIME LESS_THAN x', 'target'],
    ['DNS', 'STATUS_CODE EQUALS 200', 'source'],
    ['DNS', 'RESPONSE_CODE EQUALS NXDOMIAN', 'target'],
    ['DNS', 'RESPONSE_CODE NOT_EQUALS RCODE3', 'target'],
    ['DNS', 'RESPONSE_CODE EQUALS RCODE4096', 'target'],
    ['ICMP', 'LATENCY LESS_THAN 100', 'property'],
    ['ICMP', 'LATENCY LESS_THAN 100', 'property', 'median'],
    ['ICMP', 'LATENCY HAS_KEY 100', 'comparison', 'avg'],
    ['ICMP', 'LATENCY LESS_THAN 100', 'property', 'constructor'],
    ['GRPC', 'GRPC_STATUS_CODE EQUALS 17', 'target'],
    ['GRPC', 'GRPC_STATUS_CODE CONTAINS 1', 'comparison'],
    ['GRPC', 'GRPC_HEALTHCHECK_STATUS EQUALS SERVING', 'target'],
    ['GRPC', 'GRPC_HEALTHCHECK_STATUS LESS_THAN 1', 'comparison'],
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
    expect(
      [{}, { maxHops: 4 }, { maxUnknownHops: 2 }].map((one) => unknownHopsMax(request(one))),
    ).toEqual([15, 4, 2])
  })
})
