// Assembly of the parts that use the platform's database: both apps, their keys, notifications from other
// processes, and the background jobs. New parts are added here.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Registry } from 'prom-client'
import type { Log } from '../process/log.ts'
import { AGENTS_CHANNEL, countAgents } from './agents/queries/agents.ts'
import { KEYS_CHANNEL } from './accounts/queries/api-keys.ts'
import { listen } from '../database/listen.ts'
import { createAgentMetrics } from './agents/metrics.ts'
import { createAgentsApp } from './agents-app.ts'
import { createAlerting } from './alerts/alerting.ts'
import { createApp } from './app.ts'
import { artifactOperations, artifactRetention, createArtifactStore } from './artifacts/routes.ts'
import { type BackgroundJob, runBackgroundJobs } from './jobs/background-jobs.ts'
import { bundleOperations, bundleRetention } from './code-bundles/routes.ts'
import type { PlatformConfig } from './config.ts'
import { faultRetention } from './faults/routes.ts'
import { locationSampling } from './private-locations/metrics.ts'
import { AgentRegistry } from './agents/agent-registry.ts'
import type { PlatformDatabase } from './open-database.ts'
import { createOutageLog } from './http/answer-faults.ts'
import { createPlatformClock, type PlatformClock } from '../database/platform-clock.ts'
import { adoptHeartbeats } from './heartbeats/queries/watch.ts'
import { watchDeadlines } from './heartbeats/lateness.ts'
import { createPingApp, isPing } from './heartbeats/pings.ts'
import { presenceJobs } from './agents/presence.ts'
import { createRuns } from './runs/routes.ts'
import type { Cipher } from './secrets/cipher.ts'
import { readSweptSpan } from './results/queries/accounting.ts'
import { prepareResults, retentionJob } from './results/retention.ts'
import { createResultsMetrics, registerAccount } from './results/metrics.ts'
import { rollupsJob } from './analytics/rollups.ts'
import { sweepJob } from './results/sweep.ts'

export interface AssemblyParts {
  config: PlatformConfig
  log: Log
  open: PlatformDatabase
  cipher: Cipher
  registry: Registry
}

export interface Assembly {
  /** Answers a request with the app that it addresses. */
  answer(request: Request, env: unknown): Response | Promise<Response>
  /** Runs background jobs and listeners until the signal fires. Never rejects. */
  work(signal: AbortSignal): Promise<void>
  /** Answers the waiting calls; from now on no call waits for long. */
  drain(): void
}

const AGENT_CALL = /^https?:\/\/[^/]*\/agent\/v1\//
/** How often the platform's clock is compared with the database's. */
const FOLLOW_MS = 10_000

/** Puts the parts together. Rejects when the database does not answer. */
export async function assemble(parts: AssemblyParts): Promise<Assembly> {
  const { config, log, open, cipher, registry } = parts
  const { database } = open
  const clock = createPlatformClock(database)
  await clock.follow()
  const httpOptions = httpOptionsOf(config, log)
  const { runs, alerting, artifacts, ...more } = await createWorkingParts(parts, clock)
  const people = createApp({
    database,
    cipher,
    clock,
    log,
    defaultLimit: { limit: config.requestsPerMinute, windowS: 60 },
    resultsMs: config.resultsMs,
    operations: [
      ...runs.operations,
      ...artifactOperations(artifacts),
      ...bundleOperations({ database, log, store: artifacts.store }),
    ],
    ...httpOptions,
  })
  const agentMetrics = createAgentMetrics(registry, {
    syncsWaiting: () => agents.syncsWaiting(),
    agents: () => countAgents(database),
  })
  const agentRegistry = new AgentRegistry(database, agentMetrics)
  const agents = createAgentsApp({
    database,
    cipher,
    clock,
    log,
    agentRegistry,
    // Called in this order in the transaction that records results.
    onRecorded: [alerting.onRecorded, runs.onRecorded],
    resultsMetrics: createResultsMetrics(registry),
    resultsMs: config.resultsMs,
    artifacts: artifacts.store,
    ...httpOptions,
  })
  const heartbeats = {
    database,
    now: () => Math.floor(clock.now()),
    onRecorded: [alerting.onRecorded],
  }
  await adoptHeartbeats(database, cipher, heartbeats.now())
  const pings = createPingApp(heartbeats, { log, logOutage: httpOptions.logOutage })
  const backgroundJobs = [...presenceJobs(database, agentRegistry), ...more.backgroundJobs]
  return {
    answer: (request, env) =>
      appOf(request.url, { people: people.app, agents: agents.app, pings }).fetch(
        request,
        env as never,
      ),
    async work(signal) {
      await Promise.all([
        listenToNews(open, { people, agents }, signal),
        runs.listen(open.address, signal),
        runBackgroundJobs(backgroundJobs, { database, log, signal }),
        followClock(clock, log, signal),
        alerting.send(signal),
        watchDeadlines(heartbeats, { log, signal }),
      ])
    },
    drain() {
      agents.drain()
      runs.drain()
    },
  }
}

function appOf<App>(url: string, apps: { people: App; agents: App; pings: App }): App {
  if (AGENT_CALL.test(url)) return apps.agents
  return isPing(url) ? apps.pings : apps.people
}

function httpOptionsOf({ trustedProxies, publicUrl }: PlatformConfig, log: Log) {
  const logOutage = createOutageLog(log)
  return { trustedProxies, logOutage, ...(publicUrl === undefined ? {} : { publicUrl }) }
}

/** Subscribes both apps to changes by other processes. */
async function listenToNews(
  { address, database }: PlatformDatabase,
  {
    people,
    agents,
  }: { people: ReturnType<typeof createApp>; agents: ReturnType<typeof createAgentsApp> },
  signal: AbortSignal,
): Promise<void> {
  const forgetKeys = () => {
    people.forgetKeys()
    agents.forgetKeys()
  }
  const common = { address, database, signal }
  await Promise.all([
    listen({ ...common, channel: KEYS_CHANNEL, onNews: forgetKeys }),
    listen({ ...common, channel: AGENTS_CHANNEL, onNews: (id) => agents.notify(id) }),
  ])
}

async function createWorkingParts(parts: AssemblyParts, clock: PlatformClock) {
  const { config, log, open, cipher, registry } = parts
  const { database } = open
  const { resultsMs, rollupsMs, accountingGraceMs: graceMs, publicUrl } = config
  const retentionMs = config.artifactsRetentionMs
  // Whole milliseconds, as instants are in the database.
  const now = () => Math.floor(clock.now())
  const runs = createRuns(database)
  const artifacts = { database, store: createArtifactStore(config), retentionMs }
  const alerting = createAlerting({ database, cipher, clock, log, publicUrl })
  const retention = { database, now, resultsMs, rollupsMs }
  registerAccount(registry, () => readSweptSpan(database))
  await prepareResults(retention)
  const backgroundJobs: BackgroundJob[] = [
    locationSampling(database),
    sweepJob({ database, now, retentionMs: resultsMs, graceMs }),
    rollupsJob(database),
    retentionJob(retention),
    ...alerting.backgroundJobs,
    ...runs.backgroundJobs,
    artifactRetention(artifacts),
    bundleRetention(artifacts),
    faultRetention(database),
  ]
  return { runs, artifacts, alerting, backgroundJobs }
}

async function followClock(clock: PlatformClock, log: Log, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await sleep(FOLLOW_MS, undefined, { signal }).catch(() => undefined)
    if (signal.aborted) return
    await clock.follow().catch((error: unknown) => {
      log.debug({ err: error }, 'the clock could not be compared with that of the database')
    })
  }
}
