// An operation of one of the two APIs: its name, its request, its answer and its handler. This description also
// yields the route, the checks of the request and the operation's part of the OpenAPI document.
import type { OpenAPIHono, RouteConfig } from '@hono/zod-openapi'
import type { Context } from 'hono'
import * as z from 'zod'
import type { Action } from '../../contract/api/account.ts'
import { API_BOUNDS } from '../../contract/api/bounds.ts'
import { DEFAULT_POLICY, type RatePolicy } from '../../contract/api/rate-policy.ts'
import { type BodyBounds, readJson } from './body.ts'
import type { KnownKey } from './keys.ts'
import { publicRouteOf, type Fields, type OperationDescription } from './operation-document.ts'
import { rateHeadersOf } from './rate-limit/rate-limit.ts'
import { nearest } from '../../process/nearest.ts'
import { problemsOf, problemText } from './draft-problem.ts'
import { ApiError, notFound } from './errors.ts'

export type NoFields = Record<string, never>
export type Values<F extends Fields> = F extends NoFields ? object : z.output<z.ZodObject<F>>

/** The validated request of an operation of the public API. */
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

/**
 * Its answer: the text of a JSON body, perhaps with further headers, undefined without content, or a whole answer
 * that is not JSON.
 */
export type Answer =
  | string
  | { json: string | Uint8Array<ArrayBuffer>; headers: Record<string, string> }
  | undefined
  | Response

export interface Operation<
  P extends Fields,
  Q extends Fields,
  B extends z.ZodType,
> extends OperationDescription<P, Q, B> {
  /** What the role of the key has to permit; by default `read` for GET, otherwise `write`. */
  action?: Action
  /** Query parameters that may be given several times, as `name` or `name[]`; each becomes an array. */
  lists?: readonly (keyof Q & string)[]
  answer(asked: Asked<P, Q, B>): Promise<Answer>
}

/** An operation that can be mounted, for callers that are known by a `Key`. */
export interface Mountable<Key> {
  readonly route: RouteConfig
  /** The route's paths as Hono's router wants them. */
  readonly paths: string[]
  /** The status of its answers, unless they are whole ones. */
  readonly status: number
  /** `receivedAt`: when the request came, in milliseconds on the platform's clock. */
  run(c: Context, key: Key, receivedAt: number): Promise<Answer>
}

/** An operation whose types are known and then forgotten, so that a list can hold them all. */
export interface DefinedOperation extends Mountable<KnownKey> {
  readonly action: Action
  readonly policy: RatePolicy
}

/** Defines an operation of the public API from its description. */
export function defineOperation<
  P extends Fields = NoFields,
  Q extends Fields = NoFields,
  B extends z.ZodType = z.ZodUndefined,
>(operation: Operation<P, Q, B>): DefinedOperation {
  const readQuery = queryReader(operation.query ?? {}, operation.lists ?? [])
  const params = operation.params && z.object(operation.params)
  const bounds: BodyBounds = { ...API_BOUNDS, ...operation.bodyBounds }
  return {
    route: publicRouteOf(operation),
    action: operation.action ?? (operation.method === 'get' ? 'read' : 'write'),
    policy: operation.policy ?? DEFAULT_POLICY,
    paths: [routedPath(operation.path, operation.params ?? {})],
    status: operation.answers.status,
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

/** No fixed part of a path looks like it. */
const GUID_LIKE = '[0-9A-Fa-f-]{36}'

/** A pattern of a schema that the router can use: an expression without groups or slashes. */
const PLAIN_PATTERN = /^\^([^()/]+)\$$/

function routedPath(path: string, params: Fields): string {
  return path.replaceAll(/\{(\w+)\}/g, (_all, name: string) => {
    const { pattern = '' } = z.toJSONSchema(params[name] ?? z.guid(), { io: 'input' })
    return `:${name}{${PLAIN_PATTERN.exec(pattern)?.[1] ?? GUID_LIKE}}`
  })
}

/** Auth middleware: the key of a request that may run the operation. Throws 401, 403 and 429. */
export type Auth<Key, Mounted> = (c: Context, operation: Mounted) => Promise<Key>

/** Puts operations into the app: into its router and into its document. `now`: the platform's clock. */
export function mount<Key, Mounted extends Mountable<Key>>(
  app: OpenAPIHono,
  parts: { auth: Auth<Key, Mounted>; operations: readonly Mounted[]; now: () => number },
): void {
  const { auth, operations, now } = parts
  for (const operation of operations) {
    app.openAPIRegistry.registerPath(operation.route)
    app.on(operation.route.method, operation.paths, async (c) => {
      const receivedAt = now()
      const key = await auth(c, operation)
      checkTarget(c)
      return respond(c, operation.status, await operation.run(c, key, receivedAt))
    })
  }
}

async function respond(c: Context, status: number, answer: Answer): Promise<Response> {
  const headers = { ...rateHeadersOf(c), 'Cache-Control': 'no-store' }
  if (answer instanceof Response) {
    for (const [name, value] of Object.entries(headers)) answer.headers.set(name, value)
    // The body is not read then, and its source would stay open.
    if (c.req.method === 'HEAD') await answer.body?.cancel()
    return answer
  }
  if (answer === undefined) return new Response(null, { status, headers })
  const { json, headers: more } = typeof answer === 'string' ? { json: answer } : answer
  const type = { 'Content-Type': 'application/json; charset=utf-8' }
  // Not c.body: plain headers go to the socket as they are.
  return new Response(json, { status, headers: { ...headers, ...type, ...more } })
}

/** Throws 400 for an URL that is longer than any we answer. */
export function checkTarget(c: Context): void {
  if (c.req.url.length > API_BOUNDS.targetBytesMax) {
    throw new ApiError(400, `The URL must have at most ${API_BOUNDS.targetBytesMax} characters`)
  }
}

/** The validated parameters of the path. Throws 404 for those that do not fit `schema`. */
export function readParams(c: Context, schema: z.ZodType | undefined): unknown {
  if (schema === undefined) return {}
  const result = schema.safeParse(c.req.param())
  if (!result.success) throw notFound('resource')
  return result.data
}

const SHORT_QUERY_CHARACTERS_MAX = 16
const SHORT_QUERIES_MAX = 100

/**
 * Reads the query of requests by `shape`; the parameters of `repeatable` become lists. Short valid queries, such as
 * `limit=20`, are parsed once: parsing costs a twelfth of a listing.
 */
function queryReader(
  shape: Record<string, z.ZodType>,
  repeatable: readonly string[],
): (c: Context) => unknown {
  const schema = z.object(shape)
  const names = new Set(Object.keys(shape))
  const lists = new Set(repeatable)
  const parsed = new Map<string, unknown>()
  return (c) => {
    const start = c.req.url.indexOf('?')
    const text = start === -1 ? '' : c.req.url.slice(start + 1)
    const known = parsed.get(text)
    if (known !== undefined) return known
    const query = Object.freeze(checked(schema, valuesOf(text, names, lists)))
    if (text.length <= SHORT_QUERY_CHARACTERS_MAX && parsed.size < SHORT_QUERIES_MAX) {
      parsed.set(text, query)
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
      throw new ApiError(400, `${name}: must not contain the character U+0000`)
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
