// Counts of delivery, and its metrics for Prometheus: every produced result is delivered, waits, was refused or was
// lost.
import { Registry } from 'prom-client'
import { scrapedCounter, scrapedCounters, scrapedGauge } from '../scraped-metrics.ts'
import type { Spool } from './spool/spool.ts'

/** Counts since the start. */
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

/** Adds one to a count. */
export function count(counts: Map<string, number>, key: string): void {
  // Codes of later platforms are counted separately, up to a bound.
  const known = counts.has(key) || counts.size < 50 ? key : 'other'
  counts.set(known, (counts.get(known) ?? 0) + 1)
}

/** How long the oldest result has waited. Milliseconds. */
export function oldestAgeMs(spool: Spool): number {
  const oldestAt = spool.oldestAt()
  return oldestAt === Infinity ? 0 : Math.max(0, Date.now() - oldestAt)
}

/** Metrics in Prometheus' text format 0.0.4, in a registry of their own. */
export function createDeliveryMetrics(
  tally: DeliveryTally,
  spool: Spool,
  artifacts: { count(): number; bytes(): number },
): () => Promise<string> {
  const registry = new Registry()
  const counter = (name: string, help: string, value: () => number) =>
    scrapedCounter(registry, `vedette_${name}_total`, help, value)
  const counters = (
    name: string,
    help: string,
    label: string,
    values: () => Iterable<[string, number]>,
  ) => scrapedCounters(registry, { name: `vedette_${name}_total`, help, label }, values)
  const gauge = (name: string, help: string, value: () => number) =>
    scrapedGauge(registry, `vedette_${name}`, help, value)

  counter('results_produced', 'Results handed to delivery.', () => tally.produced)
  counter('results_adopted', 'Results taken over from an earlier process.', () => spool.found)
  counter('results_delivered', 'Results that the platform has.', () => tally.delivered)
  counter('spool_damaged', 'Files of the spool with damage.', () => spool.damagedPlaces)
  counter('delivery_sent_bytes', 'Bytes of batches and artifacts, as sent.', () => tally.bytesSent)
  counters('results_refused', 'Results refused for good.', 'code', () => tally.refused)
  counters('spool_dropped_results', 'Results lost before they were delivered.', 'reason', () =>
    Object.entries(spool.lost),
  )
  counters('delivery_batches', 'Batches by what came of them.', 'outcome', () => tally.batches)
  counters('artifacts', 'Artifacts by what came of them.', 'outcome', () => tally.artifacts)
  gauge('results_waiting', 'Results not delivered yet.', () => spool.waiting)
  gauge('spool_bytes', 'Bytes of results on disk.', () => spool.bytes)
  const foreign = 'Bytes of results that another key encrypted.'
  gauge('spool_foreign_bytes', foreign, () => spool.foreignBytes)
  gauge('spool_on_disk', 'Whether results are kept on disk (1) or in memory (0).', () =>
    spool.problem === undefined ? 1 : 0,
  )
  const age = 'Age of the oldest result not delivered.'
  gauge('results_oldest_age_seconds', age, () => oldestAgeMs(spool) / 1000)
  gauge('artifacts_waiting', 'Artifacts not delivered yet.', () => artifacts.count())
  gauge('artifact_spool_bytes', 'Bytes of artifacts on disk.', () => artifacts.bytes())
  return () => registry.metrics()
}
