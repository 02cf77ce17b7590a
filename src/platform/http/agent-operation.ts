// A call of the agents' API: its name, its request, its answer and its handler. This description also yields
// the route and the call's part of the OpenAPI document.
import type { RouteConfig } from '@hono/zod-openapi'
import type { Context } from 'hono'
import * as z from 'zod'
import type { ErrorStatus } from '../../contract/schema/problem.ts'
import type { AgentCallKind } from '../../contract/api/rate-policy.ts'
import type { KnownLocationKey } from './keys.ts'
import { readParams, type Answer, type Mountable, type NoFields, type Values } from './operation.ts'
import { type Fields, problemContent, routeOf } from './operation-document.ts'

/** The request of a call; the handler reads its body. */
export interface AgentCall<P extends Fields> {
  c: Context
  key: KnownLocationKey
  params: Values<P>
  /** Milliseconds on the platform's clock: when the call came. */
  receivedAt: number
}

export interface AgentOperation<P extends Fields> {
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
  /** `bytesMax`: the same for all agents. */
  body?: { contentType: string; schema: z.ZodType; bytesMax?: number; description?: string }
  /** `contentType`: application/json, by default. */
  answers: { schema: z.ZodType; description: string; contentType?: string }
  /** Errors in addition to those that every call has, and what each means. */
  errors?: Partial<Record<ErrorStatus, string>>
  /** Answers; throws ApiError. */
  answer(asked: AgentCall<P>): Promise<Answer>
}

/** A call whose types are known and then forgotten, so that a list can hold them all. */
export interface DefinedAgentOperation extends Mountable<KnownLocationKey> {
  readonly kind: AgentCallKind
}

/** Defines a call from its description. */
export function defineAgentOperation<P extends Fields = NoFields>(
  operation: AgentOperation<P>,
): DefinedAgentOperation {
  const params = operation.params && z.object(operation.params)
  const path = operation.path.replaceAll(/\{(\w+)\}/g, ':$1')
  return {
    route: agentRouteOf(operation),
    kind: operation.kind,
    paths: operation.isSlashed === true ? [path, `${path}/`] : [path],
    status: 200,
    run: async (c, key, receivedAt) =>
      operation.answer({ c, key, params: readParams(c, params) as Values<P>, receivedAt }),
  }
}

const MEANINGS: Partial<Record<ErrorStatus, string>> = {
  400: 'The call is not as declared',
  401: 'The key is missing or not accepted; `attributes.reason` says whether it was `revoked` or is `unknown`',
  429: 'Too many calls with this key, or too many with an invalid key from this address; Retry-After has the seconds to wait',
  431: 'The headers are too large',
  500: 'Something failed inside',
  503: 'The database is not available, or the platform is stopping',
}

function bodyErrors(bytesMax: number): Partial<Record<ErrorStatus, string>> {
  return {
    408: 'The body came too slowly',
    413: `The body is larger than ${bytesMax} bytes`,
    415: 'The Content-Type or Content-Encoding of the body is not supported',
  }
}

function agentRouteOf(operation: Omit<AgentOperation<Fields>, 'answer'>): RouteConfig {
  const { answers, errors, body } = operation
  const { schema, description, contentType = 'application/json' } = answers
  const responses: RouteConfig['responses'] = {
    200: { description, content: { [contentType]: { schema } } },
  }
  const ofBody = body?.bytesMax === undefined ? {} : bodyErrors(body.bytesMax)
  for (const [status, meaning] of Object.entries({ ...MEANINGS, ...ofBody, ...errors })) {
    const content = problemContent(Number(status) as ErrorStatus)
    responses[status] = { description: meaning, content }
  }
  const headers = operation.headers && z.object(operation.headers)
  return routeOf({ ...operation, tag: 'Agents', headers, responses })
}
