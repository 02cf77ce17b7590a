// What an API monitor's definition comes to: the request as it is sent, and how its answer is evaluated.
import { validateHeaderName, validateHeaderValue } from 'node:http'
import type { ApiMonitor, ApiRequest } from '../../contract/http-monitor.ts'
import { failure, type Failure } from '../../contract/failure.ts'
import { LIMITS } from '../../contract/versions.ts'
import type { HttpPlan } from '../http/check.ts'
import { basic, namesOf, targetFor, type HttpTarget } from '../../network/http/target.ts'

/** What a definition comes to: something to run, or what keeps it from running. */
export type PreparedApi = { plan: HttpPlan } | { failure: Failure }

/** Makes the definition ready to run. */
export function prepareApi(monitor: ApiMonitor): PreparedApi {
  const problem = headerProblem(monitor.request)
  return problem === undefined ? { plan: makePlan(monitor) } : { failure: problem }
}

/** The messages name the header, never its value. */
function headerProblem(request: ApiRequest): Failure | undefined {
  for (const { key, value } of request.headers) {
    try {
      validateHeaderName(key)
      validateHeaderValue(key, value)
    } catch {
      const message = `the header ${JSON.stringify(key)} has a character that HTTP does not allow`
      return failure('SETTINGS_INVALID', message, { header: key })
    }
  }
  return undefined
}

function makePlan(monitor: ApiMonitor): HttpPlan {
  const { request } = monitor
  const looksIntoBody = request.assertions.some(
    ({ source }) => source === 'JSON_BODY' || source === 'TEXT_BODY',
  )
  return {
    first: targetOf(request),
    family: request.ipFamily,
    followRedirects: request.followRedirects,
    skipSSL: request.skipSSL,
    tls: request.tls,
    allAddresses: request.allAddresses,
    keepBytes: looksIntoBody ? LIMITS.unpackedBytesMax : LIMITS.bodyExcerptBytesMax,
    assertions: request.assertions,
    shouldFail: monitor.shouldFail,
    thresholds: monitor,
    showBody: true,
  }
}

const CONTENT_TYPES = {
  JSON: 'application/json',
  FORM: 'application/x-www-form-urlencoded',
  RAW: 'text/plain',
  GRAPHQL: 'application/json',
} as const

/** The request as it is sent. What the user says in headers wins over what follows from other fields. */
function targetOf(request: ApiRequest): HttpTarget {
  const { method, bodyType, basicAuth } = request
  const headers = request.headers.flatMap(({ key, value }) => [key, value])
  const has = namesOf(headers)
  if (bodyType !== 'NONE' && !has.has('content-type')) {
    headers.push('Content-Type', CONTENT_TYPES[bodyType])
  }
  const { username = '', password = '' } = basicAuth ?? {}
  if ((username !== '' || password !== '') && !has.has('authorization')) {
    headers.push('Authorization', basic(username, password))
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
