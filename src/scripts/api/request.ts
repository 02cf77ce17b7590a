// Request of an API monitor on its way through a set-up script: the script's view of it, and the request made from the
// script's result. Unchanged fields get the values that variables have after the script.
import { jsonOf } from '../../contract/exact-json.ts'
import { ApiRequest, type ApiMonitor } from '../../contract/http-monitor.ts'
import { objections } from '../../contract/schema/explain.ts'
import { failure } from '../../contract/failure.ts'
import { substitute, type Lookup } from '../../contract/variables.ts'
import type { Pairs, ScriptRequest, SetUpDone } from './messages.ts'
import { TargetFailure } from '../../network/target-failure.ts'

/** The request as a script is shown it. */
export function shownRequest(request: ApiRequest): ScriptRequest {
  const { method, url, body, headers, queryParameters } = request
  return {
    method,
    url,
    body,
    headers: grouped(pairsOf(headers)),
    queryParameters: grouped(pairsOf(queryParameters)),
  }
}

export function grouped(pairs: Pairs): Record<string, string | string[]> {
  const values = new Map<string, string[]>()
  for (const [name, value] of pairs) values.set(name, [...(values.get(name) ?? []), value])
  // From entries, so that a name `__proto__` is a name like any other.
  return Object.fromEntries(
    [...values].map(([name, all]) => [name, all.length === 1 ? (all[0] as string) : all]),
  )
}

function pairsOf(list: readonly { key: string; value: string }[]): Pairs {
  return list.map(({ key, value }) => [key, value])
}

/** A monitor with its definition as it was written, variables still as `{{NAME}}`. */
export interface WrittenApi {
  monitor: ApiMonitor
  /** Its `request`; undefined where it is not known. */
  written: unknown
}

/** The request that is to be sent. Throws a TargetFailure: SCRIPT_FAILED, VARIABLE_UNKNOWN. */
export function changedRequest(
  { monitor, written }: WrittenApi,
  lookup: Lookup,
  done: SetUpDone,
): ApiRequest {
  const given = monitor.request
  const raw = (written ?? given) as ApiRequest
  // Only what the definition names itself: what a script got from somewhere must not draw in other variables.
  const named = new Set(substitute(raw, () => undefined).unknown)
  const own: Lookup = (name) => (named.has(name) ? lookup(name) : undefined)
  const put = (text: string) => substitute(text, own).value as string
  const base = substitute(raw, own).value as ApiRequest
  const { method, url, body } = done.request
  const hasNewBody = body !== given.body
  const changed = {
    ...base,
    method: method === given.method ? base.method : method.toUpperCase(),
    url: url === given.url ? base.url : put(url),
    ...(hasNewBody && { body: put(body), bodyType: bodyTypeFor(given.bodyType, body) }),
    headers: merged(given.headers, base.headers, done.request.headers, put),
    queryParameters: merged(
      given.queryParameters,
      base.queryParameters,
      done.request.queryParameters,
      put,
    ),
  }
  const [unknown] = substitute(changed, (name) => (named.has(name) ? undefined : '')).unknown
  if (unknown !== undefined) throw stillUnknown(unknown)
  const parsed = ApiRequest.safeParse(changed)
  if (parsed.success) return parsed.data
  const [first] = objections(parsed.error, ApiRequest, changed)
  const where = ['request', ...(first?.path ?? [])].join('.')
  const message = `the request is invalid after the set-up script: ${where}: ${first?.message}`
  throw new TargetFailure(failure('SCRIPT_FAILED', message))
}

function stillUnknown(name: string): TargetFailure {
  const message = `the variable ${name} is not defined, and the set-up script does not set it`
  return new TargetFailure(failure('VARIABLE_UNKNOWN', message, { variable: name }))
}

/** A monitor without a body may get one by its script. */
function bodyTypeFor(type: ApiRequest['bodyType'], body: string): ApiRequest['bodyType'] {
  if (type !== 'NONE' || body === '') return type
  return typeof jsonOf(body) === 'object' ? 'JSON' : 'RAW'
}

type PairList = ApiRequest['headers']

/** What the script left alone as it was written; a locked name stays locked. */
function merged(
  given: PairList,
  base: PairList | undefined,
  returned: Pairs,
  put: (text: string) => string,
): PairList {
  const rest = new Map<string, { value: string; now: string }[]>()
  for (const [index, { key, value }] of given.entries()) {
    const now = base?.[index]?.value ?? value
    rest.set(key, [...(rest.get(key) ?? []), { value, now }])
  }
  const locked = new Set(given.filter((one) => one.locked).map((one) => one.key.toLowerCase()))
  return returned.map(([key, value]) => {
    const before = rest.get(key)?.shift()
    const isSame = before !== undefined && before.value === value
    return {
      key,
      value: isSame ? before.now : put(value),
      locked: locked.has(key.toLowerCase()),
    }
  })
}
