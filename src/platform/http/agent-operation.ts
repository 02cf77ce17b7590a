// A call of the agents' API: its name, its request, its answer and its handler. This description also yields
// the route and the call's part of the OpenAPI document.
import type { OpenAPIHono, RouteConfig } from '@hono/zod-openapi'
import type { Context } from 'hono'
import * as z from 'zod'
import { PROBLEM_SCHEMAS, type ErrorStatus } from '../../contract/schema/problem.ts'
import type { AgentCallKind } from '../../contract/api/rate-policy.ts'
import type { AgentRates } from './rate-limit/agent-rates.ts'
import { notFound } from './errors.ts'
import type { KnownLocationKey, LocationAuth } from './location-auth.ts'
import { checkTarget } from './operation.ts'

type Fields = Record<string, z.ZodType>
type NoFields = Record<string, never>
type Values<F extends Fields> = z.output<z.ZodObject<F>>

/** The request of a call; the handler reads its body. */
export interface AgentCall<P extends Fields> {
  c: Context
  key: KnownLocationKey
  params: Values<P>
  /** Milliseconds on the platform's clock: when the call came. */
  receivedAt: number
}

/** The definition of a call. */
export interface AgentOperation<P extends Fields> {
  operationId: string
  summary: string
  description?: string
  method: 'get' | 'post' | 'put'
  path: string
  /** Answers below the path with a slash at its end, too, where another protocol wants it so. */
  isSlashed?: boolean
  /** How it is counted. */
  kind: AgentCallKind
  /** What does not fit is not found. */
  params?: P
  /** Headers that are read, for the document. */
  headers?: Fields
  body?: { contentType: string; schema: z.ZodType; description?: string }
  /** `contentType`: application/json, by default. */
  answers: { schema: z.ZodType; description: string; contentType?: string }
  /** Errors in addition to those that every call has, and what each means. */
  errors?: Partial<Record<ErrorStatus, string>>
  /** Answers; throws ApiError. */
  answer(asked: AgentCall<P>): Promise<Response>
}

/** A call whose types are known and then forgotten, so that a list can hold them all. */
export interface DefinedAgentOperation {
  readonly route: RouteConfig
  readonly kind: AgentCallKind
  readonly isSlashed: boolean
  run(c: Context, key: KnownLocationKey, receivedAt: number): Promise<Response>
}

/** Defines a call from its description. */
export function defineAgentOperation<P extends Fields = NoFields>(
  operation: AgentOperation<P>,
): DefinedAgentOperation {
  const params = operation.params && z.object(operation.params)
  return {
    route: routeOf(operation),
    kind: operation.kind,
    isSlashed: operation.isSlashed === true,
    async run(c, key, receivedAt) {
      const given = params?.safeParse(c.req.param())
      if (given?.success === false) throw notFound('resource')
      return operation.answer({ c, key, params: (given?.data ?? {}) as Values<P>, receivedAt })
    },
  }
}

/** 200 with the text of a JSON body; `headers` are added. */
export function agentJson(
  text: string | Uint8Array<ArrayBuffer>,
  headers: Record<string, string> = {},
): Response {
  return new Response(text, {
    status: 200,
    headers: {
      'Content-Type': 'application/json; charset=utf-8',
      'Cache-Control': 'no-store',
      ...headers,
    },
  })
}

const MEANINGS: Partial<Record<ErrorStatus, string>> = {
  400: 'The call is not as declared',
  401: 'The key is missing or not accepted; `attributes.reason` says whether it was `revoked` or is `unknown`',
  429: 'The key made more calls than its agents need, or too many of this address had no good key; Retry-After says when to come again',
  431: 'The headers are too large',
  500: 'Something failed inside',
  503: 'The database is not available, or the platform is stopping',
}

function routeOf(
  operation: Omit<AgentOperation<Fields>, 'answer' | 'kind' | 'isSlashed'>,
): RouteConfig {
  const { method, path, operationId, summary, description, params, headers, body } = operation
  const meanings = { ...MEANINGS, ...operation.errors }
  const responses: RouteConfig['responses'] = {
    200: {
      description: operation.answers.description,
      content: {
        [operation.answers.contentType ?? 'application/json']: { schema: operation.answers.schema },
      },
    },
  }
  for (const [status, meaning] of Object.entries(meanings)) {
    const schema = PROBLEM_SCHEMAS.get(Number(status) as ErrorStatus) as z.ZodType
    responses[status] = { description: meaning, content: { 'application/json': { schema } } }
  }
  return {
    method,
    path,
    operationId,
    tags: ['Agents'],
    summary,
    ...(description !== undefined && { description }),
    security: [{ bearer: [] }],
    request: {
      ...(headers && { headers: z.object(headers) }),
      ...(params && { params: z.object(params) }),
      ...(body && {
        body: {
          required: true,
          ...(body.description !== undefined && { description: body.description }),
          content: { [body.contentType]: { schema: body.schema } },
        },
      }),
    },
    responses,
  }
}

/** Puts calls into the app: into its router and into its document. `now`: the platform's clock. */
export function mountAgentOperations(
  app: OpenAPIHono,
  parts: {
    auth: LocationAuth
    operations: readonly DefinedAgentOperation[]
    now: () => number
    rates: AgentRates
  },
): void {
  const { auth, operations, now, rates } = parts
  for (const operation of operations) {
    const { route } = operation
    app.openAPIRegistry.registerPath(route)
    const path = route.path.replaceAll(/\{(\w+)\}/g, ':$1')
    const paths = operation.isSlashed ? [path, `${path}/`] : [path]
    app.on(route.method, paths, async (c) => {
      const receivedAt = now()
      checkTarget(c)
      const admitted = auth(c)
      const key = admitted instanceof Promise ? await admitted : admitted
      rates.take(key, operation.kind)
      return operation.run(c, key, receivedAt)
    })
  }
}
