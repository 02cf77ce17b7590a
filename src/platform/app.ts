// The public HTTP API as one Hono app: operations behind their gate, documents, and every error in the
// one body of the contract.
import { OpenAPIHono } from '@hono/zod-openapi'
import type { Logger } from 'pino'
import { DEFAULT_POLICY, type RatePolicy } from '../contract/rate-policy.ts'
import type { Database } from '../store/database.ts'
import { accountVariableOperations } from './account-variables.ts'
import { accountOperations, type AccountSource } from './accounts.ts'
import { rateHeadersOf } from './admission.ts'
import { analyticsOperations } from './analytics.ts'
import { alertChannelOperations } from './alert-channels.ts'
import { alertSettingsOperations } from './alert-settings.ts'
import { answerFaults } from './answer-faults.ts'
import { applyOperations } from './apply.ts'
import type { KnownKey } from './auth.ts'
import { checkGroupOperations } from './check-groups.ts'
import { checkOperations } from './checks.ts'
import { checkResultOperations } from './check-results.ts'
import { checkStatusOperations } from './check-statuses.ts'
import { createClientAddress } from './client-address.ts'
import { windowsOf } from './database-windows.ts'
import { faultOperations } from './faults.ts'
import { FixedPathRouter } from './fixed-path-router.ts'
import { createGate } from './gate.ts'
import type { Told } from './incident-notices.ts'
import { incidentUpdateOperations } from './incident-updates.ts'
import { incidentOperations } from './incidents.ts'
import { KeyRing, type KeySource } from './key-ring.ts'
import { locationKeyOperations } from './location-keys.ts'
import { locationMetricsOperations } from './location-metrics.ts'
import { insteadOf } from './not-implemented.ts'
import { serveDocuments } from './openapi.ts'
import { type DefinedOperation, mount } from './operation.ts'
import type { PlatformClock } from './platform-clock.ts'
import { createOutageLog, type LogOutage } from './outage-log.ts'
import { privateLocationOperations } from './private-locations.ts'
import { RateLimiter } from './rate-limit.ts'
import { RESULTS_MS } from './retention.ts'
import { runtimeOperations } from './runtimes.ts'
import type { Sealer } from './sealing.ts'
import { serviceOperations } from './services.ts'
import { accountingOperations } from './slot-account.ts'
import { statusPageOperations } from './status-pages.ts'

/** What the app is made of. */
export interface AppOptions {
  database: Database
  keys: KeySource<KnownKey>
  accounts: AccountSource
  /** Seals secrets that the database keeps. */
  sealer: Sealer
  clock: Pick<PlatformClock, 'now'>
  log: Pick<Logger, 'error' | 'warn'>
  /** Told when the database does not answer; by default it goes to the log. */
  logOutage?: LogOutage
  /** Requests a key may make by default. */
  defaultLimit?: Pick<RatePolicy, 'limit' | 'windowS'>
  /** Addresses or networks whose X-Forwarded-For is believed. */
  trustedProxies?: readonly string[]
  /** How long rows of results are kept; default RESULTS_MS. */
  resultsMs?: number
  /** Of parts that have a life of their own beside the app. */
  operations?: readonly DefinedOperation[]
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
  const told: Told = { now: () => options.clock.now(), publicUrl: options.publicUrl }
  const operations = [
    ...applyOperations(options),
    ...checkOperations(options),
    ...checkGroupOperations(options),
    ...privateLocationOperations(options),
    ...locationKeyOperations(database),
    ...locationMetricsOperations(options),
    ...accountVariableOperations(options),
    ...alertChannelOperations(database, options.sealer),
    ...alertSettingsOperations(database),
    ...incidentOperations(database, told),
    ...incidentUpdateOperations(database, told),
    ...serviceOperations(database),
    ...statusPageOperations(database),
    ...accountOperations(options.accounts),
    ...runtimeOperations(),
    ...checkResultOperations(database),
    ...checkStatusOperations(database),
    ...analyticsOperations({
      database,
      now: () => options.clock.now(),
      resultsMs: options.resultsMs ?? RESULTS_MS,
    }),
    ...accountingOperations(database),
    ...faultOperations(database),
    ...(options.operations ?? []),
  ]
  mount(app, gate, operations, rateHeadersOf)
  serveDocuments(app, options.publicUrl)
  const logOutage = options.logOutage ?? createOutageLog(log)
  answerFaults(app, { log, logOutage, insteadOf })
  return { app, forgetKeys: () => keys.forget() }
}
