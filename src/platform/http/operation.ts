// An operation of the public API: its name, its request, its answer and its handler. This description also
// yields the route, the checks of the request and the operation's part of the OpenAPI document.
import type { OpenAPIHono, RouteConfig } from '@hono/zod-openapi'
import type { Context } from 'hono'
import * as z from 'zod'
import type { Action } from '../../contract/api/account.ts'
import { API_BOUNDS } from '../../contract/api/bounds.ts'
import { PROBLEM_SCHEMAS, type ErrorStatus } from '../../contract/schema/problem.ts'
import { DEFAULT_POLICY, type RatePolicy } from '../../contract/api/rate-policy.ts'
import { nearest } from '../../process/nearest.ts'
import type { KnownKey } from './auth.ts'
import { type BodyBounds, readJson } from './body.ts'
import { problemsOf, problemText } from './draft-problem.ts'
import { notFound, ApiError } from './errors.ts'

type Fields = Record<string, z.ZodType>
type NoFields = Record<string, never>
type Values<F extends Fields | undefined> = F extends Fields ? z.output<z.ZodObject<F>> : object

/** The validated request of an operation. */
export interface Asked<P extends Fields, Q extends Fields, B extends z.ZodType> {
  key: KnownKey
  params: Values<P>
  query: Values<Q>
  body: z.output<B>
  /** The bytes of an `upload`; null where there are none. */
  bytes: ReadableStream<Uint8Array> | null
  /** Only the head of the answer is wanted. */
  isHead: boolean
  /** A header of the request. */
  header: (name: string) => string | undefined
}

/** Its answer; `json` is the text of the body, `response` a whole answer that is not JSON. */
export type Answer =
  | { status: 200 | 201; json: string; contentRange?: string }
  | { status: 204 }
  | { status: 200; response: Response }

/** The definition of an operation. */
export interface Operation<P extends Fields, Q extends Fields, B extends z.ZodType> {
  operationId: string
  tag: string
  summary: string
  description?: string
  method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  path: string
  action: Action
  /** Requests are counted under it; default: DEFAULT_POLICY. */
  policy?: RatePolicy
  /** Parameters of the path; malformed ones give 404. GUIDs, unless `looks` says otherwise. */
  params?: P
  /** Pattern of a parameter for the router: an expression without groups or slashes. */
  looks?: Partial<Record<keyof P & string, string>>
  query?: Q
  /** Query parameters that may be given several times, as `name` or `name[]`; each becomes an array. */
  lists?: readonly (keyof Q & string)[]
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
  answer(asked: Asked<P, Q, B>): Promise<Answer>
}

/** An operation whose types are known and then forgotten, so that a list can hold them all. */
export interface DefinedOperation {
  readonly route: RouteConfig
  readonly action: Action
  readonly policy: RatePolicy
  /** The route's path as Hono's router wants it. */
  readonly routed: string
  run(c: Context, key: KnownKey): Promise<Answer>
}

/** Defines an operation from its description. */
export function defineOperation<
  P extends Fields = NoFields,
  Q extends Fields = NoFields,
  B extends z.ZodType = z.ZodUndefined,
>(operation: Operation<P, Q, B>): DefinedOperation {
  const readQuery = queryReader(operation.query ?? {}, operation.lists ?? [])
  const params = operation.params && z.object(operation.params)
  const bounds: BodyBounds = { ...API_BOUNDS, ...operation.bodyBounds }
  return {
    route: routeOf(operation),
    action: operation.action,
    policy: operation.policy ?? DEFAULT_POLICY,
    routed: routedPath(operation.path, operation.looks ?? {}),
    async run(c, key) {
      return operation.answer({
        key,
        params: readParams(c, params) as Values<P>,
        query: readQuery(c) as Values<Q>,
        body: operation.body && checked(operation.body, await readJson(c, bounds)),
        bytes: operation.upload === undefined ? null : c.req.raw.body,
        isHead: c.req.method === 'HEAD',
        header: (name) => c.req.header(name),
      } as Asked<P, Q, B>)
    },
  }
}

function readParams(c: Context, schema: z.ZodType | undefined): unknown {
  if (schema === undefined) return {}
  const result = schema.safeParse(c.req.param())
  if (!result.success) throw notFound('resource')
  return result.data
}

const SHORT_QUERY_CHARACTERS = 16
const SHORT_QUERIES_MAX = 100

/**
 * Reads the query of requests by `schema`. Short queries that were good, such as `limit=20`, are
 * remembered: most clients send the same one again and again.
 */
function queryReader(shape: Fields, repeatable: readonly string[]): (c: Context) => unknown {
  const schema = z.object(shape)
  const names = new Set(Object.keys(shape))
  const lists = new Set(repeatable)
  const remembered = new Map<string, unknown>()
  return (c) => {
    const start = c.req.url.indexOf('?')
    const text = start === -1 ? '' : c.req.url.slice(start + 1)
    const known = remembered.get(text)
    if (known !== undefined) return known
    const query = Object.freeze(checked(schema, valuesOf(text, names, lists)))
    if (text.length <= SHORT_QUERY_CHARACTERS && remembered.size < SHORT_QUERIES_MAX) {
      remembered.set(text, query)
    }
    return query
  }
}

function valuesOf(
  text: string,
  names: ReadonlySet<string>,
  lists: ReadonlySet<string>,
): Record<string, string | string[]> {
  const single: Record<string, string> = {}
  const several: Record<string, string[]> = {}
  for (const [sent, value] of new URLSearchParams(text)) {
    const bare = sent.endsWith('[]') ? sent.slice(0, -2) : sent
    const name = lists.has(bare) ? bare : sent
    if (!names.has(name)) throw unknownParameter(name, names)
    if (value.includes('\0')) {
      throw new ApiError(400, `${name}: must not hold the character U+0000`)
    }
    if (lists.has(name)) (several[name] ??= []).push(value)
    else if (Object.hasOwn(single, name)) throw new ApiError(400, `${name}: must be given once`)
    else single[name] = value
  }
  return { ...single, ...several }
}

const NAME_CHARACTERS_SHOWN = 64

/** 400 for a query parameter that nothing would come of, such as a filter of a newer version. */
function unknownParameter(name: string, names: ReadonlySet<string>): ApiError {
  const near = nearest(name, names)
  const known = names.size === 0 ? 'none is known here' : `known here: ${[...names].join(', ')}`
  const fix = near === undefined ? known : `did you mean ${near}?`
  const shown = name.slice(0, NAME_CHARACTERS_SHOWN).toWellFormed()
  return new ApiError(400, `${shown}: unknown query parameter; ${fix}`)
}

/** Parses a value by a schema. Throws 400 that names the problems. */
export function checked<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  throw new ApiError(400, problemText(problemsOf(result.error, schema, value)))
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

/** What the document says about an operation. */
function routeOf(operation: Omit<Operation<Fields, Fields, z.ZodType>, 'answer'>): RouteConfig {
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

/** With it no two paths can be confused, so that Hono matches all of them by one expression. */
const GUID_LIKE = '[0-9A-Fa-f-]{36}'

function routedPath(path: string, looks: Partial<Record<string, string>>): string {
  return path.replaceAll(/\{(\w+)\}/g, (_all, name: string) => {
    return `:${name}{${looks[name] ?? GUID_LIKE}}`
  })
}

/** Throws 400 for an URL that is longer than any we answer. */
export function checkTarget(c: Context): void {
  if (c.req.url.length > API_BOUNDS.targetBytesMax) {
    throw new ApiError(400, `The URL must have at most ${API_BOUNDS.targetBytesMax} characters`)
  }
}

/** Asks for the caller's key before an operation runs; the auth middleware of the app. */
export type AuthMiddleware = (
  c: Context,
  operation: DefinedOperation,
) => KnownKey | Promise<KnownKey>

/** Puts operations into the app: into its router and into its document. */
export function mount(
  app: OpenAPIHono,
  auth: AuthMiddleware,
  operations: readonly DefinedOperation[],
  headersFor: (c: Context) => Record<string, string>,
): void {
  for (const operation of operations) {
    const { route } = operation
    app.openAPIRegistry.registerPath(route)
    app.on(route.method, operation.routed, async (c) => {
      const admitted = auth(c, operation)
      const key = admitted instanceof Promise ? await admitted : admitted
      checkTarget(c)
      const answer = await operation.run(c, key)
      const headers = headersFor(c)
      headers['Cache-Control'] = 'no-store'
      if (answer.status === 204) return new Response(null, { status: 204, headers })
      if ('response' in answer) {
        for (const [name, value] of Object.entries(headers))
          answer.response.headers.set(name, value)
        // The body is not read then, and its source would stay open.
        if (c.req.method === 'HEAD') await answer.response.body?.cancel()
        return answer.response
      }
      headers['Content-Type'] = 'application/json; charset=utf-8'
      if (answer.contentRange !== undefined) headers['Content-Range'] = answer.contentRange
      // Not c.body: plain headers go to the socket as they are.
      return new Response(answer.json, { status: answer.status, headers })
    })
  }
}
