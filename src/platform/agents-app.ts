// The agents' API as its own Hono app: calls authenticated by location keys, their document, and every error
// in the body of the contract.
import { OpenAPIHono } from '@hono/zod-openapi'
import type { Log } from '../process/log.ts'
import type { DefinedAgentOperation } from './http/agent-operation.ts'
import { FixedPathRouter } from './http/fixed-path-router.ts'
import { AgentRates } from './http/rate-limit/agent-rates.ts'
import type { ApiOptions } from './app.ts'
import { answerFaults, createOutageLog } from './http/answer-faults.ts'
import { artifactOperation } from './artifacts/intake.ts'
import type { ArtifactStore } from './artifacts/store.ts'
import { agentBundleOperation } from './code-bundles/routes.ts'
import { createClientAddress } from './http/client-address.ts'
import { windowsOf } from './http/rate-limit/queries.ts'
import { faultIntakeOperation } from './faults/routes.ts'
import { PendingCalls } from './agents/pending-calls.ts'
import { mount } from './http/operation.ts'
import { createLocationAuth } from './http/auth.ts'
import { News } from '../database/news.ts'
import type { AgentRegistry } from './agents/agent-registry.ts'
import { serveAgentDocument } from './http/docs/openapi.ts'
import type { PlatformClock } from '../database/platform-clock.ts'
import { presenceOperation } from './agents/presence.ts'
import { RateLimiter } from './http/rate-limit/rate-limit.ts'
import type { OnRecorded } from './results/recorded.ts'
import type { ResultsMetrics } from './results/metrics.ts'
import { resultsOperation } from './results/operation.ts'
import { RESULTS_MS } from './results/retention.ts'
import { syncOperation } from './agents/sync.ts'

export interface AgentsAppOptions extends ApiOptions {
  clock: PlatformClock
  log: Log
  agentRegistry: AgentRegistry
  /** Called with results in the transaction that records them, in this order. */
  onRecorded: readonly OnRecorded[]
  /** Counts the outcomes of results; optional. */
  resultsMetrics?: ResultsMetrics
  /** Store of artifacts and code bundles; without it there are none. */
  artifacts?: ArtifactStore
  /** Rate limits of agents; default AGENT_POLICIES. */
  rates?: AgentRates
}

export interface AgentsApp {
  app: OpenAPIHono
  /** Keys changed, or a change may have been missed: look each up again. */
  forgetKeys(): void
  /** Agents of a location may have news to fetch; without its id, those of any. */
  notify(locationId?: string): void
  /** Answers the waiting calls; from now on no call waits for long. */
  drain(): void
  syncsWaiting(): number
}

/** Makes the app; it opens nothing and starts nothing. */
export function createAgentsApp(options: AgentsAppOptions): AgentsApp {
  const { database, clock, log } = options
  const app = new OpenAPIHono({ router: new FixedPathRouter() })
  const { auth, keys } = createLocationAuth({
    database,
    limiter: new RateLimiter(windowsOf(database)),
    clientAddress: createClientAddress(options.trustedProxies ?? []),
    rates: options.rates ?? new AgentRates(),
  })
  const news = new News()
  const pendingCalls = new PendingCalls()
  const operations = callsOf(options, { news, pendingCalls })
  mount(app, { auth, operations, now: () => clock.now() })
  serveAgentDocument(app, options.publicUrl)
  answerFaults(app, { log, logOutage: options.logOutage ?? createOutageLog(log) })
  return {
    app,
    forgetKeys: () => keys.forget(),
    notify: (locationId) => news.notify(locationId),
    drain: () => pendingCalls.drain(),
    syncsWaiting: () => pendingCalls.count,
  }
}

function callsOf(
  options: AgentsAppOptions,
  waiting: { news: News; pendingCalls: PendingCalls },
): DefinedAgentOperation[] {
  const { database, cipher, clock, log, agentRegistry, artifacts: store } = options
  return [
    syncOperation({ database, cipher, clock, agentRegistry, ...waiting }),
    presenceOperation(database),
    faultIntakeOperation({ database, log }),
    resultsOperation({
      database,
      log,
      metrics: options.resultsMetrics ?? { answered: () => undefined },
      retentionMs: options.resultsMs ?? RESULTS_MS,
      onRecorded: options.onRecorded,
    }),
    ...(store === undefined
      ? []
      : [
          artifactOperation({ database, log, store }),
          agentBundleOperation({ database, log, store }),
        ]),
  ]
}
