// Every option that blackbox_exporter documents, and what becomes of it. All files that are written are valid.
import { stringify } from 'yaml'
import { expect, test } from 'vitest'
import {
  type Expected,
  expectedOutcome,
  HIDDEN,
  imported,
  outcomeOf,
} from '../../support/cli/imported-file.ts'
import { prometheusOf } from '../../support/cli/prometheus-file.ts'
import { createAuthority } from '../../support/network/certificates.ts'

const TARGETS: Readonly<Record<string, string>> = {
  http: 'https://shop.example.com/health',
  tcp: 'db.example.com:5432',
  dns: '192.0.2.53',
  icmp: '192.0.2.1',
  grpc: 'shop.example.com:50051',
  unix: '/run/a.sock',
  websocket: 'wss://shop.example.com/socket',
}

/** Imports one module with one target. */
function importOne(
  prober: string,
  options: unknown,
  module: object = {},
  target = TARGETS[prober] ?? '',
) {
  const modules = { m: { prober, ...module, [prober]: options } }
  const prometheus = prometheusOf([target])
  return imported({
    files: { 'blackbox.yml': stringify({ modules }), 'prometheus.yml': prometheus },
  })
}

const asserted = (one: object) => ({
  assertions: expect.arrayContaining([expect.objectContaining(one)]),
})
const status = (one: object) => asserted({ source: 'STATUS_CODE', ...one })
const found = (one: object) => asserted({ comparison: 'NOT_NULL', ...one })
const absent = (one: object) => asserted({ comparison: 'IS_NULL', ...one })
const header = (one: object) => ({ headers: [expect.objectContaining(one)] })
const grpc = (one: object) => ({ grpcConfig: expect.objectContaining(one) })
const HEADER = [{ header: 'A', regexp: 'b' }]
const LOGIN = { username: 'ann', password: 'hidden-1' }
const LOGIN_FILES = { username_file: '/u', password_file: '/p' }
const PASSWORD = '{{M_PASSWORD}}'
const OAUTH2 = { client_id: 'a', client_secret: 'b', scopes: [], token_url: 'http://x/' }
const NEW_TLS = { min_version: 'TLS12', max_version: 'TLS13' }
const OLD_TLS = { min_version: 'TLS10', max_version: 'TLS11' }
const TOKEN = '{"token":"hidden-1"}'
const NO_LINE = '((?m:^(?!.*(?:1)).+$))'
const SMTP = [{ expect: '^220' }, { send: 'EHLO a' }, { expect_bytes: '250 (ok)', starttls: true }]
const HELLO = [{ expect: '^220' }, { send: 'EHLO a\n' }]
const DIALOGUE = [...HELLO, { expect: String.raw`250 \(ok\)` }, { startTls: true }]

/** What is expected of the request, or what is said, for options of each prober. */
const OPTIONS: Record<string, [option: string, value: unknown, expected: Expected][]> = {
  http: [
    ['valid_status_codes', [204], status({ comparison: 'EQUALS', target: '204' })],
    ['valid_status_codes', [200, 301], found({ regex: '^(?:200|301)$' })],
    ['valid_status_codes', [42], 'refused'],
    ['valid_status_codes', 404, 'refused'],
    ['valid_status_codes', [], asserted({ comparison: 'LESS_THAN', target: '300' })],
    ['valid_http_versions', [], 'nothing'],
    ['valid_http_versions', ['HTTP/2.0'], 'refused'],
    ['method', 'POST', { method: 'POST' }],
    ['headers', { 'X-Tenant': 'berlin' }, header({ key: 'X-Tenant' })],
    ['http_headers', { A: { values: ['1', '2'] } }, header({ value: '2' })],
    ['http_headers', { A: { secrets: ['hidden-1'] } }, header({ value: '{{M_A}}' })],
    ['http_headers', { A: { files: ['/a'] } }, header({ value: '{{M_A}}' })],
    ['body_size_limit', '10MB', 'noted'],
    ['compression', 'gzip', 'nothing'],
    ['follow_redirects', false, { followRedirects: false }],
    ['fail_if_ssl', true, 'refused'],
    ['fail_if_not_ssl', true, 'nothing'],
    ['fail_if_body_json_matches_cel', 'a', 'refused'],
    ['fail_if_body_json_not_matches_cel', 'a', 'refused'],
    ['fail_if_body_matches_regexp', ['e'], absent({ property: '(e)' })],
    ['fail_if_body_not_matches_regexp', ['(?i)ok'], found({ property: '((?i:ok))' })],
    ['fail_if_body_matches_regexp', 'error', 'refused'],
    ['fail_if_body_not_matches_regexp', [String.raw`\Aok`], 'refused'],
    ['fail_if_header_matches', HEADER, found({ property: 'A' })],
    ['fail_if_header_not_matches', HEADER, found({ property: 'A', regex: '(b)' })],
    ['fail_if_header_not_matches', [{ ...HEADER[0], allow_missing: true }], 'refused'],
    ['tls_config', { insecure_skip_verify: true }, { skipSSL: true }],
    ['tls_config', { server_name: 'a.example' }, { tls: { serverName: 'a.example' } }],
    ['tls_config', NEW_TLS, { tls: { minVersion: 'TLSv1.2', maxVersion: 'TLSv1.3' } }],
    ['tls_config', OLD_TLS, { tls: { minVersion: 'TLSv1', maxVersion: 'TLSv1.1' } }],
    ['tls_config', { ca_file: '/nowhere/ca.pem' }, 'refused'],
    ['basic_auth', LOGIN, { basicAuth: { username: 'ann', password: PASSWORD } }],
    ['basic_auth', LOGIN_FILES, { basicAuth: { username: '{{M_USERNAME}}', password: PASSWORD } }],
    ['authorization', { credentials: 'hidden-1' }, header({ value: 'Bearer {{M_TOKEN}}' })],
    ['authorization', { type: 'T', credentials_file: '/t' }, header({ value: 'T {{M_TOKEN}}' })],
    ['proxy_url', 'http://proxy:3128', 'refused'],
    ['no_proxy', 'a', 'refused'],
    ['proxy_from_environment', true, 'refused'],
    ['proxy_connect_header', { a: ['b'] }, 'refused'],
    ['skip_resolve_phase_with_proxy', true, 'nothing'],
    ['oauth2', OAUTH2, 'refused'],
    ['enable_http2', true, 'nothing'],
    ['enable_http3', true, 'refused'],
    ['preferred_ip_protocol', 'ip6', { ipFamily: 'IPv6' }],
    ['ip_protocol_fallback', false, 'nothing'],
    ['body', TOKEN, { body: '{"token":"{{M_BODY}}"}', bodyType: 'RAW' }],
    ['body_file', '/b', 'refused'],
  ],
  tcp: [
    ['preferred_ip_protocol', 'ip4', { ipFamily: 'IPv4' }],
    ['ip_protocol_fallback', true, 'nothing'],
    ['source_ip_address', '192.0.2.9', 'refused'],
    ['query_response', SMTP, { dialogue: DIALOGUE }],
    ['query_response', [{ expect: '(.*)', send: 'a ${1}' }], 'refused'],
    ['query_response', [{ send: TOKEN }], { dialogue: [{ send: '{"token":"{{M_SEND}}"}\n' }] }],
    ['query_response', [{ expect: 'a', labels: [{ name: 'b', value: 'c' }] }], 'noted'],
    ['tls', true, { tls: true }],
    ['tls_config', { insecure_skip_verify: true }, { skipSSL: true }],
    ['no_such_option', 1, 'refused'],
  ],
  dns: [
    ['preferred_ip_protocol', 'ip4', { ipFamily: 'IPv4' }],
    ['source_ip_address', '192.0.2.9', 'refused'],
    ['transport_protocol', 'tcp', { protocol: 'TCP' }],
    ['dns_over_tls', true, { protocol: 'DOT' }],
    ['tls_config', { server_name: 'a' }, { recordType: 'A' }],
    ['query_name', 'other.example', { query: 'other.example' }],
    ['query_type', 'DS', { recordType: 'TYPE43' }],
    ['query_type', 'ANY', 'refused'],
    ['query_class', 'CH', { recordClass: 'CH' }],
    ['recursion_desired', false, { recursionDesired: false }],
    ['valid_rcodes', ['NXDOMAIN'], asserted({ source: 'RESPONSE_CODE', target: 'NXDOMAIN' })],
    ['valid_rcodes', ['NOERROR', 'NXDOMAIN'], asserted({ regex: '^(?:NOERROR|NXDOMAIN)$' })],
    ['validate_authority_rrs', { fail_if_matches_regexp: ['a'] }, 'refused'],
    ['validate_additional_rrs', { fail_if_matches_regexp: ['a'] }, 'refused'],
    ['validate_answer_rrs', { fail_if_matches_regexp: [String.raw`a\.\t`] }, 'refused'],
    ['validate_answer_rrs', { fail_if_matches_regexp: ['1'] }, absent({ property: '(1)' })],
    ['validate_answer_rrs', { fail_if_none_matches_regexp: ['1'] }, found({})],
    ['validate_answer_rrs', { fail_if_not_matches_regexp: ['1'] }, absent({ property: NO_LINE })],
    ['validate_answer_rrs', { fail_if_all_match_regexp: ['1'] }, found({})],
  ],
  icmp: [
    ['preferred_ip_protocol', 'ip6', { ipFamily: 'IPv6' }],
    ['source_ip_address', '192.0.2.9', 'refused'],
    ['dont_fragment', true, { dontFragment: true }],
    ['payload_size', 120, { payloadBytes: 120 }],
    ['ttl', 5, { ttl: 5 }],
  ],
  grpc: [
    ['service', 'a.B', grpc({ mode: 'HEALTH', service: 'a.B', tls: false })],
    ['preferred_ip_protocol', 'ip6', { ipFamily: 'IPv6' }],
    ['metadata', { a: ['hidden-1'] }, grpc({ metadata: header({ value: '{{M_A}}' }).headers })],
    ['tls', true, grpc({ tls: true })],
    ['tls_config', { server_name: 'a' }, { port: 50_051 }],
  ],
  unix: [['query_response', [], 'refused']],
  websocket: [
    ['http_config', { basic_auth: LOGIN }, { basicAuth: { username: 'ann', password: PASSWORD } }],
    ['http_config', { follow_redirects: false }, 'refused'],
    ['http_config', { oauth2: OAUTH2 }, 'refused'],
    ['headers', { A: { values: ['1'] } }, header({ value: '1' })],
    ['query_response', [{ send: 'a' }, { expect: 'b' }], { message: 'a', expect: 'b' }],
    ['query_response', [{ send: TOKEN }], { message: '{"token":"{{M_MESSAGE}}"}' }],
    ['query_response', [{ expect: 'a', send: 'b' }], 'refused'],
    ['preferred_ip_protocol', 'ip4', { ipFamily: 'IPv4' }],
  ],
}

/** No time-out is longer than its type allows. */
const SHORT = { timeout: '5s' }

const CASES = Object.entries(OPTIONS).flatMap(([prober, rows]) =>
  rows.map((row) => [prober, ...row] as const),
)

test.each(CASES)('%s: %s: %j', async (prober, option, value, expected) => {
  const query = prober === 'dns' && { query_name: 'example.com', query_type: 'A' }
  const outcome = outcomeOf(await importOne(prober, { ...query, [option]: value }, SHORT))
  const wanted = typeof expected === 'string' ? expected : { request: expected }
  const said = option === 'validate_answer_rrs' ? 'noted' : 'nothing'
  expect(outcome).toMatchObject(expectedOutcome(wanted, said))
})

test('a module has a prober and a time-out; the target has interval, name and labels', async () => {
  const { monitors } = await importOne('http', {}, { timeout: '2s' })
  expect(monitors[0]).toMatchObject({
    name: TARGETS['http'],
    checkType: 'API',
    frequency: 1,
    maxResponseTime: 2000,
    degradedResponseTime: 1000,
    tags: ['env:prod'],
  })
  const soon = outcomeOf(await importOne('http', {}, { timeout: 'soon' }))
  expect(soon).toMatchObject(expectedOutcome('refused'))
})

test('files of TLS are found from the folder of the modules', async () => {
  const { ca } = createAuthority()
  const modules = { m: { prober: 'http', http: { tls_config: { ca_file: 'ca.pem' } } } }
  const { code, monitors } = await imported({
    files: {
      'blackbox.yml': stringify({ modules }),
      'prometheus.yml': prometheusOf(['https://a.example/']),
      'ca.pem': ca,
    },
  })
  expect([code, monitors[0]]).toMatchObject([0, { request: { tls: { ca } } }])
})

test('credentials in the address of a target are secrets, in its name as well', async () => {
  const target = `https://ann:${HIDDEN}@shop.example.com/?token=${HIDDEN}-2`
  const result = await importOne('http', {}, {}, target)
  const outcome = outcomeOf(result)
  expect(outcome).toMatchObject({ code: 0, isHidden: true })
  expect(result.secrets.toSorted()).toEqual(['M_URL', 'M_URL_2'])
  expect([outcome.monitor?.name, outcome.monitor?.['request']]).toMatchObject([
    expect.stringMatching(/^https:\/\/ann:\{\{M_URL(_2)?\}\}@/),
    { url: expect.stringMatching(/^https:\/\/ann:\{\{/) },
  ])
})
