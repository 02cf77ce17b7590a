// The platform process of the bench of recording: the agents' API on a database, and nothing else.
import type { AddressInfo } from 'node:net'
import { Registry } from 'prom-client'
import { createLog } from '../../../src/process/log.ts'
import { createAgentMetrics } from '../../../src/platform/agents/metrics.ts'
import { createAgentsApp } from '../../../src/platform/agents-app.ts'
import { createHttpServer } from '../../../src/platform/http/http-server.ts'
import { AgentRegistry } from '../../../src/platform/agents/agent-registry.ts'
import { createPlatformClock } from '../../../src/database/platform-clock.ts'
import { createResultsMetrics } from '../../../src/platform/results/metrics.ts'
import { createCipher } from '../../../src/platform/secrets/cipher.ts'
import { countAgents } from '../../../src/platform/agents/queries/agents.ts'
import { openDatabase } from '../../../src/database/database.ts'

function serve(databaseUrl: string): void {
  const database = openDatabase({ address: { url: databaseUrl }, applicationName: 'bench' })
  const log = createLog({ level: 'warn', pretty: false })
  const registry = new Registry()
  const agents = createAgentsApp({
    database,
    log,
    onRecorded: [],
    cipher: createCipher('bench'),
    clock: createPlatformClock(database),
    resultsMetrics: createResultsMetrics(registry),
    agentRegistry: new AgentRegistry(
      database,
      createAgentMetrics(registry, { syncsWaiting: () => 0, agents: () => countAgents(database) }),
    ),
  })
  const server = createHttpServer(agents.app.fetch as never)
  server.listen(0, '127.0.0.1', () => {
    process.send?.({ port: (server.address() as AddressInfo).port })
  })
}

// No server may outlive a failed bench.
process.once('disconnect', () => process.exit())
process.once('message', serve)
