// The agents' API on a real database and a real port, also several on one database. Answers are checked against the
// API's own document.
import { Registry } from 'prom-client'
import { afterAll, beforeAll } from 'vitest'
import { createAgentMetrics } from '../../../src/platform/agents/metrics.ts'
import {
  type AgentsApp,
  type AgentsAppOptions,
  createAgentsApp,
} from '../../../src/platform/agents-app.ts'
import { createHttpServer } from '../../../src/platform/http/http-server.ts'
import { AgentRegistry } from '../../../src/platform/agents/agent-registry.ts'
import { createPlatformClock } from '../../../src/database/platform-clock.ts'
import { AGENTS_CHANNEL, countAgents } from '../../../src/platform/agents/queries/agents.ts'
import { KEYS_CHANNEL } from '../../../src/platform/accounts/queries/api-keys.ts'
import { listen } from '../../../src/database/listen.ts'
import { type ApiDocument, checkAgainst, type CheckAnswer } from './api-document.ts'
import { presenceJobs } from '../../../src/platform/agents/presence.ts'
import { type TestDatabase, useDatabase } from '../database/database.ts'
import { collectingLog } from '../collecting-log.ts'
import { listening } from '../test-server.ts'
import { type FakeAgent, type KeyedPost, postWithKey } from './fake-agent.ts'
import { TEST_CIPHER } from './public-api.ts'

export { TEST_CIPHER }

/** A running API. */
export interface AgentsApi {
  url: string
  port: number
  agents: AgentsApp
  agentRegistry: AgentRegistry
  document: ApiDocument
  check: CheckAnswer
  post(path: string, post: KeyedPost): ReturnType<typeof postWithKey>
  /** Rejects when the app logged a fault of the platform. */
  close(): Promise<void>
}

/** The API for a file, by default on a database of its own. */
export function useAgentsApi(database = useDatabase()) {
  const api = {} as AgentsApi
  beforeAll(async () => {
    Object.assign(api, await startAgentsApi(database()))
  })
  afterAll(() => api.close())
  return { database, api }
}

/** Starts the API on a database, subscribed to notifications like a platform; `close` ends it. */
export async function startAgentsApi(
  { database, url: databaseUrl }: Pick<TestDatabase, 'database' | 'url'>,
  options: Partial<AgentsAppOptions> = {},
): Promise<AgentsApi> {
  const { log, lines: faults } = collectingLog('error')
  const clock = createPlatformClock(database)
  await clock.follow()
  const news = createAgentMetrics(new Registry(), {
    syncsWaiting: () => agents.syncsWaiting(),
    agents: () => countAgents(database),
  })
  const agentRegistry = new AgentRegistry(database, news)
  const agents = createAgentsApp({
    database,
    cipher: TEST_CIPHER,
    clock,
    log,
    agentRegistry,
    onRecorded: [],
    ...options,
  })
  const stop = new AbortController()
  const ask = { address: { url: databaseUrl }, signal: stop.signal }
  const stands = Promise.withResolvers<void>()
  const onNews = (id?: string) => {
    agents.notify(id)
    stands.resolve()
  }
  const listeners = [
    listen({ ...ask, channel: AGENTS_CHANNEL, onNews }),
    listen({ ...ask, channel: KEYS_CHANNEL, onNews: () => agents.forgetKeys() }),
  ]
  const server = await listening(createHttpServer(agents.app.fetch as never))
  await stands.promise
  const url = `http://${server.authority}`
  const document = (await (await fetch(`${url}/agent/v1/openapi.json`)).json()) as ApiDocument
  const check = checkAgainst(document)
  return {
    url,
    port: server.port,
    agents,
    agentRegistry,
    document,
    check,
    post: (path, post) => postWithKey({ url, check }, path, post),
    async close() {
      stop.abort()
      await Promise.all([server.close(), ...listeners])
      if (faults.length > 0) throw new Error(`the app had faults: ${faults.join('')}`)
    },
  }
}

/** Runs the background jobs of presence once. */
export async function runPresence(
  { database }: Pick<TestDatabase, 'database'>,
  { agentRegistry }: AgentsApi,
): Promise<void> {
  const { signal } = new AbortController()
  for (const job of presenceJobs(database, agentRegistry)) await job.run(signal)
}

/** Sets the last call of agents of a location to `seconds` ago. */
export async function silence(
  { database }: Pick<TestDatabase, 'database'>,
  locationId: string,
  seconds: number,
  ...agents: FakeAgent[]
): Promise<void> {
  await database.query(
    `update agents set last_seen_at = clock_timestamp() - make_interval(secs => $3)
     where location_id = $1 and id = any ($2::uuid[])`,
    [locationId, agents.map(({ facts }) => facts.id), seconds],
  )
}
