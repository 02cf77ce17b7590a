// The agent's metrics about itself, for Prometheus. What monitors measured is rendered apart, because
// ten thousand of them are too many gauges to keep.
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client'
import { AGENT_MISSED_REASONS, type MissedReason, type Result } from '../contract/result.ts'
import { VERSION } from '../contract/versions.ts'
import { registerScraped } from './scraped-metrics.ts'

/** Slots and their outcomes: expected = recorded + handed over + those that wait or run. */
export interface SlotCounts {
  /** Slots that came due. */
  expected: number
  /** Slots that have their one result. */
  recorded: number
  /** Slots that others run since this agent leaves. */
  handedOver: number
}

/** Values that each scrape reads. */
export interface MetricSources {
  queues(): Record<string, { waiting: number; running: number }>
  slots(): SlotCounts
  monitors(): number
  clockOffsetMs(): number
  /** Whether the agent's own network does not work. */
  isNetworkLost(): boolean
}

/** Counts what happens; asks the sources for what is. */
export type AgentMetrics = ReturnType<typeof createAgentMetrics>

/** Makes the metrics in a registry of their own, with those of other parts. */
export function createAgentMetrics(
  sources: MetricSources,
  parts: readonly ({ registerMetrics?(registry: Registry): void } | undefined)[],
) {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  registerSources(registry, sources)
  const results = counter(registry, 'results_total', 'Results by verdict and type of monitor.', [
    'verdict',
    'type',
  ])
  const missed = counter(registry, 'missed_total', 'Slots that did not run, by reason.', ['reason'])
  // A rate does not see the first step of a series that begins with it.
  for (const reason of AGENT_MISSED_REASONS) missed.inc({ reason }, 0)
  const lateness = new Histogram({
    name: 'vedette_slot_lateness_seconds',
    help: 'From the instant at which a run was due to the start of its first attempt.',
    buckets: [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10],
    registers: [registry],
  })
  const retries = counter(registry, 'retries_total', 'Attempts after the first one.', ['type'])
  const notEnded = 'Runs that did not end when they were stopped.'
  const abandoned = counter(registry, 'abandoned_runs_total', notEnded, ['type'])
  const undelivered = counter(
    registry,
    'delivery_failures_total',
    'Results that could not be handed to delivery.',
  )
  const jumps = counter(registry, 'clock_jumps_total', 'Times the wall clock was set or slept.')
  const reloadedAt = new Map<string, number>()
  let isReloaded = false
  registerScraped(registry, Gauge, {
    config_last_reload_successful: [
      'Whether the newest monitors could be used (1), or those before them still run (0).',
      () => (isReloaded ? 1 : 0),
    ],
    config_last_reload_timestamp_seconds: [
      'When monitors were last read, by outcome.',
      () => reloadedAt,
      'outcome',
    ],
  })
  for (const part of parts) part?.registerMetrics?.(registry)
  return {
    started: (latenessMs: number) => lateness.observe(latenessMs / 1000),
    recorded: ({ verdict, checkType }: Pick<Result, 'verdict' | 'checkType'>) =>
      results.inc({ verdict, type: checkType }),
    missed: (reason: MissedReason, count: number) => missed.inc({ reason }, count),
    retried: (type: string) => retries.inc({ type }),
    abandoned: (type: string) => abandoned.inc({ type }),
    deliveryFailed: () => undelivered.inc(),
    clockJumped: () => jumps.inc(),
    reloaded(ok: boolean) {
      isReloaded = ok
      reloadedAt.set(ok ? 'ok' : 'failed', Date.now() / 1000)
    },
    /** Prometheus text format 0.0.4. */
    text: () => registry.metrics(),
  }
}

function counter(registry: Registry, name: string, help: string, labelNames: string[] = []) {
  return new Counter({ name: `vedette_${name}`, help, labelNames, registers: [registry] })
}

function registerSources(registry: Registry, sources: MetricSources): void {
  const queues = (part: 'waiting' | 'running') =>
    Object.entries(sources.queues()).map(([queue, state]) => [queue, state[part]] as const)
  registerScraped(registry, Gauge, {
    agent_info: ['Version of the agent; always 1.', () => [[VERSION, 1]], 'version'],
    queue_waiting: [
      'Jobs that are due and wait for a free place.',
      () => queues('waiting'),
      'queue',
    ],
    queue_running: ['Jobs that run.', () => queues('running'), 'queue'],
    monitors: ['Monitors with a place in the timetable.', () => sources.monitors()],
    clock_offset_seconds: [
      'Wall clock minus the clock of the timetable.',
      () => sources.clockOffsetMs() / 1000,
    ],
    network_unreachable: [
      'Whether the agent’s own network, or all of its system’s name servers, cannot be reached.',
      () => (sources.isNetworkLost() ? 1 : 0),
    ],
  })
  registerScraped(registry, Counter, {
    slots_expected_total: ['Slots that came due.', () => sources.slots().expected],
    slots_recorded_total: ['Slots that have their result.', () => sources.slots().recorded],
    slots_handed_over_total: [
      'Due slots that other agents run because this one stops.',
      () => sources.slots().handedOver,
    ],
  })
}
