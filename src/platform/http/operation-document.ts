// The OpenAPI documents' part of an operation of either API.
import type { RouteConfig } from '@hono/zod-openapi'
import * as z from 'zod'
import { API_BOUNDS } from '../../contract/api/bounds.ts'
import { DEFAULT_POLICY, type RatePolicy } from '../../contract/api/rate-policy.ts'
import { PROBLEM_SCHEMAS, type ErrorStatus } from '../../contract/schema/problem.ts'
import type { BodyBounds } from './body.ts'

export type Fields = Record<string, z.ZodType>

/** What the document says about an operation of the public API; the same fields validate its requests. */
export interface OperationDescription<P extends Fields, Q extends Fields, B extends z.ZodType> {
  tag: string
  summary: string
  description?: string
  method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  path: string
  /** Requests are counted under it; default: DEFAULT_POLICY. */
  policy?: RatePolicy
  /** Parameters of the path: GUIDs, or texts of one pattern. Malformed ones give 404. */
  params?: P
  query?: Q
  body?: B
  /** What the document shows of the body where `body` leaves the checking to `answer`. */
  bodyShown?: z.ZodType | undefined
  /** The body is no JSON but bytes, which `answer` reads as they come. */
  upload?: { contentType: string; bytesMax: number; description: string }
  /** Where the body may go further than API_BOUNDS say. */
  bodyBounds?: Partial<BodyBounds>
  answers: {
    status: 200 | 201 | 204
    schema?: z.ZodType
    description: string
    /** Default: application/json. */
    contentType?: string
    /** The answer has the header Content-Range. */
    hasContentRange?: true
    /** Further answers without a schema, and what they mean. */
    also?: Record<number, string>
  }
  /** Errors in addition to those that every operation has. */
  conflict?: string
  /** Why this version refuses the operation with 501. */
  notImplemented?: string
}

/** Errors that every operation has. */
const ALWAYS: Partial<Record<ErrorStatus, string>> = {
  400: 'The URL, a parameter or the body is not as declared',
  401: 'The key or the account header is missing or not accepted',
  403: 'The key belongs to another account, or its role does not allow this',
  404: 'The account has none with this id or key',
  429: 'The rate limit is exhausted; Retry-After has the seconds to wait',
  431: `The headers have more than ${API_BOUNDS.headerBytesMax} bytes together`,
  500: 'Something failed inside',
  503: 'The database is not available',
}

const RATE_HEADERS: Record<string, string> = {
  'RateLimit-Policy': 'The limit that applies, as "name";q=requests;w=seconds',
  RateLimit: 'The remaining requests, as "name";r=requests;t=seconds',
  'RateLimit-Limit': 'Requests allowed in a window',
  'RateLimit-Remaining': 'Requests left in this window',
  'RateLimit-Reset': 'Seconds until the window ends',
}

const OTHER_HEADERS = {
  'Content-Range': 'Entries of this page and of all: `0-9/42`, `*/42`',
  'WWW-Authenticate': 'The challenge, RFC 6750',
  'Retry-After': 'Seconds to wait',
}

/** The headers of answers by their names, described once: operations refer to them. */
export const HEADER_COMPONENTS = Object.entries({ ...RATE_HEADERS, ...OTHER_HEADERS }).map(
  ([name, description]) => [name, { description, schema: { type: 'string' } }] as const,
)

function headersOf(status: number, hasContentRange = false): Record<string, object> {
  const names = status > 429 ? [] : Object.keys(RATE_HEADERS)
  if (hasContentRange) names.push('Content-Range')
  if (status === 401) names.push('WWW-Authenticate')
  if (status === 429 || status === 503) names.push('Retry-After')
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
}

const accountHeader = z.object({
  'X-Service-Account': z.guid().meta({
    format: 'uuid',
    description: 'The account. `X-Checkly-Account` is accepted as another spelling.',
    example: '4b0f1c3e-6a55-4d3f-9a5e-0a6f6d2f9a01',
  }),
})

/** What the document says about a call of either API. */
interface CallDescription {
  method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  path: string
  tag: string
  summary: string
  description?: string | undefined
  headers?: z.ZodObject | undefined
  params?: Fields | undefined
  query?: Fields | undefined
  body?: { contentType: string; schema: z.ZodType; description?: string } | undefined
  responses: RouteConfig['responses']
}

/** The document's part of a call. Its `operationId` follows from method and path: `getV1ChecksId`. */
export function routeOf(call: CallDescription): RouteConfig {
  const { method, path, tag, summary, description, headers, params, query, body } = call
  const names = path.split('/').map((part) => capitalized(part.replaceAll(/\W/g, '').toLowerCase()))
  return {
    method,
    path,
    operationId: `${method}${names.join('')}`,
    tags: [tag],
    summary,
    ...(description !== undefined && { description }),
    security: [{ bearer: [] }],
    request: {
      ...(headers && { headers }),
      ...(params && { params: z.object(params) }),
      ...(query && { query: z.object(query) }),
      ...(body && {
        body: {
          required: true,
          ...(body.description !== undefined && { description: body.description }),
          content: { [body.contentType]: { schema: body.schema } },
        },
      }),
    },
    responses: call.responses,
  }
}

function capitalized(name: string): string {
  return `${name.slice(0, 1).toUpperCase()}${name.slice(1)}`
}

/** The body of every error with this status, for a route. */
export function problemContent(status: ErrorStatus) {
  return { 'application/json': { schema: PROBLEM_SCHEMAS.get(status) as z.ZodType } }
}

/** What the document says about an operation of the public API. */
export function publicRouteOf(
  operation: OperationDescription<Fields, Fields, z.ZodType>,
): RouteConfig {
  const { description, upload, answers, policy = DEFAULT_POLICY } = operation
  const schema = operation.bodyShown ?? operation.body
  const limit = `Rate limit: ${policy.limit} requests per ${policy.windowS} seconds.`
  const body = schema && { contentType: 'application/json', schema }
  const bytes = upload && { ...upload, schema: z.string().meta({ format: 'binary' }) }
  return routeOf({
    ...operation,
    description: description === undefined ? limit : `${description} ${limit}`,
    headers: accountHeader,
    body: bytes ?? body,
    responses: {
      [answers.status]: {
        description: answers.description,
        headers: headersOf(answers.status, answers.hasContentRange) as never,
        ...(answers.schema && {
          content: { [answers.contentType ?? 'application/json']: { schema: answers.schema } },
        }),
      },
      ...otherAnswers(operation),
    },
  })
}

function otherAnswers(
  operation: OperationDescription<Fields, Fields, z.ZodType>,
): RouteConfig['responses'] {
  const { body, upload, bodyBounds = {}, conflict, notImplemented, answers } = operation
  const bytesMax = upload?.bytesMax ?? bodyBounds.bodyBytesMax ?? API_BOUNDS.bodyBytesMax
  const errors: Partial<Record<ErrorStatus, string>> = {
    ...ALWAYS,
    ...((body ?? upload) && {
      408: 'The body came too slowly',
      413: `The body is larger than ${bytesMax} bytes`,
    }),
    ...(body && { 415: 'The body is not application/json' }),
    ...(conflict !== undefined && { 409: conflict }),
    ...(notImplemented !== undefined && { 501: notImplemented }),
  }
  const responses: RouteConfig['responses'] = {}
  for (const [status, description] of Object.entries(answers.also ?? {})) {
    responses[status] = { description, headers: headersOf(Number(status)) as never }
  }
  for (const [text, description] of Object.entries(errors)) {
    const status = Number(text) as ErrorStatus
    const headers = headersOf(status) as never
    responses[status] = { description, headers, content: problemContent(status) }
  }
  return responses
}
