// Uptime Kuma: one monitor for each of its JSON backup, or of a list of its API.
import type { Path } from '../../agent/monitors-file/problems.ts'
import { isFields, type Fields } from '../../agent/monitors-file/shorthands.ts'
import {
  addDraft,
  addToken,
  applyOptions,
  type Around,
  type Drafts,
  refuse,
  secretOf,
  withoutSecrets,
} from './drafts.ts'
import { objectOf, OPTIONS } from './uptime-kuma-options.ts'
import { TYPES } from './uptime-kuma-types.ts'
import { acceptStatus, codesFrom, setEvery, setTimeoutMs, textOf } from './values.ts'

/** Makes a monitor of each one in the list; groups become tags. */
export function importUptimeKuma(
  all: Drafts,
  monitors: readonly (readonly [Path, unknown])[],
): void {
  const fields = monitors.flatMap(([path, one]) => (isFields(one) ? [{ path, one }] : []))
  const isGroup = ({ one }: { one: Fields }) => one['type'] === 'group'
  const names = new Map(fields.filter(isGroup).map(({ one }) => [one['id'], one['name']]))
  for (const { path, one } of fields.filter((each) => !isGroup(each))) {
    const kind = String(one['type'])
    const draft = addDraft(all, path, one['name'])
    const made = Object.hasOwn(TYPES, kind)
      ? TYPES[kind]?.(one)
      : 'there is no such type of monitor'
    if (made === undefined || typeof made === 'string') {
      refuse(all, draft, [...path, 'type'], made ?? '')
      continue
    }
    Object.assign(draft, made, { kind, given: one })
    const group = names.get(one['parent'])
    if (group !== undefined) draft.fields['tags'] = [group]
    importTimes({ all, draft, path }, one)
    applyOptions(OPTIONS, one, { all, draft, path })
    complete({ all, draft, path }, one)
  }
}

const RETRIES_MAX = 10
const BACKOFF_SECONDS_MAX = 600

function importTimes(around: Around, one: Fields): void {
  const { all, draft, path } = around
  const seconds = Number(one['interval'] ?? 60)
  setEvery({ ...around, path: [...path, 'interval'] }, seconds * 1000)
  const timeout = Number(one['timeout'] ?? 0)
  const place = { ...around, path: [...path, 'timeout'] }
  // Without a time-out of its own it is four fifths of the interval. Echoes have their own.
  if (draft.type !== 'ICMP')
    setTimeoutMs(place, (timeout > 0 ? timeout : seconds * 0.8) * 1000, timeout === 0)
  else draft.fields['maxPacketLossThreshold'] = 100
  const retries = Number(one['maxretries'] ?? 0)
  if (retries <= 0) return
  const wait = Number(one['retryInterval'] ?? 0) || seconds
  draft.fields['retryStrategy'] = {
    type: 'FIXED',
    maxRetries: Math.min(retries, RETRIES_MAX),
    baseBackoffSeconds: Math.min(wait, BACKOFF_SECONDS_MAX),
  }
  if (retries * wait > BACKOFF_SECONDS_MAX || retries > RETRIES_MAX) {
    const message = `a run is repeated at most ${RETRIES_MAX} times, within ${BACKOFF_SECONDS_MAX} s`
    all.notes.push({ path: [...path, 'maxretries'], message })
  }
}

/** What follows from several options. */
function complete(around: Around, one: Fields): void {
  const { draft } = around
  const { request } = draft
  if (draft.type === 'API' || draft.type === 'WEBSOCKET') {
    const place = { ...around, path: [...around.path, 'url'] }
    request['url'] = withoutSecrets(place, 'url', String(request['url']))
    authenticate(around, one)
  }
  const accepted = (one['accepted_statuscodes'] ?? []) as unknown[]
  const codes = accepted.flatMap((range) => {
    const [first = 0, last = first] = textOf(range).split('-').map(Number)
    return draft.type === 'API' ? codesFrom(first, last) : [first]
  })
  if (draft.type === 'API') {
    const reason = acceptStatus(around, new Set(codes.length > 0 ? codes : codesFrom(200, 299)))
    if (reason !== undefined)
      refuse(around.all, draft, [...around.path, 'accepted_statuscodes'], reason)
  } else if (draft.type === 'WEBSOCKET' && codes.length === 1 && (codes[0] ?? 0) >= 1000) {
    draft.assertions.push({ source: 'CLOSE_CODE', comparison: 'EQUALS', target: codes[0] })
  }
  if (draft.type === 'GRPC') {
    const config = request['grpcConfig'] as Fields
    const place = { ...around, path: [...around.path, 'grpcBody'] }
    config['message'] = withoutSecrets(place, 'body', textOf(config['message']))
  }
  const metadata = objectOf(textOf(one['grpcMetadata']))
  if (draft.type === 'GRPC' && metadata !== undefined) {
    const entries = Object.entries(metadata).map(([key, value]) => ({
      key,
      value: secretOf(around, key, String(value)),
    }))
    Object.assign(request['grpcConfig'] as Fields, { metadata: entries })
  }
}

function authenticate(around: Around, one: Fields): void {
  const { request } = around.draft
  const text = (key: string) => textOf(one[key])
  // Backups of old versions name no method.
  const method = one['authMethod'] ?? (text('basic_auth_user') === '' ? '' : 'basic')
  if (method === 'basic') {
    const password = secretOf(around, 'password', text('basic_auth_pass'))
    request['basicAuth'] = { username: text('basic_auth_user'), password }
  }
  if (method === 'bearer') {
    addToken(around, 'Bearer', secretOf(around, 'token', text('bearer_token')))
  }
  if (method !== 'mtls') return
  const ca = text('tlsCa') === '' ? {} : { ca: text('tlsCa') }
  const privateKey = secretOf(around, 'private key', text('tlsKey'))
  request['tls'] = { ...ca, certificate: text('tlsCert'), privateKey }
}
