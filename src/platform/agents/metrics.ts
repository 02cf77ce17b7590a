// The platform's metrics about agents, for Prometheus.
import { Counter, Gauge, type Registry } from 'prom-client'
import type { AgentRegistryListener } from './agent-registry.ts'

/** Sources that are read at each scrape. */
export interface AgentMetricSources {
  syncsWaiting(): number
  /** Agents by state; rejects when the database is away. */
  agents(): Promise<Record<string, number>>
}

/** Registers the metrics in `registry`; returns the counters. */
export function createAgentMetrics(
  registry: Registry,
  sources: AgentMetricSources,
): AgentRegistryListener {
  const registers = [registry]
  const epochs = new Counter({
    name: 'vedette_location_epochs_total',
    help: 'Changes to the agents of a location, by cause, made by this process.',
    labelNames: ['cause'],
    registers,
  })
  const lost = new Counter({
    name: 'vedette_agents_lost_total',
    help: 'Agents that this process gave up because they were silent.',
    registers,
  })
  const waitingSyncs: Gauge = new Gauge({
    name: 'vedette_syncs_held',
    help: 'Calls of agents that wait for news.',
    registers,
    collect: () => waitingSyncs.set(sources.syncsWaiting()),
  })
  const agents: Gauge<'state'> = new Gauge({
    name: 'vedette_agents',
    help: 'Agents of all locations by state, as the database knows them.',
    labelNames: ['state'],
    registers,
    async collect() {
      agents.reset()
      // Without the database the number is unknown: no sample is better than an old one.
      const counts = await sources.agents().catch(() => ({}))
      for (const [state, count] of Object.entries(counts)) agents.set({ state }, count)
    },
  })
  for (const cause of ['join', 'leave', 'lost', 'change']) epochs.inc({ cause }, 0)
  return {
    began: (cause) => epochs.inc({ cause }),
    lost: (count) => lost.inc(count),
  }
}
