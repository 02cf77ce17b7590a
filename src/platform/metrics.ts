// The platform's metrics about itself, for Prometheus.
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import { VERSION } from '../contract/versions.ts'

export interface MetricSources {
  connections(): { open: number; idle: number; waiting: number }
  postgresRestarts(): number
}

/** The platform's metrics: counters of events, and gauges that read the sources. */
export interface PlatformMetrics {
  /** For the metrics of the platform's parts. */
  readonly registry: Registry
  /** A request was answered; without seconds for long polling. */
  answered(status: number, seconds: number | undefined): void
  /** Prometheus text format 0.0.4. */
  text(): Promise<string>
}

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** Syncs of agents and requests with `waitMs`: their duration says nothing about the platform. */
const HELD = /^https?:\/\/[^/]*\/agent\/v1\/sync(?:\?|$)|[?&]waitMs=/

/** Whether a request uses long polling. */
export function isLongPoll(url: string): boolean {
  return HELD.test(url)
}

/** Makes the metrics in a registry of their own. */
export function createPlatformMetrics(sources: MetricSources): PlatformMetrics {
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry })
  const requests = new Counter({
    name: 'vedette_http_requests_total',
    help: 'Requests to the API by status.',
    labelNames: ['status'],
    registers,
  })
  const durations = new Histogram({
    name: 'vedette_http_request_duration_seconds',
    help: 'From a request’s head to the start of its answer, but for those that wait for something.',
    buckets: SECONDS,
    registers,
  })
  new Gauge({
    name: 'vedette_platform_info',
    help: 'Version of the platform; always 1.',
    labelNames: ['version'],
    registers,
  }).set({ version: VERSION }, 1)
  registerStates(registry, sources)
  return {
    registry,
    answered(status, seconds) {
      requests.inc({ status })
      if (seconds !== undefined) durations.observe(seconds)
    },
    text: () => registry.metrics(),
  }
}

function registerStates(registry: Registry, sources: MetricSources): void {
  const connections: Gauge<'state'> = new Gauge({
    name: 'vedette_database_connections',
    help: 'Connections to the database by state, and what waits for one.',
    labelNames: ['state'],
    registers: [registry],
    collect() {
      for (const [state, count] of Object.entries(sources.connections())) {
        connections.set({ state }, count)
      }
    },
  })
  const restarts: Gauge = new Gauge({
    name: 'vedette_embedded_postgres_restarts',
    help: 'Times the embedded PostgreSQL died and was started again.',
    registers: [registry],
    collect() {
      restarts.set(sources.postgresRestarts())
    },
  })
}
