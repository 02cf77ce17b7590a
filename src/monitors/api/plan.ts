// Plan of an API monitor: the request as it is sent, and the evaluation of its answer.
import type { ApiMonitor, ApiRequest } from '../../contract/http-monitor.ts'
import { httpPlan } from '../http/check.ts'
import type { HttpPlan } from '../http/trip.ts'
import { headersOf, namesOf, targetFor, type HttpTarget } from '../../network/http/target.ts'

/** Makes the definition ready to run. Throws like `headersOf`. */
export function prepareApi(monitor: ApiMonitor): HttpPlan {
  return httpPlan(monitor, targetOf(monitor.request), true)
}

const CONTENT_TYPES = {
  JSON: 'application/json',
  FORM: 'application/x-www-form-urlencoded',
  RAW: 'text/plain',
  GRAPHQL: 'application/json',
} as const

/** The request as it is sent. What the user says in headers wins over what follows from other fields. */
function targetOf(request: ApiRequest): HttpTarget {
  const { method, bodyType } = request
  const headers = headersOf(request)
  if (bodyType !== 'NONE' && !namesOf(headers).has('content-type')) {
    headers.push('Content-Type', CONTENT_TYPES[bodyType])
  }
  const locked = new Set(
    request.headers.filter((one) => one.locked).map((one) => one.key.toLowerCase()),
  )
  return targetFor(urlOf(request), { method, headers, body: bodyOf(request), locked })
}

function urlOf({ url, queryParameters }: ApiRequest): URL {
  const whole = new URL(url)
  // Appended as text, so that what the user wrote into the URL stays byte for byte.
  const added = queryParameters
    .map(({ key, value }) => `${encoded(key)}=${encoded(value)}`)
    .join('&')
  if (added !== '') whole.search = whole.search === '' ? added : `${whole.search}&${added}`
  return whole
}

/** Percent-encoding; a half of a surrogate pair becomes the replacement character. */
function encoded(text: string): string {
  return encodeURIComponent(text.toWellFormed())
}

/** The body's bytes; a method that usually has a body says so when there is none (RFC 9110, 8.6). */
function bodyOf({ method, body, bodyType }: ApiRequest): Buffer | undefined {
  const text = bodyType === 'GRAPHQL' ? graphQl(body) : body
  if (bodyType !== 'NONE' && text !== '') return Buffer.from(text)
  return method === 'POST' || method === 'PUT' || method === 'PATCH' ? Buffer.alloc(0) : undefined
}

/** GraphQL over HTTP: a bare query becomes the JSON that servers want; such JSON stays as it is. */
function graphQl(body: string): string {
  try {
    const parsed = JSON.parse(body) as { query?: unknown } | null
    if (typeof parsed?.query === 'string') return body
  } catch {
    // A query in GraphQL's own language.
  }
  return body === '' ? '' : JSON.stringify({ query: body })
}
