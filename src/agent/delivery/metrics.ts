// Counts of delivery, and its metrics for Prometheus: every produced result is delivered, waits, was refused or was
// lost.
import { Counter, Gauge, Registry } from 'prom-client'
import type { Loss } from './stored-results.ts'

/** Counts; a plain object, so that it costs nothing where there are many. */
export interface DeliveryTally {
  /** Results that were handed over. */
  produced: number
  /** Acknowledged by the platform, those that it knew already included. */
  delivered: number
  /** By code: refused by the platform, or given up because it refuses their batch. */
  refused: Map<string, number>
  /** Batches by what came of them: the action, or the code of the error. */
  batches: Map<string, number>
  bytesSent: number
  artifacts: Map<string, number>
}

/** An empty tally. */
export function createTally(): DeliveryTally {
  return {
    produced: 0,
    delivered: 0,
    refused: new Map(),
    batches: new Map(),
    bytesSent: 0,
    artifacts: new Map(),
  }
}

/** Adds to a count. */
export function count(counts: Map<string, number>, key: string, by = 1): void {
  // Codes of later platforms are counted separately, up to a bound.
  const known = counts.has(key) || counts.size < 50 ? key : 'other'
  counts.set(known, (counts.get(known) ?? 0) + by)
}

/** Values that each scrape reads. */
export interface DeliverySources {
  waiting: () => number
  adopted: () => number
  spoolBytes: () => number
  /** Milliseconds; 0 when nothing waits. */
  oldestAgeMs: () => number
  lost: () => Readonly<Record<Loss, number>>
  damagedPlaces: () => number
  keptOnDisk: () => boolean
  foreignBytes: () => number
  artifactsWaiting: () => number
  artifactBytes: () => number
}

type Pairs = Iterable<readonly [string, number]>

/** Metrics in Prometheus' text format 0.0.4, in a registry of their own. */
export function createDeliveryMetrics(
  tally: DeliveryTally,
  sources: DeliverySources,
): () => Promise<string> {
  const registry = new Registry()
  registerCounters(registry, tally, sources)
  registerGauges(registry, sources)
  return () => registry.metrics()
}

function registerCounters(registry: Registry, tally: DeliveryTally, sources: DeliverySources) {
  const plain = (name: string, help: string, value: () => number) =>
    new Counter({
      name: `vedette_${name}_total`,
      help,
      registers: [registry],
      collect() {
        this.reset()
        this.inc(value())
      },
    })
  const labelled = (name: string, help: string, label: string, pairs: () => Pairs) =>
    new Counter({
      name: `vedette_${name}_total`,
      help,
      labelNames: [label],
      registers: [registry],
      collect() {
        this.reset()
        for (const [key, value] of pairs()) this.inc({ [label]: key }, value)
      },
    })
  plain('results_produced', 'Results handed to delivery.', () => tally.produced)
  plain('results_adopted', 'Results taken over from an earlier process.', sources.adopted)
  plain('results_delivered', 'Results that the platform has.', () => tally.delivered)
  plain('spool_damaged', 'Places in the spool that could not be read.', sources.damagedPlaces)
  plain('delivery_sent_bytes', 'Bytes of batches and artifacts, as sent.', () => tally.bytesSent)
  labelled('results_refused', 'Results refused for good.', 'code', () => tally.refused)
  labelled('spool_dropped_results', 'Results lost before they were delivered.', 'reason', () =>
    Object.entries(sources.lost()),
  )
  labelled('delivery_batches', 'Batches by what came of them.', 'outcome', () => tally.batches)
  labelled('artifacts', 'Artifacts by what came of them.', 'outcome', () => tally.artifacts)
}

function registerGauges(registry: Registry, sources: DeliverySources): void {
  const gauge = (name: string, help: string, value: () => number) =>
    new Gauge({
      name: `vedette_${name}`,
      help,
      registers: [registry],
      collect() {
        this.set(value())
      },
    })
  gauge('results_waiting', 'Results not delivered yet.', sources.waiting)
  gauge('spool_bytes', 'Bytes of results on disk.', sources.spoolBytes)
  gauge('spool_foreign_bytes', 'Bytes of results that another key encrypted.', sources.foreignBytes)
  gauge('spool_on_disk', 'Whether results are kept on disk (1) or in memory (0).', () =>
    sources.keptOnDisk() ? 1 : 0,
  )
  const ageSeconds = () => sources.oldestAgeMs() / 1000
  gauge('results_oldest_age_seconds', 'Age of the oldest result not delivered.', ageSeconds)
  gauge('artifacts_waiting', 'Artifacts not delivered yet.', sources.artifactsWaiting)
  gauge('artifact_spool_bytes', 'Bytes of artifacts on disk.', sources.artifactBytes)
}
