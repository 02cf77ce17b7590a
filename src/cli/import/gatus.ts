// gatus: one monitor for each endpoint, of the type that the scheme of its URL says.
import * as z from 'zod'
import type { Path } from '../../agent/monitors-file/problems.ts'
import { isFields, type Fields } from '../../agent/monitors-file/shorthands.ts'
import {
  addDraft,
  addHeaders,
  applyOptions,
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
  hostAndPort,
  NO_DURATION,
  setEvery,
  setTimeoutMs,
  textOf,
} from './values.ts'

const ALERTS = 'alerts are set up on the platform; see `vedette help alerts`'
const PAUSES = 'there are no maintenance windows; mute the monitor meanwhile'

const CLIENT: Options = {
  insecure: formed(z.boolean(), (value, { draft }) => {
    if (draft.type === 'SSL') placeOf(draft)['skipChainValidation'] = value
    else if (draft.type !== 'ICMP') draft.request['skipSSL'] = value
    return undefined
  }),
  'ignore-redirect': formed(z.boolean(), (value, { draft }) => {
    if (draft.type === 'API') draft.request['followRedirects'] = !value
    return undefined
  }),
  timeout: silent,
  'dns-resolver': only([''], 'names are looked up by the name servers of the agent’s system'),
  oauth2: never('monitors do not fetch tokens; use an API monitor with a set-up script'),
  'proxy-url': only([''], 'a proxy is set for all monitors: write proxyUrl at the top of the file'),
  'identity-aware-proxy': never(
    'monitors do not fetch tokens; use an API monitor with a set-up script',
  ),
  tls: within({
    'certificate-file': toTlsFile('certificateFile'),
    'private-key-file': toTlsFile('privateKeyFile'),
    renegotiation: only(['never'], 'TLS is never renegotiated'),
  }),
  network: formed(z.enum(['ip', 'ip4', 'ip6']), (value, { draft }) => {
    if (value !== 'ip') placeOf(draft)['ipFamily'] = value === 'ip6' ? 'IPv6' : 'IPv4'
    return undefined
  }),
  tunnel: only([''], 'SSH tunnels are not supported; run an agent behind the tunnel'),
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
    return undefined
  }),
  group: (value: string, { draft }) => {
    if (value !== '') draft.fields['tags'] = [value]
    return undefined
  },
  method: (value: string, { draft }) => {
    if (draft.type === 'API') draft.request['method'] = value
    return undefined
  },
  headers: formed(PAIRS, (value, around) => {
    if (['API', 'WEBSOCKET'].includes(around.draft.type)) addHeaders(around, value)
    return undefined
  }),
  body: formed(TEXT, (value, around) => {
    const { fields, type, request, given } = around.draft
    const field = BODY_FIELD[type]
    if (value === '' || request['dialogue'] !== undefined) return undefined
    if (field === undefined) return 'monitors of this type have no body'
    if (PLACEHOLDER.test(value)) return 'this placeholder has no equivalent'
    const filled = value
      .replaceAll('[ENDPOINT_NAME]', String(fields['name']))
      .replaceAll('[ENDPOINT_GROUP]', textOf(given?.['group']))
      .replaceAll('[ENDPOINT_URL]', textOf(request['url']))
    request[field] = withoutSecrets(around, 'body', filled)
    if (type === 'API') request['bodyType'] ??= 'RAW'
    return undefined
  }),
  conditions: formed(z.array(TEXT), (conditions, around) => {
    for (const [index, condition] of conditions.entries()) {
      const path = [...around.path, index]
      const reason = applyCondition(condition, { ...around, path })
      if (reason !== undefined) refuse(around.all, around.draft, path, reason)
    }
    return undefined
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
  for (const key of ['suites', 'external-endpoints']) {
    const reason =
      key === 'suites'
        ? 'steps that share values need a multistep monitor, or an API monitor with scripts'
        : 'receives its results; create a HEARTBEAT monitor on a platform with `vedette apply`'
    const list = Array.isArray(source[key]) ? source[key] : []
    for (const index of list.keys()) refuse(all, undefined, [key, index], reason)
  }
  const list = Array.isArray(source['endpoints']) ? source['endpoints'] : []
  for (const [index, endpoint] of list.entries()) {
    if (isFields(endpoint)) importEndpoint(all, endpoint, ['endpoints', index])
    else refuse(all, undefined, ['endpoints', index], 'must be a mapping')
  }
  const read = new Set(['endpoints', 'suites', 'external-endpoints'])
  for (const key of Object.keys(source).filter((one) => !read.has(one))) {
    const message = Object.hasOwn(TOP, key) ? TOP[key] : 'is a setting of gatus itself'
    all.notes.push({ path: [key], message: String(message), atKey: true })
  }
}

const TOP: Readonly<Record<string, string>> = {
  alerting: ALERTS,
  maintenance: PAUSES,
  tunneling: 'SSH tunnels are not supported; run an agent behind the tunnel',
}

function importEndpoint(all: Drafts, endpoint: Fields, path: Path): void {
  const draft = addDraft(all, path, endpoint['name'])
  const made = typeAndRequest(endpoint, String(endpoint['url']))
  if (typeof made === 'string') return refuse(all, draft, [...path, 'url'], made)
  const [type, request] = made
  Object.assign(draft, { type, request, given: endpoint })
  const around: Around = { all, draft, path }
  const client = isFields(endpoint['client']) ? endpoint['client'] : {}
  const interval = durationMs(endpoint['interval'] ?? '60s')
  const timeout = durationMs(client['timeout'] ?? '10s')
  if (interval === undefined) return refuse(all, draft, [...path, 'interval'], NO_DURATION)
  if (timeout === undefined) return refuse(all, draft, [...path, 'client', 'timeout'], NO_DURATION)
  setEvery({ ...around, path: [...path, 'interval'] }, interval)
  setTimeoutMs(
    { ...around, path: [...path, 'client', 'timeout'] },
    timeout,
    client['timeout'] === undefined,
  )
  const place = { ...around, path: [...path, 'url'] }
  if (isTyped(draft)) draft.request['url'] = withoutSecrets(place, 'url', String(endpoint['url']))
  applyOptions(ENDPOINT, endpoint, around)
  if (draft.type === 'API') completeHttp(around, String(endpoint['url']))
}

const isTyped = ({ type }: Draft) => type === 'API' || type === 'WEBSOCKET'

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
  if (authority === undefined) return refuse(all, draft, path, 'has no certificate')
  const { fields, request } = draft
  const { host: hostname, port = 443 } = hostAndPort(authority)
  const other = addDraft(all, path, `${String(fields['name'])} certificate`)
  other.type = 'SSL'
  for (const key of ['tags', 'activated']) {
    if (Object.hasOwn(fields, key)) other.fields[key] = fields[key]
  }
  const skip = request['skipSSL'] === true ? { skipChainValidation: true } : {}
  other.request['sslConfig'] = { hostname, port, ...skip }
  other.assertions.push(...certificate)
  other.isRefused = draft.isRefused
  setEvery({ all, draft: other, path }, CERTIFICATE_INTERVAL_MS)
  setTimeoutMs({ all, draft: other, path }, Number(fields['maxResponseTime']), true)
}
