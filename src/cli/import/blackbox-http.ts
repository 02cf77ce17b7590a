// Options of blackbox_exporter's HTTP prober, and those that it shares with other probers.
import * as z from 'zod'
import {
  addHeaders,
  formed,
  leftOut,
  never,
  only,
  PAIRS,
  type Option,
  type Options,
  refuse,
  secretFile,
  secretOf,
  silent,
  TEXT,
  TEXTS,
  addToken,
  toRequest,
  toTls,
  toTlsFile,
  withoutSecrets,
  within,
} from './drafts.ts'
import { fromGoRegex, GO_REGEX, matching } from './values.ts'

const PROXY = 'a proxy is set for all monitors: write proxyUrl at the top of the file'
const NO_OAUTH = 'monitors do not fetch tokens; use an API monitor with a set-up script'

const TLS_VERSIONS: Readonly<Record<string, string>> = {
  TLS10: 'TLSv1',
  TLS11: 'TLSv1.1',
  TLS12: 'TLSv1.2',
  TLS13: 'TLSv1.3',
}
const tlsVersion = (text: string) => TLS_VERSIONS[text] ?? text

/** Options of TLS. */
export const TLS_CONFIG: Options = {
  insecure_skip_verify: toRequest('skipSSL'),
  ca_file: toTlsFile('caFile'),
  cert_file: toTlsFile('certificateFile'),
  key_file: toTlsFile('privateKeyFile'),
  server_name: toTls('serverName', (name) => name),
  min_version: toTls('minVersion', tlsVersion),
  max_version: toTls('maxVersion', tlsVersion),
}

/** Options of the connection. */
export const FAMILY: Options = {
  preferred_ip_protocol: formed(z.enum(['ip4', 'ip6']), (value, { draft }) => {
    draft.request['ipFamily'] = value === 'ip6' ? 'IPv6' : 'IPv4'
  }),
  ip_protocol_fallback: silent,
  source_ip_address: never('the source address cannot be chosen'),
}

const basic = (field: 'username' | 'password', isFile = false): Option =>
  formed(TEXT, (value, around) => {
    const { request } = around.draft
    const text = isFile ? secretFile(around, field, value) : value
    const hidden = field === 'password' && !isFile ? secretOf(around, field, value) : text
    request['basicAuth'] = { ...(request['basicAuth'] as object), [field]: hidden }
  })

const AUTHORIZATION = z.strictObject({
  type: z.string().default('Bearer'),
  credentials: z.string().default(''),
  credentials_file: z.string().optional(),
})

/** Options of HTTP clients. */
export const CLIENT: Options = {
  tls_config: within(TLS_CONFIG),
  basic_auth: within({
    username: basic('username'),
    password: basic('password'),
    username_file: basic('username', true),
    password_file: basic('password', true),
  }),
  authorization: formed(AUTHORIZATION, ({ credentials, credentials_file: file, type }, around) => {
    const secret =
      file === undefined
        ? secretOf(around, 'token', credentials)
        : secretFile(around, 'token', file)
    addToken(around, type, secret)
  }),
  proxy_url: only([''], PROXY),
  no_proxy: only([''], PROXY),
  proxy_from_environment: only([false], PROXY),
  proxy_connect_header: only([{}], PROXY),
  skip_resolve_phase_with_proxy: silent,
  oauth2: never(NO_OAUTH),
  enable_http2: silent,
  follow_redirects: toRequest('followRedirects'),
}

const bodyMatches = (isWanted: boolean): Option =>
  formed(TEXTS, (patterns, around) => {
    for (const pattern of patterns) {
      const regex = fromGoRegex(pattern)
      if (regex === undefined) return refuse(around, GO_REGEX)
      around.draft.assertions.push(matching('TEXT_BODY', regex, isWanted))
    }
  })

const HEADER_SPECS = z.array(
  z.strictObject({
    header: z.string(),
    regexp: z.string(),
    allow_missing: z.boolean().default(false),
  }),
)

const headerMatches = (isWanted: boolean): Option =>
  formed(HEADER_SPECS, (specs, around) => {
    const { assertions } = around.draft
    for (const { header, regexp, allow_missing: mayMiss } of specs) {
      const regex = fromGoRegex(regexp)
      if (regex === undefined) return refuse(around, GO_REGEX)
      if (isWanted && mayMiss) {
        return refuse(around, 'a header cannot be matched only where it is there')
      }
      if (!isWanted && !mayMiss) {
        assertions.push({ source: 'HEADERS', property: header, comparison: 'NOT_NULL' })
      }
      assertions.push(matching('HEADERS', regex, isWanted, header))
    }
  })

const HEADER_LISTS = z.record(
  z.string(),
  z.strictObject({
    values: TEXTS.default([]),
    secrets: TEXTS.default([]),
    files: TEXTS.default([]),
  }),
)

/** Headers with lists of values, secrets or files; the last one counts. */
export const headerLists = formed(HEADER_LISTS, (given, around) => {
  for (const [name, { values, secrets, files }] of Object.entries(given)) {
    const secret = secrets.at(-1)
    const file = files.at(-1)
    if (file !== undefined) addHeaders(around, { [name]: secretFile(around, name, file) })
    else if (secret !== undefined) addHeaders(around, { [name]: secretOf(around, name, secret) })
    else addHeaders(around, { [name]: values.at(-1) ?? '' })
  }
})

const NO_TLS = 'no assertion tests whether an answer came over TLS'

/** Options of the HTTP prober. */
export const HTTP: Options = {
  ...CLIENT,
  ...FAMILY,
  source_ip_address: never('not an option of this prober'),
  valid_status_codes: silent,
  valid_http_versions: only([[]], 'no assertion tests the version of HTTP'),
  method: toRequest('method'),
  headers: formed(PAIRS, (value, around) => addHeaders(around, value)),
  http_headers: headerLists,
  body_size_limit: leftOut('the limit of API monitors applies'),
  compression: silent,
  fail_if_ssl: only([false], NO_TLS),
  fail_if_not_ssl: (value: boolean, around) => {
    const isTls = String(around.draft.request['url']).startsWith('https:')
    if (value && !isTls) refuse(around, NO_TLS)
  },
  fail_if_body_json_matches_cel: never('CEL is not supported; write JSON_BODY assertions'),
  fail_if_body_json_not_matches_cel: never('CEL is not supported; write JSON_BODY assertions'),
  fail_if_body_matches_regexp: bodyMatches(false),
  fail_if_body_not_matches_regexp: bodyMatches(true),
  fail_if_header_matches: headerMatches(false),
  fail_if_header_not_matches: headerMatches(true),
  enable_http3: only([false], 'API monitors do not speak HTTP/3'),
  body: formed(TEXT, (value, around) => {
    Object.assign(around.draft.request, {
      body: withoutSecrets(around, 'body', value),
      bodyType: 'RAW',
    })
  }),
  body_file: never('the body is a part of the monitors file; use body'),
}
