// The agent's metrics about itself, for Prometheus. What monitors measured is rendered apart, because
// ten thousand of them are too many gauges to keep.
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client'
import { AGENT_MISSED_REASONS, type MissedReason, type Result } from '../contract/result.ts'
import { VERSION } from '../contract/versions.ts'
import { scrapedCounter, scrapedGauge, scrapedGauges } from './scraped-metrics.ts'

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
export interface AgentMetrics {
  started(latenessMs: number): void
  recorded(result: Pick<Result, 'verdict' | 'checkType'>): void
  /** `rows` of the count have been delivered as results, the rest are only counted. */
  missed(reason: MissedReason, count: number): void
  retried(checkType: string): void
  abandoned(checkType: string): void
  deliveryFailed(): void
  clockJumped(): void
  reloaded(ok: boolean): void
  /** Prometheus text format 0.0.4. */
  text(): Promise<string>
}

const LATENESS_SECONDS = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10,
] as const

/** Makes the metrics in a registry of their own; `more` adds those of other parts. */
export function createAgentMetrics(
  sources: MetricSources,
  more: (registry: Registry) => void = () => undefined,
): AgentMetrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  registerScraped(registry, sources)
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
    buckets: [...LATENESS_SECONDS],
    registers: [registry],
  })
  const retries = counter(registry, 'retries_total', 'Attempts after the first one.', ['type'])
  const abandoned = counter(
    registry,
    'abandoned_runs_total',
    'Runs that did not end when they were stopped.',
    ['type'],
  )
  const undelivered = counter(registry, 'delivery_failures_total', 'Results that a sink refused.')
  const jumps = counter(registry, 'clock_jumps_total', 'Times the wall clock was set or slept.')
  const reload = reloadGauges(registry)
  more(registry)
  return {
    started: (latenessMs) => lateness.observe(latenessMs / 1000),
    recorded: ({ verdict, checkType }) => results.inc({ verdict, type: checkType }),
    missed: (reason, count) => missed.inc({ reason }, count),
    retried: (type) => retries.inc({ type }),
    abandoned: (type) => abandoned.inc({ type }),
    deliveryFailed: () => undelivered.inc(),
    clockJumped: () => jumps.inc(),
    reloaded: reload,
    text: () => registry.metrics(),
  }
}

function counter(registry: Registry, name: string, help: string, labelNames: string[] = []) {
  return new Counter({ name: `vedette_${name}`, help, labelNames, registers: [registry] })
}

function reloadGauges(registry: Registry): (ok: boolean) => void {
  const registers = [registry]
  const successful = new Gauge({
    name: 'vedette_config_last_reload_successful',
    help: 'Whether the newest monitors could be used (1), or those before them still run (0).',
    registers,
  })
  const at = new Gauge({
    name: 'vedette_config_last_reload_timestamp_seconds',
    help: 'When monitors were last read, by outcome.',
    labelNames: ['outcome'],
    registers,
  })
  return (ok) => {
    successful.set(ok ? 1 : 0)
    at.set({ outcome: ok ? 'ok' : 'failed' }, Date.now() / 1000)
  }
}

function registerScraped(registry: Registry, sources: MetricSources): void {
  new Gauge({
    name: 'vedette_agent_info',
    help: 'Version of the agent; always 1.',
    labelNames: ['version'],
    registers: [registry],
  }).set({ version: VERSION }, 1)
  const queues = (part: 'waiting' | 'running') =>
    Object.entries(sources.queues()).map(([queue, state]) => [queue, state[part]] as const)
  const waiting = 'Jobs that are due and wait for a free place.'
  const label = 'queue'
  scrapedGauges(registry, { name: 'vedette_queue_waiting', help: waiting, label }, () =>
    queues('waiting'),
  )
  scrapedGauges(registry, { name: 'vedette_queue_running', help: 'Jobs that run.', label }, () =>
    queues('running'),
  )
  const gauge = (name: string, help: string, value: () => number) =>
    scrapedGauge(registry, `vedette_${name}`, help, value)
  gauge('monitors', 'Monitors with a place in the timetable.', () => sources.monitors())
  const offset = 'Wall clock minus the clock of the timetable.'
  gauge('clock_offset_seconds', offset, () => sources.clockOffsetMs() / 1000)
  const network =
    'Whether the agent’s own network, or all of its system’s name servers, cannot be reached.'
  gauge('network_unreachable', network, () => (sources.isNetworkLost() ? 1 : 0))
  const slots = (name: string, help: string, value: () => number) =>
    scrapedCounter(registry, `vedette_slots_${name}_total`, help, value)
  slots('expected', 'Slots that came due.', () => sources.slots().expected)
  slots('recorded', 'Slots that have their result.', () => sources.slots().recorded)
  const handedOver = 'Slots that had come due and that others run since this agent leaves.'
  slots('handed_over', handedOver, () => sources.slots().handedOver)
}
