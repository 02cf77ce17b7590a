// Every option and condition that gatus documents, and what becomes of it. All files that are written are valid.
import { stringify } from 'yaml'
import { describe, expect, test } from 'vitest'
import {
  type Expected,
  expectedOutcome,
  imported,
  outcomeOf,
} from '../../support/cli/imported-file.ts'
import { createAuthority } from '../../support/network/certificates.ts'

const SHOP = 'https://shop.example.com/'

const importOne = (endpoint: object, files: Record<string, string> = {}) => {
  const one = { name: 'Shop', url: SHOP, conditions: ['[STATUS] == 200'], ...endpoint }
  return imported({ files: { 'gatus.yaml': stringify({ endpoints: [one] }), ...files } })
}

const request = (one: object) => ({ request: one })
const asserted = (one: object) =>
  request({ assertions: expect.arrayContaining([expect.objectContaining(one)]) })

const header = (value: string) => request({ headers: [expect.objectContaining({ value })] })
/** What becomes of secrets in addresses. */
const URLS: Record<string, string> = {
  'https://ann:hidden-1@a.example/': 'https://ann:{{SHOP_URL}}@a.example/',
  'https://a.example/?token=hidden-1': 'https://a.example/?token={{SHOP_URL}}',
  'https://ann:hidden-1%40b@a.example/': 'https://ann:{{SHOP_URL}}@a.example/',
  'https://hidden-1:@a.example/': 'https://{{SHOP_URL}}:@a.example/',
  'https://a.example/?api_key=hidden-1%2Fdef%3D%3D#b': 'https://a.example/?api_key={{SHOP_URL}}#b',
  'https://a.example/?token=hidden-1a&token=hidden-1b':
    'https://a.example/?token={{SHOP_URL}}&token={{SHOP_URL_2}}',
  'https://a.example/?token=hidden-1-$SUFFIX': 'https://a.example/?token={{SHOP_URL}}',
  'https://a.example/?token=$API_KEY': 'https://a.example/?token={{API_KEY}}',
}
const NAMED = { body: `a Shop  ${SHOP}`, bodyType: 'RAW' }
/** What becomes of secrets in bodies. */
const BODIES: Record<string, string> = {
  'a=b&password=hidden-1%40ss': 'a=b&password={{SHOP_BODY}}',
  '{"password":"hidden-1\\"b", "a": "password"}': '{"password":"{{SHOP_BODY}}", "a": "password"}',
  '{"a": "https://a.example/?token=hidden-1", "b": ":"}':
    '{"a": "https://a.example/?token={{SHOP_BODY}}", "b": ":"}',
}

describe('an option of an endpoint', () => {
  test.each<readonly [string, unknown, Expected]>([
    ['enabled', false, { activated: false }],
    ['name', 'Other', { name: 'Other', id: 'other' }],
    ['group', 'core', { tags: ['core'] }],
    ...Object.entries(URLS).map(([given, url]) => ['url', given, request({ url })] as const),
    ...Object.entries(BODIES).map(([given, body]) => ['body', given, request({ body })] as const),
    ['body', 'password=hidden-1 and more', 'refused'],
    ['body', '[{"key": "token", "value": "hidden-1"}]', 'refused'],
    ['method', 'POST', request({ method: 'POST' })],
    ['interval', '30s', { frequency: 0, frequencyOffset: 30 }],
    ['interval', '1m30s', 'noted'],
    ['interval', 'often', 'refused'],
    ['graphql', true, 'nothing'],
    ['body', 'a [ENDPOINT_NAME] [ENDPOINT_GROUP] [ENDPOINT_URL]', request(NAMED)],
    ['body', '[RANDOM_STRING_8]', 'refused'],
    ['body', '[LOCAL_ADDRESS]', 'refused'],
    ['body', '{{ .Name }}', 'nothing'],
    ['headers', { 'X-Api-Key': 'hidden-1' }, header('{{SHOP_X_API_KEY}}')],
    ['headers', { 'X-Api-Key': '$API_KEY' }, header('{{API_KEY}}')],
    ['headers', { 'X-Api-Key': 'hidden-1-$SUFFIX' }, header('{{SHOP_X_API_KEY}}')],
    ['headers', { Authorization: 'Bearer $API_KEY' }, header('Bearer {{API_KEY}}')],
    ['headers', { A: '$$5 ${API_KEY}' }, header('$5 {{API_KEY}}')],
    ['headers', 'a', 'refused'],
    ['conditions', '[STATUS] == 200', 'refused'],
    ['enabled', '$ENABLED', 'refused'],
    ['alerts', [{ type: 'slack' }], 'noted'],
    ['maintenance-windows', [{ start: '07:30', duration: '1h' }], 'noted'],
    ['ui', { 'hide-url': true }, 'noted'],
    ['extra-labels', { a: 'b' }, 'noted'],
    ['store', { id: '[BODY].id' }, 'refused'],
    ['always-run', true, 'refused'],
    ['no-such-option', 1, 'refused'],
  ])('%s: %j', async (option, value, expected) => {
    expect(outcomeOf(await importOne({ [option]: value }))).toMatchObject(expectedOutcome(expected))
  })

  test.each<[string, unknown, Expected]>([
    ['insecure', true, request({ skipSSL: true })],
    ['ignore-redirect', true, request({ followRedirects: false })],
    ['timeout', '3s', { maxResponseTime: 3000, degradedResponseTime: 1500 }],
    ['timeout', '2m', 'noted'],
    ['dns-resolver', 'tcp://192.0.2.53:53', 'refused'],
    ['oauth2', { 'token-url': 'http://x/' }, 'refused'],
    ['proxy-url', 'http://proxy:3128', 'refused'],
    ['identity-aware-proxy', { audience: 'a' }, 'refused'],
    ['tls', { renegotiation: 'once' }, 'refused'],
    ['tls', { 'certificate-file': '/nowhere.pem' }, 'refused'],
    ['network', 'ip6', request({ ipFamily: 'IPv6' })],
    ['tunnel', 'production', 'refused'],
    ['store-cookies', true, 'refused'],
  ])('client.%s: %j', async (option, value, expected) => {
    const outcome = outcomeOf(await importOne({ client: { [option]: value } }))
    expect(outcome).toMatchObject(expectedOutcome(expected))
  })

  test('client.tls: a certificate and its key', async () => {
    const { cert, key } = createAuthority().issue()
    const tls = { 'certificate-file': 'a.pem', 'private-key-file': 'a.key', renegotiation: 'never' }
    const { code, monitors } = await importOne({ client: { tls } }, { 'a.pem': cert, 'a.key': key })
    const expected = request({ tls: { certificate: cert, privateKey: key } })
    expect([code, monitors[0]]).toMatchObject([0, expected])
  })
})

describe('the scheme', () => {
  const connected = ['[CONNECTED] == true']
  const of = (checkType: string, one: object) => ({ checkType, ...request(one) })
  const grpc = (tls: boolean) => ({ grpcConfig: { mode: 'HEALTH', tls } })
  const ssl = (one: object) => of('SSL', { sslConfig: one })
  const PING = { hostname: 'a.example', pingCount: 1, timeoutMs: 10_000 }
  const QUERY = { client: { timeout: '5s' }, dns: { 'query-name': 'a.example', 'query-type': 'A' } }
  const A = { query: 'a.example', recordType: 'A', nameServer: '192.0.2.53' }
  const INSECURE = { client: { insecure: true } }
  test.each<[string, object, Expected]>([
    ['tcp://a.example:5', { body: 'a' }, of('TCP', { hostname: 'a.example', port: 5, data: 'a' })],
    ['udp://a.example:80', {}, 'refused'],
    ['sctp://a.example:80', {}, 'refused'],
    ['icmp://a.example', {}, of('ICMP', PING)],
    ['icmp://a.example', { client: { timeout: '40s' } }, 'noted'],
    ['ws://a.example/b', { body: 'a' }, of('WEBSOCKET', { url: 'ws://a.example/b', message: 'a' })],
    ['grpc://a.example:50051', {}, of('GRPC', { port: 50_051, ...grpc(false) })],
    ['grpcs://a.example:443', INSECURE, of('GRPC', { skipSSL: true, ...grpc(true) })],
    ['tls://a.example:636', {}, ssl({ hostname: 'a.example', port: 636 })],
    ['tls://a.example:636', INSECURE, ssl({ skipChainValidation: true })],
    ['tls://a.example:636', { body: 'a' }, of('TCP', { tls: true, data: 'a' })],
    ['starttls://a.example:587', {}, ssl({ startTls: 'SMTP' })],
    ['ssh://a.example', {}, of('TCP', { port: 22, dialogue: [{ expect: '^SSH-' }] })],
    ['ssh://a.example', { ssh: { username: 'a', password: 'hidden-1' } }, 'refused'],
    ['192.0.2.53', QUERY, of('DNS', A)],
    ['192.0.2.53', { ...QUERY, client: {} }, 'noted'],
    ['192.0.2.53', { dns: { 'query-nam': 'a' } }, 'refused'],
    ['gopher://a.example', {}, 'refused'],
  ])('%s %j', async (url, more, expected) => {
    const endpoint = { url, conditions: connected, interval: '1m', ...more }
    expect(outcomeOf(await importOne(endpoint))).toMatchObject(expectedOutcome(expected))
  })
})

describe('a condition', () => {
  const json = (property: string, comparison: string, more: object = {}) =>
    Object.assign({ source: 'JSON_BODY', property, comparison }, more)
  test.each<[string, object | 'refused']>([
    ['[STATUS] == 200', { source: 'STATUS_CODE', comparison: 'EQUALS', target: '200' }],
    ['[STATUS] < 300', { source: 'STATUS_CODE', comparison: 'LESS_THAN', target: '300' }],
    ['[STATUS] <= 299', { source: 'STATUS_CODE', comparison: 'LESS_THAN', target: '300' }],
    ['[STATUS] > 400', { source: 'STATUS_CODE', comparison: 'GREATER_THAN', target: '400' }],
    ['[STATUS] == any(200, 429)', { source: 'STATUS_CODE', regex: '^(?:200|429)$' }],
    ['[STATUS] == pat(2*)', { source: 'STATUS_CODE', comparison: 'LESS_THAN', target: '300' }],
    ['[CONNECTED] == true', { source: 'STATUS_CODE', comparison: 'GREATER_THAN', target: '99' }],
    ['[CONNECTED] == false', 'refused'],
    ['[RESPONSE_TIME] < 500', { source: 'RESPONSE_TIME', comparison: 'LESS_THAN', target: '500' }],
    ['[IP] == 127.0.0.1', 'refused'],
    ['[BODY] == 1', { source: 'TEXT_BODY', property: '(^1$)', comparison: 'NOT_NULL' }],
    ['[BODY] == pat(*ok*)', { source: 'TEXT_BODY', property: '(^(?s:.*)ok(?s:.*)$)' }],
    ['[BODY].user.name == john', json('$.user.name', 'EQUALS', { target: 'john' })],
    ['[BODY].user.name != john', json('$.user.name', 'NOT_EQUALS', { target: 'john' })],
    ['[BODY].data[0].id == 1', json('$.data[0].id', 'EQUALS', { target: '1' })],
    ['[BODY].age == [BODY].id', 'refused'],
    ['[BODY].age >= 5', 'refused'],
    ['[BODY].user-age > 5', json("$['user-age']", 'GREATER_THAN', { target: '5' })],
    ['len([BODY].data) < 5', json('$.data.length', 'LESS_THAN', { target: '5' })],
    ['len([BODY].name) == 8', json('$.name.length', 'EQUALS', { target: '8' })],
    ['has([BODY].errors) == false', json('$', 'NOT_HAS_KEY', { target: 'errors' })],
    ['has([BODY].a.users) == true', json('$.a', 'HAS_KEY', { target: 'users' })],
    ['has([BODY].users) < true', 'refused'],
    ['has([BODY].users) == 1', 'refused'],
    ['[BODY].name == pat(john*)', json('$.name', 'NOT_NULL', { regex: '(^john(?s:.*)$)' })],
    ['[BODY].id == any(1, 2)', json('$.id', 'NOT_NULL', { regex: '(^(?:1|2)$)' })],
    ['[DOMAIN_EXPIRATION] > 720h', 'refused'],
    ['[DNS_RCODE] == NOERROR', 'refused'],
    ['nonsense', 'refused'],
  ])('%s', async (condition, expected) => {
    const wanted = typeof expected === 'string' ? expected : asserted(expected)
    const outcome = outcomeOf(await importOne({ conditions: [condition] }))
    expect(outcome).toMatchObject(expectedOutcome(wanted))
  })

  const DAYS = { source: 'CERTIFICATE', property: 'daysUntilExpiry', target: '1' }
  const ADDRESS = { source: 'JSON_RESPONSE', property: '$.resolvedIp', target: '192.0.2.1' }
  const AVERAGE = { source: 'LATENCY', property: 'avg', target: '100' }
  const someOf = (source: string) => ({ source, comparison: 'NOT_EMPTY' })
  test.each<[string, string, object | 'nothing' | 'refused']>([
    ['icmp://a.example', '[IP] == 192.0.2.1', ADDRESS],
    ['icmp://a.example', '[RESPONSE_TIME] < 100', AVERAGE],
    ['icmp://a.example', '[BODY] == a', 'refused'],
    ['tls://a.example:636', '[CERTIFICATE_EXPIRATION] > 48h', DAYS],
    ['tcp://a.example:6379', '[BODY] == pat(*PONG*)', someOf('RESPONSE_DATA')],
    ['ws://a.example/', '[BODY] == pat(*served by*)', someOf('MESSAGE')],
    ['ws://a.example/', '[BODY].a == 1', { source: 'JSON_MESSAGE', property: '$.a' }],
    ['grpc://a.example:1', '[BODY].status == SERVING', 'nothing'],
    ['grpc://a.example:1', '[BODY].status == NOT_SERVING', 'refused'],
    ['grpc://a.example:1', '[CERTIFICATE_EXPIRATION] > 48h', 'refused'],
  ])('of %s: %s', async (url, condition, expected) => {
    const wanted = typeof expected === 'string' ? expected : asserted(expected)
    const outcome = outcomeOf(await importOne({ url, conditions: [condition] }))
    expect(outcome).toMatchObject(expectedOutcome(wanted))
  })

  test.each([
    ['[BODY] == 192.0.2.1', '192.0.2.1'],
    ['[BODY] == any(a.example., b.example.)', '10 b.example.'],
    ['[BODY] == any(a.example., pat(b.*))', '10 b.example.'],
  ])('of DNS is about one of the records: %s', async (condition, record) => {
    const dns = { 'query-name': 'a.example', 'query-type': 'MX' }
    const client = { timeout: '5s' }
    const conditions = [condition, '[DNS_RCODE] == NOERROR']
    const matches = (regex: string) => new RegExp(regex).test(`0 z.example.\n${record}`)
    const assertions = [
      { source: 'TEXT_ANSWER', property: expect.toSatisfy(matches) },
      { source: 'RESPONSE_CODE', target: 'NOERROR' },
    ]
    const outcome = outcomeOf(await importOne({ url: '192.0.2.53', dns, client, conditions }))
    expect(outcome).toMatchObject(expectedOutcome(request({ assertions })))
  })

  test('lets statuses of 400 and above pass only where it names them', async () => {
    const fails = ['[STATUS] == 404', '[STATUS] == 200'].map(async (condition) => {
      const { monitors } = await importOne({ conditions: [condition] })
      return monitors[0]?.shouldFail
    })
    expect(await Promise.all(fails)).toEqual([true, false])
  })

  test('on the certificate of a page makes an SSL monitor in addition', async () => {
    const hours = [240, 48].map((one) => `[CERTIFICATE_EXPIRATION] > ${one}h`)
    const { monitors } = await importOne({ conditions: ['[STATUS] == 200', ...hours] })
    expect(monitors.map(({ name, checkType, frequency }) => [name, checkType, frequency])).toEqual([
      ['Shop', 'API', 1],
      ['Shop certificate', 'SSL', 60],
    ])
    const days = { property: 'daysUntilExpiry', comparison: 'GREATER_THAN' }
    const assertions = ['9', '1'].map((target) => ({ ...days, target }))
    const sslConfig = { hostname: 'shop.example.com' }
    expect(monitors[1]).toMatchObject(request({ assertions, sslConfig }))
  })
})

test('parts of the file beside endpoints are refused where they check something, and noted otherwise', async () => {
  const about =
    `metrics storage alerting announcements security concurrency disable-monitoring-lock maintenance web ui
    skip-invalid-config-update tunneling connectivity remote`.split(/\s+/)
  const file = {
    endpoints: [{ name: 'A', url: 'icmp://a.example', conditions: ['[CONNECTED] == true'] }],
    suites: [{ name: 'B', endpoints: [] }],
    'external-endpoints': [{ name: 'C', token: 'hidden-1', heartbeat: { interval: '30m' } }],
    ...Object.fromEntries(about.map((key) => [key, {}])),
  }
  const files = { 'gatus.yaml': stringify(file) }
  const whole = await imported({ files })
  expect([whole.code, whole.out, whole.err.match(/^refused: /gm)?.length]).toEqual([2, '', 2])
  expect(whole.err.match(/^note: /gm)?.length).toBe(about.length)
  const { code, monitors } = await imported({ files, options: { partial: true } })
  expect([code, monitors.map(({ name }) => name)]).toEqual([0, ['A']])
})

test('anchors and merges are followed', async () => {
  const text =
    'x: &d { group: core, conditions: ["[STATUS] == 200"] }\nendpoints:\n  - { <<: *d, name: A, url: "http://a.example" }\n'
  const { monitors } = await imported({ files: { 'gatus.yaml': text } })
  expect(monitors[0]).toMatchObject({ name: 'A', tags: ['core'] })
})
