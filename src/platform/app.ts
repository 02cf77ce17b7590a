// The public HTTP API as one Hono app: operations behind their gate, documents, and every error in the
// one body of the contract.
import { OpenAPIHono } from '@hono/zod-openapi'
import { HTTPException } from 'hono/http-exception'
import type { Logger } from 'pino'
import { DEFAULT_POLICY, type RatePolicy } from '../contract/rate-policy.ts'
import type { Database } from '../store/database.ts'
import { databaseFailure } from '../store/database-failure.ts'
import { sweepWindows, takeFromWindow } from '../store/rate-windows.ts'
import { accountOperations, type AccountSource } from './accounts.ts'
import { KeyRing, type KeySource } from './auth.ts'
import { createClientAddress } from './client-address.ts'
import { answerError, ApiError, unavailable } from './errors.ts'
import { FixedPathRouter } from './fixed-path-router.ts'
import { createGate, rateHeadersOf } from './gate.ts'
import { incidentUpdateOperations } from './incident-updates.ts'
import { incidentOperations } from './incidents.ts'
import { serveDocuments } from './openapi.ts'
import { checkTarget, mount } from './operation.ts'
import { RateLimiter, type WindowSource } from './rate-limit.ts'
import { runtimeOperations } from './runtimes.ts'
import { serviceOperations } from './services.ts'
import { statusPageOperations } from './status-pages.ts'

/** What the app is made of. */
export interface AppOptions {
  database: Database
  keys: KeySource
  accounts: AccountSource
  log: Pick<Logger, 'error' | 'warn'>
  /** Requests a key may make by default. */
  defaultLimit?: Pick<RatePolicy, 'limit' | 'windowS'>
  /** Addresses or networks whose X-Forwarded-For is believed. */
  trustedProxies?: readonly string[]
  /** Where clients reach this platform, for the document. */
  publicUrl?: string
}

/** The app, and what has to be told from outside. */
export interface App {
  app: OpenAPIHono
  /** Keys changed, or a change may have been missed: look each up again. */
  forgetKeys(): void
}

/** Makes the app; it opens nothing and starts nothing. */
export function createApp(options: AppOptions): App {
  const { database, log } = options
  const app = new OpenAPIHono({ router: new FixedPathRouter() })
  const keys = new KeyRing(options.keys)
  const limiter = new RateLimiter(windowsOf(database))
  const defaultPolicy: RatePolicy = { ...DEFAULT_POLICY, ...options.defaultLimit }
  const gate = createGate({
    keys,
    limiter,
    clientAddress: createClientAddress(options.trustedProxies ?? []),
    policyOf: ({ policy }) => (policy === DEFAULT_POLICY ? defaultPolicy : policy),
  })
  const operations = [
    ...incidentOperations(database),
    ...incidentUpdateOperations(database),
    ...serviceOperations(database),
    ...statusPageOperations(database),
    ...accountOperations(options.accounts),
    ...runtimeOperations(),
  ]
  mount(app, gate, operations, rateHeadersOf)
  serveDocuments(app, options.publicUrl)
  app.notFound((c) => {
    checkTarget(c)
    return answerError(new ApiError(404, 'No such route'), {})
  })
  app.onError((error, c) => {
    const known = knownError(error)
    if (known === undefined) log.error({ err: error, path: c.req.path }, 'a request failed')
    else if (known.status === 503) log.warn({ err: error }, 'the database did not answer')
    return answerError(known, rateHeadersOf(c))
  })
  return { app, forgetKeys: () => keys.forget() }
}

const SWEEP_MS = 600_000

/** Windows of the database; now and then those that ended long ago are dropped. */
function windowsOf(database: Database): WindowSource {
  let sweptAt = -Infinity
  return {
    take(ask) {
      if (performance.now() - sweptAt > SWEEP_MS) {
        sweptAt = performance.now()
        // What is not dropped now is dropped the next time.
        sweepWindows(database).catch(() => {})
      }
      return takeFromWindow(database, ask)
    },
  }
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
