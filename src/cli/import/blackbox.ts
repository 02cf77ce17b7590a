// blackbox_exporter: one monitor for each target of Prometheus, as the module of the target says.
import * as z from 'zod'
import { isFields, type Fields } from '../../agent/monitors-file/shorthands.ts'
import { DNS } from './blackbox-dns.ts'
import { CLIENT, FAMILY, headerLists, HTTP, TLS_CONFIG } from './blackbox-http.ts'
import {
  addDraft,
  applyOptions,
  at,
  type Around,
  type Drafts,
  formed,
  only,
  type Options,
  refuse,
  secretOf,
  silent,
  TEXTS,
  toRequest,
  withoutSecrets,
  within,
} from './drafts.ts'
import type { ScrapeTarget } from './scrape-targets.ts'
import {
  acceptCodes,
  durationMs,
  fieldsOf,
  fromGoRegex,
  GO_REGEX,
  hostAndPort,
  literal,
  NO_DURATION,
  recordTypeOf,
  setEvery,
  setTimeoutMs,
  textOf,
} from './values.ts'

const QUERY_STEPS = z.array(
  z.strictObject({
    expect: z.string().optional(),
    expect_bytes: z.string().optional(),
    send: z.string().optional(),
    starttls: z.boolean().optional(),
    labels: z.unknown().optional(),
  }),
)

const dialogue = formed(QUERY_STEPS, (steps, around) => {
  const { all, draft, path } = around
  const made: Fields[] = []
  for (const [
    index,
    { expect, expect_bytes: bytes, send, starttls = false, labels },
  ] of steps.entries()) {
    const regex = bytes === undefined ? fromGoRegex(expect ?? '') : literal(bytes)
    if (regex === undefined) return refuse(around, GO_REGEX)
    if (/\$\{\d+\}/.test(send ?? ''))
      return refuse(around, 'the text to send cannot contain parts of an answer')
    if (labels !== undefined) {
      all.notes.push({ path: [...path, index, 'labels'], message: 'metrics have no such labels' })
    }
    if (regex !== '') made.push({ expect: regex })
    // The exporter ends each line that it sends.
    if (send !== undefined && send !== '')
      made.push({ send: `${withoutSecrets(around, 'send', send)}\n` })
    if (starttls) made.push({ startTls: true })
  }
  draft.request['dialogue'] = made
})

const TCP: Options = {
  ...FAMILY,
  query_response: dialogue,
  tls: silent,
  tls_config: within(TLS_CONFIG),
}

const ICMP: Options = {
  ...FAMILY,
  dont_fragment: toRequest('dontFragment'),
  payload_size: toRequest('payloadBytes'),
  ttl: toRequest('ttl'),
}

const GRPC: Options = {
  ...FAMILY,
  service: silent,
  metadata: formed(z.record(z.string(), TEXTS), (value, around) => {
    const entries = Object.entries(value).flatMap(([key, values]) =>
      values.map((one) => ({ key, value: secretOf(around, key, one) })),
    )
    Object.assign(around.draft.request['grpcConfig'] as Fields, { metadata: entries })
  }),
  tls: silent,
  tls_config: within(TLS_CONFIG),
}

const WEBSOCKET: Options = {
  ...FAMILY,
  http_config: within({
    ...CLIENT,
    follow_redirects: only([true], 'a handshake that is redirected fails'),
  }),
  headers: headerLists,
  query_response: formed(QUERY_STEPS, (steps, around) => {
    const sent = steps.flatMap(({ expect, send }) => [
      ...(expect === undefined ? [] : [['expect', expect]]),
      ...(send === undefined ? [] : [['message', send]]),
    ]) as [string, string][]
    const order = sent.map(([kind]) => kind).join(' ')
    if (!['', 'message', 'expect', 'message expect'].includes(order)) {
      const one = 'one message is sent, then one is expected; anything else needs a script'
      return refuse(around, one)
    }
    for (const [kind, text] of sent) {
      const value = kind === 'expect' ? fromGoRegex(text) : withoutSecrets(around, 'message', text)
      if (value === undefined) return refuse(around, GO_REGEX)
      around.draft.request[kind] = value
    }
  }),
}

const PROBERS: Readonly<Record<string, { type: string; options: Options }>> = {
  http: { type: 'API', options: HTTP },
  tcp: { type: 'TCP', options: TCP },
  dns: { type: 'DNS', options: DNS },
  icmp: { type: 'ICMP', options: ICMP },
  grpc: { type: 'GRPC', options: GRPC },
  websocket: { type: 'WEBSOCKET', options: WEBSOCKET },
}

/** What the request has before the options are applied. */
function firstRequest(type: string, target: string, prober: Fields): Fields {
  const { host, port } = hostAndPort(target)
  if (type === 'API')
    return { method: 'GET', url: target.includes('://') ? target : `http://${target}` }
  if (type === 'WEBSOCKET') return { url: target, ping: false }
  if (type === 'ICMP') return { hostname: target, pingCount: 1 }
  if (type === 'TCP')
    return { hostname: host, port, ...(prober['tls'] === true ? { tls: true } : {}) }
  if (type === 'DNS') {
    const recordType = recordTypeOf(textOf(prober['query_type'] ?? 'ANY'))
    return { query: '', recordType, nameServer: host, ...(port === undefined ? {} : { port }) }
  }
  const service = prober['service'] === undefined ? {} : { service: prober['service'] }
  return {
    url: host,
    port,
    grpcConfig: { mode: 'HEALTH', tls: prober['tls'] === true, ...service },
  }
}

/** Makes a monitor of each target. */
export function importBlackbox(
  all: Drafts,
  modules: Fields,
  targets: readonly ScrapeTarget[],
): void {
  for (const target of targets) {
    const module = Object.hasOwn(modules, target.module) ? modules[target.module] : undefined
    const around = addDraft(all, target.path, target.name)
    if (isFields(module)) applyModule(around, module, target)
    else {
      const name = JSON.stringify(target.module)
      refuse(around, `unknown module ${name}; define it under modules`)
    }
  }
  for (const name of Object.keys(modules)) {
    if (targets.some(({ module }) => module === name)) continue
    const message = 'unused: no target names this module'
    all.notes.push({ path: ['modules', name], message, atKey: true })
  }
}

/** What a module has beside the options of its prober: those of others have no effect. */
const MODULE: Options = Object.fromEntries(
  ['prober', 'timeout', 'unix', ...Object.keys(PROBERS)].map((name) => [name, silent]),
)

function applyModule({ all, draft }: Around, module: Fields, target: ScrapeTarget): void {
  const around = { all, draft, path: ['modules', target.module] }
  const prober = String(module['prober'])
  const kind = Object.hasOwn(PROBERS, prober) ? PROBERS[prober] : undefined
  if (kind === undefined) {
    return refuse(at(around, 'prober'), 'no type of monitor corresponds to this prober')
  }
  const given = fieldsOf(module[prober])
  draft.type = kind.type
  draft.request = firstRequest(kind.type, target.target, given)
  draft.owner = target.module
  if (target.tags.length > 0) draft.fields['tags'] = target.tags
  const job = { all, draft, path: target.path.slice(0, 2) }
  const interval = durationMs(target.interval)
  const timeout = durationMs(module['timeout'] ?? target.timeout)
  if (interval === undefined || timeout === undefined)
    return refuse(job, `its interval or timeout ${NO_DURATION}`)
  setEvery(job, interval)
  setTimeoutMs(at(around, 'timeout'), timeout)
  applyOptions({ ...MODULE, [prober]: within(kind.options) }, module, around)
  finishModule(at(around, prober), given)
}

/** What follows from several options, or from their absence. */
function finishModule(around: Around, given: Fields): void {
  const { draft } = around
  const { request } = draft
  if (typeof request['url'] === 'string') {
    request['url'] = withoutSecrets(around, 'url', request['url'])
    // The name of a target is its address, unless a label says otherwise.
    draft.fields['name'] = withoutSecrets(around, 'url', String(draft.fields['name']))
  }
  if (draft.type === 'API') {
    acceptCodes(at(around, 'valid_status_codes'), given['valid_status_codes'])
  }
  const steps = (request['dialogue'] ?? []) as Fields[]
  const isPlain =
    (draft.type === 'TCP' && given['tls'] !== true && !steps.some((one) => 'startTls' in one)) ||
    (draft.type === 'GRPC' && given['tls'] !== true) ||
    (draft.type === 'DNS' && request['protocol'] !== 'DOT')
  if (isPlain) delete request['tls']
}
