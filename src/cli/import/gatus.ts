// gatus: one monitor for each endpoint, of the type that the scheme of its URL says.
import * as z from 'zod'
import type { Path } from '../../agent/monitors-file/problems.ts'
import { isFields, type Fields } from '../../agent/monitors-file/shorthands.ts'
import {
  addDraft,
  addHeaders,
  applyOptions,
  at,
  type Around,
  type Draft,
  type Drafts,
  formed,
  leftOut,
  never,
  only,
  PAIRS,
  type Options,
  refuse,
  silent,
  TEXT,
  toTlsFile,
  withoutSecrets,
  within,
} from './drafts.ts'
import { typeAndRequest } from './gatus-schemes.ts'
import { applyCondition } from './gatus-conditions.ts'
import {
  acceptStatus,
  codesFrom,
  durationMs,
  fieldsOf,
  hostAndPort,
  NO_DURATION,
  setEvery,
  setTimeoutMs,
  textOf,
} from './values.ts'

const ALERTS = 'alerts are set up on the platform; see `vedette help alerts`'
const TUNNELS = 'SSH tunnels are not supported; run an agent behind the tunnel'
const NO_TOKENS = 'monitors do not fetch tokens; use an API monitor with a set-up script'
const PAUSES = 'there are no maintenance windows; mute the monitor meanwhile'

const CLIENT: Options = {
  insecure: formed(z.boolean(), (value, { draft }) => {
    if (draft.type === 'SSL') placeOf(draft)['skipChainValidation'] = value
    else if (draft.type !== 'ICMP') draft.request['skipSSL'] = value
  }),
  'ignore-redirect': formed(z.boolean(), (value, { draft }) => {
    if (draft.type === 'API') draft.request['followRedirects'] = !value
  }),
  timeout: silent,
  'dns-resolver': only([''], 'names are looked up by the name servers of the agent’s system'),
  oauth2: never(NO_TOKENS),
  'proxy-url': only([''], 'a proxy is set for all monitors: write proxyUrl at the top of the file'),
  'identity-aware-proxy': never(NO_TOKENS),
  tls: within({
    'certificate-file': toTlsFile('certificateFile'),
    'private-key-file': toTlsFile('privateKeyFile'),
    renegotiation: only(['never'], 'TLS is never renegotiated'),
  }),
  network: formed(z.enum(['ip', 'ip4', 'ip6']), (value, { draft }) => {
    if (value !== 'ip') placeOf(draft)['ipFamily'] = value === 'ip6' ? 'IPv6' : 'IPv4'
  }),
  tunnel: only([''], TUNNELS),
  'store-cookies': only([false], 'cookies live as long as one run'),
}

/** What has the options of the connection. */
const placeOf = ({ type, request }: Draft) =>
  type === 'SSL' ? (request['sslConfig'] as Fields) : request

const PLACEHOLDER = /\[(?:LOCAL_ADDRESS|RANDOM_STRING_\d+|CONTEXT)\]/

/** The body of a type that sends one. */
const BODY_FIELD: Readonly<Record<string, string>> = {
  API: 'body',
  TCP: 'data',
  WEBSOCKET: 'message',
}

const ENDPOINT: Options = {
  name: silent,
  url: silent,
  interval: silent,
  dns: silent,
  ssh: silent,
  graphql: silent,
  enabled: formed(z.boolean(), (value, { draft }) => {
    if (!value) draft.fields['activated'] = false
  }),
  group: (value: string, { draft }) => {
    if (value !== '') draft.fields['tags'] = [value]
  },
  method: (value: string, { draft }) => {
    if (draft.type === 'API') draft.request['method'] = value
  },
  headers: formed(PAIRS, (value, around) => {
    if (speaksHttp(around.draft)) addHeaders(around, value)
  }),
  body: formed(TEXT, (value, around) => {
    const { fields, type, request, given } = around.draft
    const field = BODY_FIELD[type]
    if (value === '' || request['dialogue'] !== undefined) return
    if (field === undefined) return refuse(around, 'monitors of this type have no body')
    if (PLACEHOLDER.test(value)) return refuse(around, 'this placeholder has no equivalent')
    const filled = value
      .replaceAll('[ENDPOINT_NAME]', String(fields['name']))
      .replaceAll('[ENDPOINT_GROUP]', textOf(given?.['group']))
      .replaceAll('[ENDPOINT_URL]', textOf(request['url']))
    request[field] = withoutSecrets(around, 'body', filled)
    if (type === 'API') request['bodyType'] ??= 'RAW'
  }),
  conditions: formed(z.array(TEXT), (conditions, around) => {
    for (const [index, one] of conditions.entries()) applyCondition(one, at(around, index))
  }),
  client: within(CLIENT),
  alerts: leftOut(ALERTS),
  'maintenance-windows': leftOut(PAUSES),
  ui: leftOut('there is no user interface to configure'),
  'extra-labels': leftOut('metrics have no labels but those of the monitor'),
  store: never('only suites have a context'),
  'always-run': only([false], 'only suites have an order'),
}

/** Makes a monitor of each endpoint. */
export function importGatus(all: Drafts, source: Fields): void {
  for (const [key, value] of Object.entries(source)) {
    const reason = key === 'endpoints' ? 'must be a mapping' : REFUSED.get(key)
    if (reason === undefined) {
      const message = TOP.get(key) ?? 'is a setting of gatus itself'
      all.notes.push({ path: [key], message, atKey: true })
      continue
    }
    for (const [index, one] of (Array.isArray(value) ? value : []).entries()) {
      const path = [key, index]
      if (key === 'endpoints' && isFields(one)) importEndpoint(all, one, path)
      else all.refusals.push({ path, message: reason })
    }
  }
}

/** Lists whose entries become no monitors. */
const REFUSED = new Map([
  ['suites', 'steps that share values need a multistep monitor, or an API monitor with scripts'],
  [
    'external-endpoints',
    'receives its results; create a HEARTBEAT monitor on a platform with `vedette apply`',
  ],
])

const TOP = new Map([
  ['alerting', ALERTS],
  ['maintenance', PAUSES],
  ['tunneling', TUNNELS],
])

function importEndpoint(all: Drafts, endpoint: Fields, path: Path): void {
  const around = addDraft(all, path, endpoint['name'])
  const { draft } = around
  const url = String(endpoint['url'])
  const made = typeAndRequest(endpoint, url)
  if (typeof made === 'string') return refuse(at(around, 'url'), made)
  const [type, request] = made
  Object.assign(draft, { type, request, given: endpoint })
  const client = fieldsOf(endpoint['client'])
  const [atInterval, atTimeout] = [at(around, 'interval'), at(around, 'client', 'timeout')]
  const interval = durationMs(endpoint['interval'] ?? '60s')
  const timeout = durationMs(client['timeout'] ?? '10s')
  if (interval === undefined) return refuse(atInterval, NO_DURATION)
  if (timeout === undefined) return refuse(atTimeout, NO_DURATION)
  setEvery(atInterval, interval)
  setTimeoutMs(atTimeout, timeout)
  if (speaksHttp(draft)) request['url'] = withoutSecrets(at(around, 'url'), 'url', url)
  applyOptions(ENDPOINT, endpoint, around)
  if (draft.type === 'API') completeHttp(around, url)
}

const speaksHttp = ({ type }: Draft) => type === 'API' || type === 'WEBSOCKET'

/** Certificates are looked at once an hour. */
const CERTIFICATE_INTERVAL_MS = 3_600_000

/** Without a condition on the status, any status passes. */
function completeHttp(around: Around, url: string): void {
  const { all, draft, path } = around
  if (!draft.assertions.some(({ source }) => source === 'STATUS_CODE')) {
    acceptStatus(around, new Set(codesFrom(100, 999)))
  }
  const { certificate } = draft
  if (certificate.length === 0) return
  const [, authority] = /^https:\/\/(?:[^/?#]*@)?([^/?#]+)/.exec(url) ?? []
  if (authority === undefined) return refuse(around, 'has no certificate')
  const { fields, request } = draft
  const { host: hostname, port = 443 } = hostAndPort(authority)
  const other = addDraft(all, path, `${String(fields['name'])} certificate`)
  for (const key of ['tags', 'activated']) {
    if (Object.hasOwn(fields, key)) other.draft.fields[key] = fields[key]
  }
  const skip = request['skipSSL'] === true ? { skipChainValidation: true } : {}
  Object.assign(other.draft, {
    type: 'SSL',
    request: { sslConfig: { hostname, port, ...skip } },
    assertions: certificate,
    isRefused: draft.isRefused,
  })
  setEvery(other, CERTIFICATE_INTERVAL_MS)
  setTimeoutMs(other, Number(fields['maxResponseTime']))
}
