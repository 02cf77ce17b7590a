// Every type and option that a backup of Uptime Kuma has, and what becomes of it. All files that are written are valid.
import { describe, expect, test } from 'vitest'
import {
  type Expected,
  expectedOutcome,
  imported,
  outcomeOf,
} from '../../support/cli/imported-file.ts'
import { createAuthority } from '../../support/network/certificates.ts'

const SHOP = 'https://shop.example.com/'
/** What a backup has of every monitor, whatever its type. */
const DEFAULTS = {
  id: 1,
  name: 'Shop',
  description: null,
  url: SHOP,
  method: 'GET',
  hostname: null,
  port: null,
  maxretries: 0,
  weight: 2000,
  active: true,
  type: 'http',
  timeout: 48,
  interval: 60,
  retryInterval: 60,
  resendInterval: 0,
  keyword: null,
  expiryNotification: false,
  ignoreTls: false,
  upsideDown: false,
  maxredirects: 10,
  accepted_statuscodes: ['200-299'],
  dns_resolve_type: 'A',
  dns_resolve_server: '1.1.1.1',
  proxyId: null,
  notificationIDList: {},
  tags: [],
  authMethod: null,
  grpcEnableTls: false,
  httpBodyEncoding: null,
  headers: null,
  body: null,
  basic_auth_user: null,
  basic_auth_pass: null,
  pushToken: null,
  packetSize: 56,
  conditions: [],
}

const importOne = (...monitors: object[]) => {
  const monitorList = monitors.map((one) => ({ ...DEFAULTS, ...one }))
  return imported({
    files: { 'backup.json': JSON.stringify({ version: '1.23.0', monitorList }, null, 4) },
  })
}

const importShort = (monitor: object) => importOne({ timeout: 10, ...monitor })

const request = (one: object) => ({ request: one })
const asserted = (one: object) =>
  request({ assertions: expect.arrayContaining([expect.objectContaining(one)]) })
const header = (one: object) => request({ headers: [expect.objectContaining(one)] })
const GRPC = {
  grpcUrl: 'a.example:50051',
  grpcProtobuf:
    'syntax = "proto3";\npackage a;\nservice B { rpc C(D) returns (D); }\nmessage D {}\n',
  grpcServiceName: 'B',
  grpcMethod: 'C',
  grpcBody: '{"password": "hidden-1"}',
  grpcMetadata: '{"x-key": "hidden-1"}',
  grpcEnableTls: true,
  keyword: 'ok',
}
const GRPC_REQUEST = {
  port: 50_051,
  grpcConfig: {
    method: 'a.B/C',
    tls: true,
    message: '{"password": "{{SHOP_BODY}}"}',
    metadata: [expect.objectContaining({ value: '{{SHOP_X_KEY}}' })],
  },
  assertions: [expect.objectContaining({ source: 'TEXT_BODY', target: 'ok' })],
}
const A = { hostname: 'a.example' }
const HOST = { ...A, port: 25 }
const IN_TEXT = { source: 'TEXT_BODY', target: 'ok' }
const JSON_IS = { property: '$.a[0].b', comparison: 'EQUALS', target: 'c' }
const OVER = { jsonPath: 'a', expectedValue: '5' }
const JSON_OVER = { property: '$.a', comparison: 'GREATER_THAN' }
const ONE_PING = { maxPacketLossThreshold: 100, request: { ...A, pingCount: 1 } }
const PINGS = { ...A, packetSize: 100, ping_count: 3, ping_per_request_timeout: 2 }
const DNS = { query: 'a.example', nameServer: '1.1.1.1' }
const SOCKET = { url: 'wss://a.example/', wsSubprotocol: 'a, b', accepted_statuscodes: ['1000'] }
const CLOSED = { assertions: [expect.objectContaining({ source: 'CLOSE_CODE' })] }
const SOCKET_REQUEST = { subprotocols: ['a', 'b'], ...CLOSED }
const SMTP = [{ expect: '^220 ' }, {}, { expect: '^250 ' }]
const STARTTLS = expect.arrayContaining([{ startTls: true }])

describe('the type', () => {
  test.each<[string, object, Expected]>([
    ['http', {}, { checkType: 'API', request: { method: 'GET', url: SHOP } }],
    ['keyword', { keyword: 'ok' }, asserted({ ...IN_TEXT, comparison: 'CONTAINS' })],
    ['keyword', { keyword: 'ok', invertKeyword: true }, asserted({ comparison: 'NOT_CONTAINS' })],
    ['json-query', { jsonPath: '$.a[0].b', expectedValue: 'c' }, asserted(JSON_IS)],
    ['json-query', { ...OVER, jsonPathOperator: '>' }, asserted(JSON_OVER)],
    ['json-query', { ...OVER, jsonPathOperator: '>=' }, 'refused'],
    ['json-query', { jsonPath: '$sum(a)', expectedValue: '5' }, 'refused'],
    ['port', HOST, { checkType: 'TCP', request: HOST }],
    ['port', { ...HOST, smtpSecurity: 'secure' }, request({ tls: true })],
    ['port', { ...HOST, smtpSecurity: 'starttls' }, 'refused'],
    ['port', { ...HOST, expectedTlsAlert: 'certificate_required' }, 'refused'],
    ['ping', { ...A, ping_numeric: true }, { checkType: 'ICMP', ...ONE_PING }],
    ['ping', PINGS, request({ payloadBytes: 100, pingCount: 3, timeoutMs: 2000 })],
    ['dns', { ...A, port: 53, timeout: 5 }, { checkType: 'DNS', request: DNS }],
    ['dns', { ...A, dns_resolve_server: '1.1.1.1,9.9.9.9' }, 'refused'],
    ['dns', { ...A, conditions: [{ type: 'expression' }] }, 'refused'],
    ['grpc-keyword', GRPC, { checkType: 'GRPC', request: GRPC_REQUEST }],
    ['grpc-keyword', { ...GRPC, grpcMetadata: 'nonsense' }, 'refused'],
    ['websocket-upgrade', SOCKET, { checkType: 'WEBSOCKET', request: SOCKET_REQUEST }],
    ['websocket-upgrade', { ...SOCKET, accepted_statuscodes: ['1000', '1001'] }, 'refused'],
    ['websocket-upgrade', { ...SOCKET, wsIgnoreSecWebsocketAcceptHeader: true }, 'refused'],
    ['smtp', HOST, { checkType: 'TCP', request: { port: 25, dialogue: SMTP } }],
    ['smtp', { ...HOST, smtpSecurity: 'starttls' }, request({ dialogue: STARTTLS })],
    ...`push real-browser docker pm2 manual globalping kafka-producer mqtt ntp rabbitmq snmp sqlserver mongodb mysql
      oracledb postgres radius redis gamedig steam sip-options system-service tailscale-ping`
      .split(/\s+/)
      .map((type): [string, object, Expected] => [type, { pushToken: 'hidden-1' }, 'refused']),
  ])('%s %j', async (type, more, expected) => {
    expect(outcomeOf(await importShort({ type, ...more }))).toMatchObject(expectedOutcome(expected))
  })

  test('group is a tag of its monitors', async () => {
    const group = { id: 7, type: 'group', name: 'Core' }
    const { code, monitors } = await importOne(group, { parent: 7 })
    expect([code, monitors]).toMatchObject([0, [{ name: 'Shop', tags: ['Core'] }]])
  })
})

const TAGS = Object.entries({ env: 'prod', a: '' }).map(([name, value]) => ({ name, value }))
const OR_401 = asserted({ regex: '^(?:2..|401)$' })
const UP_TO_399 = asserted({ comparison: 'LESS_THAN', target: '400' })
const BODY = '{"token":"{{SHOP_BODY}}"}'
const URL_OF_ANN = 'https://ann:{{SHOP_URL}}@a.example/'

describe('an option', () => {
  test.each<[string, unknown, Expected]>([
    ['description', 'a', { description: 'a' }],
    ['active', false, { activated: false }],
    ['active', 0, { activated: false }],
    ['interval', 30, { frequency: 0, frequencyOffset: 30 }],
    ['interval', 90, 'noted'],
    ['timeout', 4, { maxResponseTime: 4000, degradedResponseTime: 2000 }],
    ['timeout', 48, 'noted'],
    ['timeout', null, 'noted'],
    ['maxretries', 2, { retryStrategy: { type: 'FIXED', maxRetries: 2, baseBackoffSeconds: 60 } }],
    ['maxretries', 20, 'noted'],
    ['tags', TAGS, { tags: ['env:prod', 'a'] }],
    ['upsideDown', true, 'refused'],
    ['proxyId', 3, 'refused'],
    ['method', 'POST', request({ method: 'POST' })],
    ['ignoreTls', true, request({ skipSSL: true })],
    ['maxredirects', 0, request({ followRedirects: false })],
    ['maxredirects', 3, 'noted'],
    ['accepted_statuscodes', ['200-299', '401'], { shouldFail: true, ...OR_401 }],
    ['accepted_statuscodes', ['200-299', '300-399'], { shouldFail: false, ...UP_TO_399 }],
    ['accepted_statuscodes', '200-299', 'refused'],
    ['accepted_statuscodes', ['2xx'], 'refused'],
    ['accepted_statuscodes', ['1000'], 'refused'],
    ['interval', 'x', 'refused'],
    ['timeout', 'x', 'refused'],
    ['headers', '{"X-Api-Key": "hidden-1"}', header({ value: '{{SHOP_X_API_KEY}}' })],
    ['headers', 'nonsense', 'refused'],
    ['body', '{"token":"hidden-1"}', request({ body: BODY, bodyType: 'JSON' })],
    ['url', 'https://ann:hidden-1@a.example/', request({ url: URL_OF_ANN })],
    ['authMethod', 'ntlm', 'refused'],
    ['authMethod', 'oauth2-cc', 'refused'],
    ['basic_auth_user', 'ann', request({ basicAuth: { username: 'ann' } })],
    ['cacheBust', true, 'refused'],
    ['ipFamily', 'ipv6', request({ ipFamily: 'IPv6' })],
    ['notificationIDList', { 1: true }, 'noted'],
    ['resendInterval', 5, 'noted'],
    ['expiryNotification', true, 'noted'],
    ['domainExpiryNotification', true, 'noted'],
    ['retryOnlyOnStatusCodeFailure', true, 'noted'],
    ['saveResponse', true, 'noted'],
    ['no_such_option', 1, 'refused'],
    ['tags', 5, 'refused'],
  ])('%s: %j', async (option, value, expected) => {
    const outcome = outcomeOf(await importShort({ [option]: value }))
    expect(outcome).toMatchObject(expectedOutcome(expected))
  })

  const LOGIN = { basic_auth_user: 'ann', basic_auth_pass: 'hidden-1' }
  const BASIC = { basicAuth: { username: 'ann', password: '{{SHOP_PASSWORD}}' } }
  test.each<[string, object, Expected]>([
    ['basic', LOGIN, request(BASIC)],
    ['bearer', { bearer_token: 'hidden-1' }, header({ value: 'Bearer {{SHOP_TOKEN}}' })],
  ])('authMethod: %s', async (authMethod, more, expected) => {
    const outcome = outcomeOf(await importShort({ authMethod, ...more }))
    expect(outcome).toMatchObject(expectedOutcome(expected))
  })

  test('authMethod: mtls', async () => {
    const { cert, key } = createAuthority().issue()
    const monitorList = [{ ...DEFAULTS, authMethod: 'mtls', tlsCert: cert, tlsKey: key, tlsCa: '' }]
    const { code, out, err, monitors } = await imported({
      files: { 'backup.json': JSON.stringify({ monitorList }) },
      env: { SHOP_PRIVATE_KEY: key },
    })
    expect(`${out}${err}`).not.toContain(key.split('\n')[1])
    const tls = { certificate: cert, privateKey: '{{SHOP_PRIVATE_KEY}}' }
    expect([code, monitors[0]]).toMatchObject([0, request({ tls })])
  })

  test.each([
    ['form', { bodyType: 'FORM' }],
    ['json', { bodyType: 'JSON' }],
    ['xml', { bodyType: 'RAW', headers: [expect.objectContaining({ key: 'Content-Type' })] }],
  ])('httpBodyEncoding: %s', async (httpBodyEncoding, expected) => {
    const monitor = { body: '<a/>', httpBodyEncoding }
    expect(outcomeOf(await importShort(monitor))).toMatchObject(expectedOutcome(request(expected)))
  })

  test('options of other types have no effect', async () => {
    const others = Object.fromEntries(OF_OTHER_TYPES.map((name) => [name, name]))
    const monitor = { ...others, kafkaProducerBrokers: [], rabbitmqNodes: [] }
    expect(outcomeOf(await importShort(monitor))).toMatchObject(expectedOutcome('nothing'))
  })
})

const OF_OTHER_TYPES =
  `path pathName subtype location protocol docker_container docker_host mqttTopic
  mqttSuccessMessage mqttCheckType databaseQuery databaseConnectionString radiusCalledStationId game system_service_name
  kafkaProducerTopic kafkaProducerMessage remote_browser screenshot snmpOid snmpVersion smtpSecurity
  ntpStratumThreshold dns_last_result oauth_client_id oauth_client_secret grpcUrl radiusSecret authDomain`.split(
    /\s+/,
  )

test.each([
  ['a list', [DEFAULTS]],
  ['a mapping by id', { 1: DEFAULTS }],
])('monitors of the API: %s', async (_, monitors) => {
  const { code, monitors: read } = await imported({
    files: { 'monitors.json': JSON.stringify(monitors) },
  })
  expect([code, read.length]).toEqual([0, 1])
})
