// Turns any error into the error body of the public API, without revealing more of it.
import { isDuplicate } from '../../database/database-failure.ts'
import { FAILED_AUTHENTICATION } from '../../contract/api/rate-policy.ts'
import { problem, type ErrorStatus } from '../../contract/schema/problem.ts'
import type { RateVerdict } from './rate-limit/rate-limit.ts'

/** An error that a request is answered with, in the format of the public contract. */
export class ApiError extends Error {
  readonly status: ErrorStatus
  readonly attributes: Record<string, unknown> | undefined
  readonly headers: Record<string, string>

  constructor(
    status: ErrorStatus,
    message: string,
    more: { attributes?: Record<string, unknown>; headers?: Record<string, string> } = {},
  ) {
    super(message)
    this.name = 'ApiError'
    this.status = status
    this.attributes = more.attributes
    this.headers = more.headers ?? {}
  }
}

/** 401 with the challenge that RFC 6750 asks for. */
export function unauthorized(message: string): ApiError {
  return new ApiError(401, message, {
    attributes: { error: message },
    headers: { 'WWW-Authenticate': `Bearer error="${message}"` },
  })
}

/** 404 for a thing that does not exist or belongs to another account. */
export function notFound(what: string): ApiError {
  return new ApiError(404, `No such ${what}`)
}

/** What was looked for. Throws 404 where it is undefined. */
export function orNotFound<T>(thing: T | undefined, what: string): T {
  if (thing === undefined) throw notFound(what)
  return thing
}

/** Throws 409 with the message for a row that `constraint` refuses as a duplicate; any other error as it is. */
export function conflictOf(constraint: string, message: string): (error: unknown) => never {
  return (error) => {
    throw isDuplicate(error, constraint) ? new ApiError(409, message) : error
  }
}

/** 429 for a request that is over its limit; `headers` are added. */
export function tooMany(verdict: RateVerdict, headers: Record<string, string> = {}): ApiError {
  const { policy, resetS } = verdict
  const what = policy === FAILED_AUTHENTICATION ? 'failed authentications' : 'requests'
  return new ApiError(
    429,
    `Rate limit of ${policy.limit} ${what} in ${policy.windowS} seconds is used up`,
    {
      attributes: {
        policy: policy.name,
        limit: policy.limit,
        remaining: 0,
        windowSeconds: policy.windowS,
        resetSeconds: resetS,
      },
      headers: { 'Retry-After': String(resetS), ...headers },
    },
  )
}

/** Closes the connection after an answer that was given before the body was read to its end. */
export const UNREAD = { headers: { Connection: 'close' } }

/** 413 for a thing that is too large, such as `An artifact`. */
export function tooLarge(bytesMax: number, thing: string): ApiError {
  return new ApiError(413, `${thing} must have at most ${bytesMax} bytes`, UNREAD)
}

/** 503: the database is away; it says when to come again. */
export function unavailable(): ApiError {
  return new ApiError(503, 'The database is not available at the moment', {
    headers: { 'Retry-After': '1' },
  })
}

/** The answer to `error`. Anything that is no ApiError says only that it was our fault. */
export function answerError(
  error: ApiError | undefined,
  headers: Record<string, string>,
): Response {
  const status = error?.status ?? 500
  const body = problem(status, error?.message ?? 'Something failed inside', error?.attributes)
  return new Response(JSON.stringify(body), {
    status,
    headers: {
      'Content-Type': 'application/json; charset=utf-8',
      'Cache-Control': 'no-store',
      ...headers,
      ...error?.headers,
    },
  })
}
