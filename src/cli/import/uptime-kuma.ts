// Uptime Kuma: one monitor for each of its JSON backup, or of a list of its API.
import type { Path } from '../../agent/monitors-file/problems.ts'
import type { Fields } from '../../agent/monitors-file/shorthands.ts'
import {
  addDraft,
  addToken,
  applyOptions,
  at,
  type Around,
  type Drafts,
  refuse,
  secretOf,
  withoutSecrets,
} from './drafts.ts'
import { objectOf, OPTIONS } from './uptime-kuma-options.ts'
import { TYPES } from './uptime-kuma-types.ts'
import { acceptCodes, setEvery, setTimeoutMs, textOf } from './values.ts'

/** Makes a monitor of each one in the list; groups become tags. */
export function importUptimeKuma(all: Drafts, monitors: readonly [Path, Fields][]): void {
  const groups = monitors.filter(([, { type }]) => type === 'group')
  const names = new Map(groups.map(([, { id, name }]) => [id, name]))
  for (const [path, one] of monitors) {
    const kind = String(one['type'])
    if (kind === 'group') continue
    const around = addDraft(all, path, one['name'])
    const { draft } = around
    const convert = Object.hasOwn(TYPES, kind) ? TYPES[kind] : undefined
    const made = convert?.(one) ?? 'no type of monitor corresponds to it'
    if (typeof made === 'string') {
      refuse(at(around, 'type'), made)
      continue
    }
    Object.assign(draft, made, { given: one })
    const group = names.get(one['parent'])
    if (group !== undefined) draft.fields['tags'] = [group]
    importTimes(around, one)
    applyOptions(OPTIONS, one, around)
    finishMonitor(around, one)
  }
}

const RETRIES_MAX = 10
const BACKOFF_SECONDS_MAX = 600

function importTimes(around: Around, one: Fields): void {
  const { all, draft, path } = around
  const number = (key: string, least = 0, fallback = 0) => {
    const value = Number(textOf(one[key] ?? fallback))
    if (!(value >= least)) refuse(at(around, key), `must be a number of at least ${least}`)
    return value
  }
  const seconds = number('interval', 1, 60)
  const timeout = number('timeout')
  const retries = number('maxretries')
  const wait = number('retryInterval') || seconds
  if (draft.isRefused) return
  setEvery(at(around, 'interval'), seconds * 1000)
  // Without a time-out of its own it is four fifths of the interval. Echoes have their own.
  if (draft.type !== 'ICMP')
    setTimeoutMs(at(around, 'timeout'), timeout > 0 ? timeout * 1000 : seconds * 800)
  else draft.fields['maxPacketLossThreshold'] = 100
  if (retries === 0) return
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
function finishMonitor(around: Around, one: Fields): void {
  const { draft } = around
  const { request } = draft
  if (draft.type === 'API' || draft.type === 'WEBSOCKET') {
    request['url'] = withoutSecrets(at(around, 'url'), 'url', String(request['url']))
    authenticate(around, one)
  }
  const accepted = one['accepted_statuscodes'] ?? undefined
  const atCodes = at(around, 'accepted_statuscodes')
  if (draft.type === 'API') acceptCodes(atCodes, accepted)
  if (draft.type === 'WEBSOCKET') acceptCloseCode(atCodes, accepted)
  if (draft.type === 'GRPC') completeGrpc(around, one)
}

/** Lists of statuses are the default of other types: they have no effect here. */
function acceptCloseCode(around: Around, accepted: unknown): void {
  const codes = (Array.isArray(accepted) ? accepted : [accepted])
    .map(textOf)
    .filter((one) => !/^(?:[1-9]\d\d(?:-[1-9]\d\d)?)?$/.test(one))
  const [code] = codes
  if (code === undefined) return
  if (codes.length === 1 && /^[1-4]\d{3}$/.test(code))
    around.draft.assertions.push({
      source: 'CLOSE_CODE',
      comparison: 'EQUALS',
      target: Number(code),
    })
  else refuse(around, 'is not one close code, like ["1000"]')
}

function completeGrpc(around: Around, one: Fields): void {
  const config = around.draft.request['grpcConfig'] as Fields
  config['message'] = withoutSecrets(at(around, 'grpcBody'), 'body', textOf(config['message']))
  const metadata = objectOf(textOf(one['grpcMetadata']))
  if (metadata === undefined) return refuse(at(around, 'grpcMetadata'), 'is not a JSON object')
  const entries = Object.entries(metadata).map(([key, value]) => ({
    key,
    value: secretOf(around, key, String(value)),
  }))
  if (entries.length > 0) config['metadata'] = entries
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
