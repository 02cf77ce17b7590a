// The agent's metrics about itself, for Prometheus. What monitors measured is rendered apart, because
// ten thousand of them are too many gauges to keep.
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client'
import { AGENT_MISSED_REASONS, type MissedReason, type Result } from '../contract/result.ts'
import { VERSION } from '../contract/versions.ts'

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
  registerGauges(registry, sources)
  const registers = [registry]
  const results = new Counter({
    name: 'vedette_results_total',
    help: 'Results by verdict and type of monitor.',
    labelNames: ['verdict', 'type'],
    registers,
  })
  const missed = new Counter({
    name: 'vedette_missed_total',
    help: 'Slots that did not run, by reason.',
    labelNames: ['reason'],
    registers,
  })
  // A rate does not see the first step of a series that begins with it.
  for (const reason of AGENT_MISSED_REASONS) missed.inc({ reason }, 0)
  const lateness = new Histogram({
    name: 'vedette_slot_lateness_seconds',
    help: 'From the instant at which a run was due to the start of its first attempt.',
    buckets: [...LATENESS_SECONDS],
    registers,
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

function registerGauges(registry: Registry, sources: MetricSources): void {
  const registers = [registry]
  new Gauge({
    name: 'vedette_agent_info',
    help: 'Version of the agent; always 1.',
    labelNames: ['version'],
    registers,
  }).set({ version: VERSION }, 1)
  const queueGauge = (name: string, help: string, part: 'waiting' | 'running') =>
    new Gauge({
      name,
      help,
      labelNames: ['queue'],
      registers,
      collect() {
        for (const [queue, state] of Object.entries(sources.queues())) {
          this.set({ queue }, state[part])
        }
      },
    })
  queueGauge('vedette_queue_waiting', 'Jobs that are due and wait for a free place.', 'waiting')
  queueGauge('vedette_queue_running', 'Jobs that run.', 'running')
  const gauge = (name: string, help: string, value: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(value())
      },
    })
  gauge('vedette_monitors', 'Monitors with a place in the timetable.', () => sources.monitors())
  gauge(
    'vedette_clock_offset_seconds',
    'Wall clock minus the clock of the timetable.',
    () => sources.clockOffsetMs() / 1000,
  )
  gauge(
    'vedette_network_unreachable',
    'Whether the agent’s own network, or all of its system’s name servers, cannot be reached.',
    () => (sources.isNetworkLost() ? 1 : 0),
  )
  const total = (name: string, help: string, value: () => number) =>
    new Counter({
      name,
      help,
      registers,
      collect() {
        this.reset()
        this.inc(value())
      },
    })
  total('vedette_slots_expected_total', 'Slots that came due.', () => sources.slots().expected)
  total(
    'vedette_slots_recorded_total',
    'Slots that have their result.',
    () => sources.slots().recorded,
  )
  total(
    'vedette_slots_handed_over_total',
    'Slots that had come due and that others run since this agent leaves.',
    () => sources.slots().handedOver,
  )
}
