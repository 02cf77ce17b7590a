// The public HTTP API as one Hono app: authenticated operations, documents, and every error in the body of
// the contract.
import { OpenAPIHono } from '@hono/zod-openapi'
import type { Logger } from 'pino'
import { DEFAULT_POLICY, type RatePolicy } from '../contract/api/rate-policy.ts'
import type { Database } from '../database/database.ts'
import { accountVariableOperations } from './variables/routes.ts'
import { accountOperations, runtimesOperation } from './accounts/routes.ts'
import { findActiveKey } from './accounts/queries/api-keys.ts'
import { analyticsOperations } from './analytics/routes.ts'
import { alertChannelOperations } from './alerts/routes.ts'
import { alertSettingsOperations } from './alerts/settings.ts'
import { answerFaults, createOutageLog, type LogOutage } from './http/answer-faults.ts'
import { applyOperation } from './apply/routes.ts'
import { createAuth, KeyRing } from './http/auth.ts'
import { checkGroupOperations } from './groups/routes.ts'
import { checkOperations } from './checks/routes.ts'
import { checkResultOperations } from './results/routes.ts'
import { checkStatusOperations } from './results/statuses.ts'
import { createClientAddress } from './http/client-address.ts'
import { FixedPathRouter } from './http/fixed-path-router.ts'
import { windowsOf } from './http/rate-limit/queries.ts'
import { faultOperations } from './faults/routes.ts'
import { heartbeatOperations } from './heartbeats/routes.ts'
import type { NoticeOptions } from './incidents/notices.ts'
import { incidentUpdateOperations } from './incidents/updates.ts'
import { incidentOperations } from './incidents/routes.ts'
import { locationKeyOperations } from './private-locations/keys.ts'
import { locationMetricsOperation } from './private-locations/metrics.ts'
import { insteadOf } from './http/docs/not-implemented.ts'
import { serveDocuments } from './http/docs/openapi.ts'
import { type DefinedOperation, mount } from './http/operation.ts'
import type { PlatformClock } from '../database/platform-clock.ts'
import { privateLocationOperations } from './private-locations/routes.ts'
import { RateLimiter } from './http/rate-limit/rate-limit.ts'
import { RESULTS_MS } from './results/retention.ts'
import type { Cipher } from './secrets/cipher.ts'
import { serviceOperations } from './services/routes.ts'
import { accountingOperation } from './results/accounting.ts'
import { statusPageOperations } from './status-pages/routes.ts'

/** What both APIs are made of. */
export interface ApiOptions {
  database: Database
  /** Encrypts secrets that the database stores. */
  cipher: Cipher
  clock: Pick<PlatformClock, 'now'>
  log: Pick<Logger, 'error' | 'warn'>
  /** Called when the database does not answer; by default it writes to the log. */
  logOutage?: LogOutage
  /** Addresses or networks whose X-Forwarded-For is trusted. */
  trustedProxies?: readonly string[]
  /** Retention of results; default RESULTS_MS. */
  resultsMs?: number
  /** Where clients and agents reach this platform, for the documents. */
  publicUrl?: string
}

export interface AppOptions extends ApiOptions {
  /** Default request rate of a key. */
  defaultLimit?: Pick<RatePolicy, 'limit' | 'windowS'>
  /** Operations of parts that are created outside the app. */
  operations?: readonly DefinedOperation[]
}

export interface App {
  app: OpenAPIHono
  /** Keys changed, or a change may have been missed: look each up again. */
  forgetKeys(): void
}

/** Makes the app; it opens nothing and starts nothing. */
export function createApp(options: AppOptions): App {
  const { database, log } = options
  const app = new OpenAPIHono({ router: new FixedPathRouter() })
  const keys = new KeyRing((hash) => findActiveKey(database, hash))
  const limiter = new RateLimiter(windowsOf(database))
  const defaultPolicy: RatePolicy = { ...DEFAULT_POLICY, ...options.defaultLimit }
  const auth = createAuth({
    keys,
    limiter,
    clientAddress: createClientAddress(options.trustedProxies ?? []),
    policyOf: ({ policy }) => (policy === DEFAULT_POLICY ? defaultPolicy : policy),
  })
  const now = () => options.clock.now()
  const notices: NoticeOptions = { now, publicUrl: options.publicUrl }
  const operations = [
    applyOperation(options),
    ...checkOperations(options),
    ...checkGroupOperations(options),
    ...privateLocationOperations(options),
    ...locationKeyOperations(database),
    locationMetricsOperation(options),
    ...accountVariableOperations(options),
    ...alertChannelOperations(database, options.cipher),
    ...alertSettingsOperations(database),
    ...incidentOperations(database, notices),
    ...incidentUpdateOperations(database, notices),
    ...serviceOperations(database),
    ...statusPageOperations(database),
    ...accountOperations(database),
    runtimesOperation(),
    ...checkResultOperations(database),
    ...checkStatusOperations(database),
    ...analyticsOperations({ database, now, resultsMs: options.resultsMs ?? RESULTS_MS }),
    accountingOperation(database),
    ...heartbeatOperations({ database, now }),
    ...faultOperations(database),
    ...(options.operations ?? []),
  ]
  mount(app, { auth, operations, now })
  serveDocuments(app, options.publicUrl)
  const logOutage = options.logOutage ?? createOutageLog(log)
  answerFaults(app, { log, logOutage, insteadOf })
  return { app, forgetKeys: () => keys.forget() }
}
