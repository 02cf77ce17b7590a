// The OpenAPI document's part of an operation of the public API.
import type { RouteConfig } from '@hono/zod-openapi'
import * as z from 'zod'
import { API_BOUNDS } from '../../contract/api/bounds.ts'
import { DEFAULT_POLICY, type RatePolicy } from '../../contract/api/rate-policy.ts'
import { PROBLEM_SCHEMAS, type ErrorStatus } from '../../contract/schema/problem.ts'
import type { BodyBounds } from './body.ts'

/** Schemas of fields by name. */
export type Fields = Record<string, z.ZodType>

/** What the document says about an operation of the public API; the same fields validate its requests. */
export interface OperationDescription<P extends Fields, Q extends Fields, B extends z.ZodType> {
  operationId: string
  tag: string
  summary: string
  description?: string
  method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  path: string
  /** Requests are counted under it; default: DEFAULT_POLICY. */
  policy?: RatePolicy
  /** Parameters of the path; malformed ones give 404. GUIDs, unless `looks` says otherwise. */
  params?: P
  query?: Q
  body?: B
  /** What the document shows of the body where `body` leaves the checking to `answer`. */
  bodyShown?: z.ZodType
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

const ALWAYS: readonly ErrorStatus[] = [400, 401, 403, 404, 429, 431, 500, 503]

const MEANINGS: Partial<Record<ErrorStatus, string>> = {
  400: 'The URL, a parameter or the body is not as declared',
  401: 'The key or the account header is missing or not accepted',
  403: 'The key belongs to another account, or its role does not allow this',
  404: 'There is no such thing in this account',
  408: 'The body came too slowly',
  415: 'The body is not application/json',
  429: 'The rate limit is used up; Retry-After says when it is not',
  431: `The headers have more than ${API_BOUNDS.headerBytesMax} bytes together`,
  500: 'Something failed inside',
  503: 'The database is not available',
}

const RATE_HEADERS = {
  'RateLimit-Policy': 'The limit that was counted, as "name";q=requests;w=seconds',
  RateLimit: 'What is left of it, as "name";r=requests;t=seconds',
  'RateLimit-Limit': 'Requests allowed in a window',
  'RateLimit-Remaining': 'Requests left in this window',
  'RateLimit-Reset': 'Seconds until the window ends',
}

function headersOf(status: number, hasContentRange = false): Record<string, object> {
  const named: Record<string, string> = status > 429 ? {} : { ...RATE_HEADERS }
  if (hasContentRange) named['Content-Range'] = 'Entries of this page and of all: `0-9/42`, `*/42`'
  if (status === 401) named['WWW-Authenticate'] = 'The challenge, RFC 6750'
  if (status === 429 || status === 503) named['Retry-After'] = 'Seconds to wait'
  return Object.fromEntries(
    Object.entries(named).map(([name, description]) => [
      name,
      { description, schema: { type: 'string' } },
    ]),
  )
}

const accountHeader = z.object({
  'X-Service-Account': z.guid().meta({
    format: 'uuid',
    description: 'The account. `X-Checkly-Account` is accepted as another spelling.',
    example: '4b0f1c3e-6a55-4d3f-9a5e-0a6f6d2f9a01',
  }),
})

function meaningOf(
  status: ErrorStatus,
  { conflict = '', notImplemented = '' }: { conflict?: string; notImplemented?: string },
  bytesMax: number,
): string {
  if (status === 409) return conflict
  if (status === 501) return notImplemented
  return status === 413 ? `The body is larger than ${bytesMax} bytes` : (MEANINGS[status] ?? '')
}

/** What the document says about an operation of the public API. */
export function routeOf(operation: OperationDescription<Fields, Fields, z.ZodType>): RouteConfig {
  const { upload } = operation
  const bodyBytesMax =
    upload?.bytesMax ?? operation.bodyBounds?.bodyBytesMax ?? API_BOUNDS.bodyBytesMax
  const { method, path, operationId, tag, summary, description, params, query, body } = operation
  const policy = operation.policy ?? DEFAULT_POLICY
  const shown = operation.bodyShown ?? body
  const limit = `Rate limit: ${policy.limit} requests per ${policy.windowS} seconds.`
  const errors: ErrorStatus[] = [...ALWAYS]
  if (body !== undefined) errors.push(408, 413, 415)
  if (upload !== undefined) errors.push(408, 413)
  if (operation.conflict !== undefined) errors.push(409)
  if (operation.notImplemented !== undefined) errors.push(501)
  const {
    status,
    schema,
    description: meaning,
    contentType,
    hasContentRange,
    also,
  } = operation.answers
  const responses: RouteConfig['responses'] = {
    [status]: {
      description: meaning,
      headers: headersOf(status, hasContentRange) as never,
      ...(schema && { content: { [contentType ?? 'application/json']: { schema } } }),
    },
  }
  for (const [other, errorText] of Object.entries(also ?? {})) {
    responses[other] = { description: errorText, headers: headersOf(Number(other)) as never }
  }
  for (const one of errors.sort((a, b) => a - b)) {
    responses[one] = {
      description: meaningOf(one, operation, bodyBytesMax),
      headers: headersOf(one) as never,
      content: { 'application/json': { schema: PROBLEM_SCHEMAS.get(one) as z.ZodType } },
    }
  }
  return {
    method,
    path,
    operationId,
    tags: [tag],
    summary,
    description: description === undefined ? limit : `${description} ${limit}`,
    security: [{ bearer: [] }],
    request: {
      headers: accountHeader,
      ...(params && { params: z.object(params) }),
      ...(query && { query: z.object(query) }),
      ...(upload && {
        body: {
          required: true,
          description: upload.description,
          content: { [upload.contentType]: { schema: z.string().meta({ format: 'binary' }) } },
        },
      }),
      ...(shown && {
        body: { required: true, content: { 'application/json': { schema: shown } } },
      }),
    },
    responses,
  }
}
