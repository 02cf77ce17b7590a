// Answers failed requests with the error body of the contract, in every app of the platform, and logs outages of
// the database: one line per period, regardless of the number of failed requests.
import type { OpenAPIHono } from '@hono/zod-openapi'
import { HTTPException } from 'hono/http-exception'
import type { Log } from '../../process/log.ts'
import { createRepeatedLog } from '../../process/repeated-log.ts'
import { databaseFailure } from '../../database/database-failure.ts'
import { rateHeadersOf } from './rate-limit/rate-limit.ts'
import { answerError, ApiError, unavailable } from './errors.ts'
import { checkTarget } from './operation.ts'

export interface FaultParts {
  log: Pick<Log, 'error'>
  logOutage: LogOutage
  /** What to use instead of an operation that the app does not have, for 501; undefined: 404. */
  insteadOf?: (path: string) => string | undefined
}

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']

/** Answers unknown routes and whatever is thrown; faults of ours and of the database are logged. */
export function answerFaults(app: OpenAPIHono, { log, logOutage, insteadOf }: FaultParts): void {
  app.notFound((c) => {
    checkTarget(c)
    const instead = insteadOf?.(c.req.path)
    const methods = METHODS.filter((method) => app.router.match(method, c.req.path)[0].length > 0)
    if (methods.length > 0) return answerError(wrongMethod(c.req.method, methods, instead), {})
    if (instead !== undefined) return answerError(new ApiError(501, instead), {})
    return answerError(new ApiError(404, 'No such route; ids in paths are GUIDs'), {})
  })
  app.onError((error, c) => {
    const known = knownError(error)
    // The route: a path may contain the token of a heartbeat.
    if (known === undefined) log.error({ err: error, route: c.req.routePath }, 'a request failed')
    else if (databaseFailure(error) !== undefined) logOutage(error)
    return answerError(known, rateHeadersOf(c))
  })
}

/** 405: the path has other methods; `hint` is what to use instead, where that is known. */
function wrongMethod(method: string, methods: readonly string[], hint?: string): ApiError {
  const allow = methods.flatMap((one) => (one === 'GET' ? ['GET', 'HEAD'] : [one])).join(', ')
  const message = `${method} is not one of ${allow}`
  const headers = { Allow: allow }
  return new ApiError(405, hint === undefined ? message : `${message}. ${hint}`, { headers })
}

function knownError(error: Error): ApiError | undefined {
  if (error instanceof ApiError) return error
  if (error instanceof HTTPException && error.status < 500) {
    return new ApiError(400, 'The request is not as declared')
  }
  const kind = databaseFailure(error)?.kind
  return kind === 'unavailable' || kind === 'timeout' || kind === 'conflict'
    ? unavailable()
    : undefined
}

/** Logs the error of a statement that failed because the database did not answer. */
export type LogOutage = (error: unknown) => void

/** Makes the log of outages. */
export function createOutageLog(log: Pick<Log, 'warn'>): LogOutage {
  const warn = createRepeatedLog(log)
  return (error) => {
    // Where in the code it was noticed says nothing about the database.
    const reason = error instanceof Error ? error.message : String(error)
    warn('outage', { reason }, 'the database did not answer; requests get 503 until it does')
  }
}
