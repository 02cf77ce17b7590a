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

/** What is expected of the request, or what is said. */
type Case = [option: string, prober: string, value: unknown, expected: Expected]

const assertion = (one: object) => ({
  assertions: expect.arrayContaining([expect.objectContaining(one)]),
})
const oauth2 = {
  client_id: 'a',
  client_secret: 'b',
  scopes: [],
  token_url: 'http://x/',
  endpoint_params: {},
}

const HTTP: Case[] = [
  [
    'valid_status_codes',
    'http',
    [204],
    assertion({ source: 'STATUS_CODE', comparison: 'EQUALS', target: '204' }),
  ],
  [
    'valid_status_codes',
    'http',
    [200, 301],
    assertion({ regex: '^(?:200|301)$', comparison: 'NOT_NULL' }),
  ],
  ['valid_status_codes', 'http', [42], 'refused'],
  ['valid_status_codes', 'http', 404, 'refused'],
  ['valid_status_codes', 'http', [], assertion({ comparison: 'LESS_THAN', target: '300' })],
  ['valid_http_versions', 'http', [], 'nothing'],
  ['valid_http_versions', 'http', ['HTTP/2.0'], 'refused'],
  ['method', 'http', 'POST', { method: 'POST' }],
  [
    'headers',
    'http',
    { 'X-Tenant': 'berlin' },
    { headers: [expect.objectContaining({ key: 'X-Tenant' })] },
  ],
  [
    'http_headers',
    'http',
    { A: { values: ['1', '2'] } },
    { headers: [expect.objectContaining({ value: '2' })] },
  ],
  [
    'http_headers',
    'http',
    { A: { secrets: ['hidden-1'] } },
    { headers: [expect.objectContaining({ value: '{{M_A}}' })] },
  ],
  [
    'http_headers',
    'http',
    { A: { files: ['/a'] } },
    { headers: [expect.objectContaining({ value: '{{M_A}}' })] },
  ],
  ['body_size_limit', 'http', '10MB', 'noted'],
  ['compression', 'http', 'gzip', 'nothing'],
  ['follow_redirects', 'http', false, { followRedirects: false }],
  ['fail_if_ssl', 'http', true, 'refused'],
  ['fail_if_not_ssl', 'http', true, 'nothing'],
  ['fail_if_body_json_matches_cel', 'http', 'a', 'refused'],
  ['fail_if_body_json_not_matches_cel', 'http', 'a', 'refused'],
  [
    'fail_if_body_matches_regexp',
    'http',
    ['error'],
    assertion({ property: '(error)', comparison: 'IS_NULL' }),
  ],
  [
    'fail_if_body_not_matches_regexp',
    'http',
    ['(?i)ok'],
    assertion({ property: '((?i:ok))', comparison: 'NOT_NULL' }),
  ],
  ['fail_if_body_matches_regexp', 'http', 'error', 'refused'],
  ['fail_if_body_not_matches_regexp', 'http', [String.raw`\Aok`], 'refused'],
  [
    'fail_if_header_matches',
    'http',
    [{ header: 'A', regexp: 'b' }],
    assertion({ property: 'A', comparison: 'NOT_NULL' }),
  ],
  [
    'fail_if_header_not_matches',
    'http',
    [{ header: 'A', regexp: 'b' }],
    assertion({ property: 'A', regex: '(b)', comparison: 'NOT_NULL' }),
  ],
  [
    'fail_if_header_not_matches',
    'http',
    [{ header: 'A', regexp: 'b', allow_missing: true }],
    'refused',
  ],
  ['tls_config', 'http', { insecure_skip_verify: true }, { skipSSL: true }],
  ['tls_config', 'http', { server_name: 'a.example' }, { tls: { serverName: 'a.example' } }],
  [
    'tls_config',
    'http',
    { min_version: 'TLS12', max_version: 'TLS13' },
    { tls: { minVersion: 'TLSv1.2', maxVersion: 'TLSv1.3' } },
  ],
  [
    'tls_config',
    'http',
    { min_version: 'TLS10', max_version: 'TLS11' },
    { tls: { minVersion: 'TLSv1', maxVersion: 'TLSv1.1' } },
  ],
  ['tls_config', 'http', { ca_file: '/nowhere/ca.pem' }, 'refused'],
  [
    'basic_auth',
    'http',
    { username: 'ann', password: 'hidden-1' },
    { basicAuth: { username: 'ann', password: '{{M_PASSWORD}}' } },
  ],
  [
    'basic_auth',
    'http',
    { username_file: '/u', password_file: '/p' },
    { basicAuth: { username: '{{M_USERNAME}}', password: '{{M_PASSWORD}}' } },
  ],
  [
    'authorization',
    'http',
    { credentials: 'hidden-1' },
    { headers: [expect.objectContaining({ value: 'Bearer {{M_TOKEN}}' })] },
  ],
  [
    'authorization',
    'http',
    { type: 'Token', credentials_file: '/t' },
    { headers: [expect.objectContaining({ value: 'Token {{M_TOKEN}}' })] },
  ],
  ['proxy_url', 'http', 'http://proxy:3128', 'refused'],
  ['no_proxy', 'http', 'a', 'refused'],
  ['proxy_from_environment', 'http', true, 'refused'],
  ['proxy_connect_header', 'http', { a: ['b'] }, 'refused'],
  ['skip_resolve_phase_with_proxy', 'http', true, 'nothing'],
  ['oauth2', 'http', oauth2, 'refused'],
  ['enable_http2', 'http', true, 'nothing'],
  ['enable_http3', 'http', true, 'refused'],
  ['preferred_ip_protocol', 'http', 'ip6', { ipFamily: 'IPv6' }],
  ['ip_protocol_fallback', 'http', false, 'nothing'],
  [
    'body',
    'http',
    '{"password": "hidden-1"}',
    { body: '{"password": "{{M_BODY}}"}', bodyType: 'RAW' },
  ],
  ['body_file', 'http', '/b', 'refused'],
]

const OTHERS: Case[] = [
  ['preferred_ip_protocol', 'tcp', 'ip4', { ipFamily: 'IPv4' }],
  ['ip_protocol_fallback', 'tcp', true, 'nothing'],
  ['source_ip_address', 'tcp', '192.0.2.9', 'refused'],
  [
    'query_response',
    'tcp',
    [{ expect: '^220' }, { send: 'EHLO a' }, { expect_bytes: '250 (ok)', starttls: true }],
    {
      dialogue: [
        { expect: '^220' },
        { send: 'EHLO a\n' },
        { expect: String.raw`250 \(ok\)` },
        { startTls: true },
      ],
    },
  ],
  ['query_response', 'tcp', [{ expect: '(.*)', send: 'a ${1}' }], 'refused'],
  [
    'query_response',
    'tcp',
    [{ send: '{"token":"hidden-1"}' }],
    { dialogue: [{ send: '{"token":"{{M_SEND}}"}\n' }] },
  ],
  ['query_response', 'tcp', [{ expect: 'a', labels: [{ name: 'b', value: 'c' }] }], 'noted'],
  ['tls', 'tcp', true, { tls: true }],
  ['tls_config', 'tcp', { insecure_skip_verify: true }, { skipSSL: true }],
  ['preferred_ip_protocol', 'dns', 'ip4', { ipFamily: 'IPv4' }],
  ['source_ip_address', 'dns', '192.0.2.9', 'refused'],
  ['transport_protocol', 'dns', 'tcp', { protocol: 'TCP' }],
  ['dns_over_tls', 'dns', true, { protocol: 'DOT' }],
  ['tls_config', 'dns', { server_name: 'a' }, { recordType: 'A' }],
  ['query_name', 'dns', 'other.example', { query: 'other.example' }],
  ['query_type', 'dns', 'DS', { recordType: 'TYPE43' }],
  ['query_type', 'dns', 'ANY', 'refused'],
  ['query_class', 'dns', 'CH', { recordClass: 'CH' }],
  ['recursion_desired', 'dns', false, { recursionDesired: false }],
  ['valid_rcodes', 'dns', ['NXDOMAIN'], assertion({ source: 'RESPONSE_CODE', target: 'NXDOMAIN' })],
  ['valid_rcodes', 'dns', ['NOERROR', 'NXDOMAIN'], assertion({ regex: '^(?:NOERROR|NXDOMAIN)$' })],
  [
    'validate_answer_rrs',
    'dns',
    { fail_if_matches_regexp: ['192'] },
    assertion({ property: '(192)', comparison: 'IS_NULL' }),
  ],
  [
    'validate_answer_rrs',
    'dns',
    { fail_if_none_matches_regexp: ['192'] },
    assertion({ comparison: 'NOT_NULL' }),
  ],
  [
    'validate_answer_rrs',
    'dns',
    { fail_if_not_matches_regexp: ['192'] },
    assertion({ property: '((?m:^(?!.*(?:192)).+$))', comparison: 'IS_NULL' }),
  ],
  [
    'validate_answer_rrs',
    'dns',
    { fail_if_all_match_regexp: ['192'] },
    assertion({ comparison: 'NOT_NULL' }),
  ],
  ['validate_answer_rrs', 'dns', { fail_if_matches_regexp: [String.raw`a\.\t`] }, 'refused'],
  ['validate_authority_rrs', 'dns', { fail_if_matches_regexp: ['a'] }, 'refused'],
  ['validate_additional_rrs', 'dns', { fail_if_matches_regexp: ['a'] }, 'refused'],
  ['preferred_ip_protocol', 'icmp', 'ip6', { ipFamily: 'IPv6' }],
  ['source_ip_address', 'icmp', '192.0.2.9', 'refused'],
  ['dont_fragment', 'icmp', true, { dontFragment: true }],
  ['payload_size', 'icmp', 120, { payloadBytes: 120 }],
  ['ttl', 'icmp', 5, { ttl: 5 }],
  [
    'service',
    'grpc',
    'a.B',
    { grpcConfig: expect.objectContaining({ mode: 'HEALTH', service: 'a.B', tls: false }) },
  ],
  ['preferred_ip_protocol', 'grpc', 'ip6', { ipFamily: 'IPv6' }],
  [
    'metadata',
    'grpc',
    { a: ['hidden-1'] },
    {
      grpcConfig: expect.objectContaining({
        metadata: [expect.objectContaining({ value: '{{M_A}}' })],
      }),
    },
  ],
  ['tls', 'grpc', true, { grpcConfig: expect.objectContaining({ tls: true }) }],
  ['tls_config', 'grpc', { server_name: 'a' }, { port: 50_051 }],
  ['query_response', 'unix', [], 'refused'],
  [
    'http_config',
    'websocket',
    { basic_auth: { username: 'ann', password: 'hidden-1' } },
    { basicAuth: { username: 'ann', password: '{{M_PASSWORD}}' } },
  ],
  ['http_config', 'websocket', { follow_redirects: false }, 'refused'],
  ['http_config', 'websocket', { oauth2 }, 'refused'],
  [
    'headers',
    'websocket',
    { A: { values: ['1'] } },
    { headers: [expect.objectContaining({ value: '1' })] },
  ],
  [
    'query_response',
    'websocket',
    [{ send: 'hello' }, { expect: 'welcome' }],
    { message: 'hello', expect: 'welcome' },
  ],
  [
    'query_response',
    'websocket',
    [{ send: '{"token":"hidden-1"}' }],
    { message: '{"token":"{{M_MESSAGE}}"}' },
  ],
  ['query_response', 'websocket', [{ expect: 'a', send: 'b' }], 'refused'],
  ['preferred_ip_protocol', 'websocket', 'ip4', { ipFamily: 'IPv4' }],
  ['no_such_option', 'tcp', 1, 'refused'],
]

const withQuery = (prober: string, option: string, value: unknown) =>
  prober === 'dns'
    ? { query_name: 'example.com', query_type: 'A', [option]: value }
    : { [option]: value }

test.each([...HTTP, ...OTHERS])('%s of %s: %j', async (option, prober, value, expected) => {
  const outcome = outcomeOf(await importOne(prober, withQuery(prober, option, value)))
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
})

test('a time-out that is not a duration is refused', async () => {
  const outcome = outcomeOf(await importOne('http', {}, { timeout: 'soon' }))
  expect(outcome).toMatchObject(expectedOutcome('refused'))
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
